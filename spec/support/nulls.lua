-- Every value that some JSON library puts where nothing is: { name, value }.
local nulls = {
  { name = "cjson.null", value = require("cjson").null },
  { name = "dkjson.null", value = require("dkjson").null },
  { name = "a function (luajson's null)", value = function() end },
}

-- Neovim's null is a full userdata known by how it prints. Outside of Neovim a file handle
-- stands in for it.
if vim then
  nulls[#nulls + 1] = { name = "vim.NIL", value = vim.NIL }
else
  local handle = assert(io.tmpfile())
  debug.setmetatable(handle, {
    __tostring = function()
      return "vim.NIL"
    end,
  })
  nulls[#nulls + 1] = { name = "a stand-in for vim.NIL", value = handle }
end

return nulls
