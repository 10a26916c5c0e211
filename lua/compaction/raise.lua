---Raise an error as the functions in C do: with the place in the file of whoever called this library.
local getinfo = debug and debug.getinfo
local here = getinfo and getinfo(1, "S").source:match "^(.*)raise%.lua$" -- nil in a bundle

local function is_ours(source)
  return source:sub(1, #here) == here
end

---@param text string "bad argument #1 to 'fit' (…)"
return function(text)
  if here == nil then
    error(text, 0)
  end
  local level = 2
  local info = getinfo(level, "S")
  while info and is_ours(info.source) do
    level = level + 1
    info = getinfo(level, "S")
  end
  error(text, level)
end
