---The fields of a call's arguments, a table or JSON text. No JSON is parsed: text is scanned for its strings
---and numbers, which is enough to find a path, and ends on anything.
local present = require "compaction.present"

local MOST_DEPTH = 8
local MOST_FIELDS = 500

local ESCAPES = { n = "\n", t = "\t", r = "\r", b = "\b", f = "\f" }

local function unescape(words)
  if not words:find("\\", 1, true) then
    return words
  end
  return (
    words:gsub("\\(.)(%x?%x?%x?%x?)", function(c, hex)
      if c == "u" and #hex == 4 then
        local code = tonumber(hex, 16)
        return code < 128 and string.char(code) or "?"
      end
      return (ESCAPES[c] or c) .. hex
    end)
  )
end

-- The end of the string that starts behind the quote at `i`; nil where the text is cut.
local function string_end(json, i)
  local at = i + 1
  while true do
    local stop = json:find('["\\]', at)
    if stop == nil or json:byte(stop) == 34 then
      return stop
    end
    at = stop + 2
  end
end

local function scan(json, visit)
  local at, key, n = 1, nil, 0
  while n < MOST_FIELDS do
    local first = json:find('["%d-]', at)
    if first == nil then
      return
    end
    if json:byte(first) == 34 then
      local last = string_end(json, first)
      if last == nil then
        return
      end
      local words = unescape(json:sub(first + 1, last - 1))
      local colon = json:match("^%s*:()", last + 1)
      if colon then
        key = words
      elseif key then
        visit(key, words)
        n = n + 1
      end
      at = colon or last + 1
    else
      local number, behind = json:match("^(-?%d+)()", first)
      if number and key then
        visit(key, tonumber(number))
        n = n + 1
      end
      at = json:match("^[%w.+-]+()", behind or first) or first + 1
    end
  end
end

local function sorted_keys(t)
  local keys = {}
  for key in next, t do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) and (type(a) == "number" or type(a) == "string") then
      return a < b
    end
    return type(a) < type(b)
  end)
  return keys
end

local function walk(t, key, visit, depth, left)
  if depth > MOST_DEPTH then
    return left
  end
  for _, k in ipairs(sorted_keys(t)) do
    local value = present(t[k])
    local name = type(k) == "string" and k or key
    if left <= 0 then
      return 0
    elseif type(value) == "table" then
      left = walk(value, name, visit, depth + 1, left)
    elseif name and (type(value) == "string" or type(value) == "number") then
      visit(name, value)
      left = left - 1
    end
  end
  return left
end

---Call visit(key, value) for each string and number in the arguments, at any depth, in their order (a table:
---in the order of its keys). Elements of a list come under the list's key.
return function(arguments, visit)
  if type(arguments) == "table" then
    walk(arguments, nil, visit, 1, MOST_FIELDS)
  elseif type(arguments) == "string" then
    scan(arguments, visit)
  end
end
