---Options of the Lua functions: unknown ones are typos, and raise.
local core = require "compaction.core"
local raise = require "compaction.raise"

local function names_of(known)
  local names = {}
  for name in pairs(known) do
    names[#names + 1] = name
  end
  table.sort(names)
  return table.concat(names, ", ")
end

local NUMBERS = { tokens = "tokens (a whole number)", share = "share (a number from 0 to 1)" }

local function is_wanted(value, wanted)
  if wanted == "tokens" then
    return type(value) == "number" and value >= 0 and value <= 2 ^ 53 and value % 1 == 0
  end
  if wanted == "share" then
    return type(value) == "number" and value >= 0 and value <= 1
  end
  return wanted == "any" or (" " .. wanted .. " "):find(" " .. type(value) .. " ", 1, true) ~= nil
end

---A copy of the options that a function was called with. `known` gives for each name what is
---wanted: types ("string or function"), "tokens" (a whole number, not negative), "share" (0 to 1) or "any". Values that
---say "nothing here" are left out. `name` is what the argument is called (options).
return function(func, number, options, known, name)
  local copy = {}
  name = name or "options"
  if options == nil or core.is_absent(options) then
    return copy
  elseif type(options) ~= "table" then
    raise(("bad argument #%d to '%s' (table expected, got %s)"):format(number, func, type(options)))
  end
  for key, value in pairs(options) do
    local wanted = known[key]
    if wanted == nil then
      raise(
        ("bad argument #%d to '%s' (unknown option '%s' (known: %s))"):format(
          number,
          func,
          tostring(key),
          names_of(known)
        )
      )
    elseif type(value) == "function" and wanted:find("function", 1, true) or not core.is_absent(value) then
      if not is_wanted(value, wanted) then
        local got = type(value) == "number" and tostring(value) or type(value)
        wanted = NUMBERS[wanted] or wanted
        raise(
          ("bad argument #%d to '%s' (%s.%s: %s expected, got %s)"):format(
            number,
            func,
            name,
            key,
            wanted,
            got
          )
        )
      end
      copy[key] = value
    end
  end
  return copy
end
