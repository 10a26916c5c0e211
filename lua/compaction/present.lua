---The value, or nil where it says "nothing here": each JSON library has a null of its own.
local absent = require("compaction.core").is_absent

return function(value)
  local kind = type(value)
  if kind == "string" or kind == "number" or kind == "boolean" then
    return value
  elseif value == nil or absent(value) then
    return nil
  end
  return value
end
