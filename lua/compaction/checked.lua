---Calls into the core on behalf of a function written in Lua, which is named in the errors.
local raise = require "compaction.raise"

local function answer(name, ok, ...)
  if ok then
    return ...
  end
  local text = ...
  if type(text) ~= "string" then
    error(text, 0)
  end
  text = text:match "bad argument #.*$" or text
  raise((text:gsub("^(bad argument #%d+ to ')[%w_]+'", "%1" .. name .. "'")))
end

---f(...), whose errors are of the function `name`.
return function(name, f, ...)
  return answer(name, pcall(f, ...))
end
