-- JSON for the specs, each decoder with the null that its users meet.
local M = {}

function M.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

-- { name, decode, null } of every decoder there is here.
M.decoders = {}

local function add(name, decode, null)
  M.decoders[#M.decoders + 1] = { name = name, decode = decode, null = null }
end

local cjson = require "cjson"
add("cjson", cjson.decode, cjson.null)

local dkjson = require "dkjson"
add("dkjson", dkjson.decode, nil)
add("dkjson with its null", function(text)
  return (dkjson.decode(text, 1, dkjson.null))
end, dkjson.null)

if vim then
  add("vim.fn.json_decode", vim.fn.json_decode, vim.NIL)
end

M.decode = cjson.decode

return M
