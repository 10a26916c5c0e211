---What can be told of messages without a model: what the user asked for, files, commands, errors, and the names
---and numbers that went through them. Nothing here knows a tool: what an argument means is told by its
---key, and the keys are data.
---
---Facts are lists of lines, oldest first. As text (`render`, `parse`) they stand in a summary, beside its
---prose, and are merged from round to round; what is said again becomes the newest.
local arguments = require "compaction.arguments"
local present = require "compaction.present"
local shape = require "compaction.shape"
local summary = require "compaction.summary"
local text = require "compaction.text"

local M = {}

-- The sections in the order of their text: the share of the budget that each may take where all want
-- more, and how many lines are remembered.
local SECTIONS = {
  { key = "requests", title = "Asked by the user:", share = 0.36, most = 400 },
  { key = "changed", title = "Files changed:", share = 0.14, most = 300 },
  { key = "read", title = "Files read:", share = 0.12, most = 300 },
  { key = "commands", title = "Commands:", share = 0.1, most = 100 },
  { key = "errors", title = "Last errors:", share = 0.1, most = 8 },
  { key = "named", title = "Names and numbers:", share = 0.12, most = 400 },
  { key = "seen", title = "Seen in results:", share = 0.06, most = 100 },
}

-- Keys of arguments, in lower case and without "_" and "-".
local function set(names)
  local of = {}
  for name in names:gmatch "%S+" do
    of[name] = true
  end
  return of
end
local FILES = set [[path paths file files filepath filepaths filename filenames absolutepath relativepath
  targetfile targetpath notebookpath sourcepath destinationpath oldpath newpath dirpath directory
  relativeworkspacepath source destination uri fileuri documenturi]]
local COMMANDS = set "command commands cmd commandline shellcommand script bash shell"
local CHANGES = set [[content contents newstring oldstring newstr oldstr newtext oldtext newcontent filetext
  patch diff edit edits change changes replace replacement inserttext codeedit newsource]]
local FROM = set "offset start startline linestart from firstline viewrange lines range line"
local TO = set "end endline lineend to lastline"
local COUNT = set "limit count numlines maxlines"
local NAMES =
  set "url urls id ids ref branch commit sha hash key query name symbol port host version ticket issue"

-- Words of results that tell of a failure.
local FAILURES = {
  "%f[%a][Ee]rror%f[%A]",
  "%f[%a]ERROR%f[%A]",
  "%u%l+Error%f[%A]",
  "%u%l+Exception%f[%A]",
  "%f[%a][Ff]atal%f[%A]",
  "%f[%a][Pp]anic%f[%A]",
  "%f[%a]FAIL",
  "%f[%a][Ff]ailed%f[%A]",
  "%f[%a]Traceback%f[%A]",
  "[Nn]o such file",
  "[Pp]ermission denied",
  "not found",
  "[Ee]xit[ %w]* [1-9]%d*%f[%D]",
}

local LONGEST_PATH = 300
local LONGEST_COMMAND = 300
local LONGEST_ERROR = 240
local LONGEST_NAME = 80
local ERRORS_OF_RESULT = 2
local NAMES_OF_RESULT = 24
local RANGES_OF_FILE = 4
-- Longer texts are looked at in their beginning and their end.
local SCANNED_BYTES = 60000
-- A request that does not fit whole is cut to one of these, before an older one is left out.
local REQUEST_BYTES = { 4000, 1500, 600, 240, 120 }

--
-- Lists in which the newest stands last, once
--

-- `order` holds entries, oldest first; those that were said again, or taken out, stay in it as gone.
local function new_list(most)
  return { most = most, at = {}, order = {} }
end

local function take_out(list, words)
  local entry = list.at[words]
  if entry then
    entry.gone = true
    list.at[words] = nil
  end
  return entry
end

-- Its entries, oldest first.
local function entries_of(list)
  local entries = {}
  for _, entry in ipairs(list.order) do
    entries[#entries + 1] = not entry.gone and entry or nil
  end
  list.order = entries
  return entries
end

-- Only the newest are remembered.
local function forget_old(list)
  if #list.order <= 2 * list.most then
    return
  end
  local entries = entries_of(list)
  for i = 1, #entries - list.most do
    take_out(list, entries[i].words)
  end
end

local function put(list, words)
  local earlier = take_out(list, words)
  local entry = { words = words, ranges = earlier and earlier.ranges }
  list.at[words] = entry
  list.order[#list.order + 1] = entry
  forget_old(list)
  return entry
end

---No facts yet.
function M.new()
  local facts = {}
  for _, section in ipairs(SECTIONS) do
    facts[section.key] = new_list(section.most)
  end
  return facts
end

--
-- Reading messages
--

local function one_line(words, most)
  words = words:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", "")
  return #words > most and text.cut_middle(words, most) or words
end

local function is_path(words)
  return type(words) == "string" and #words > 0 and #words <= LONGEST_PATH and not words:find "[%c]"
end

local function add_range(entry, range)
  if range == nil then
    return
  end
  entry.ranges, entry.item = entry.ranges or {}, nil
  for i, known in ipairs(entry.ranges) do
    if known == range then
      table.remove(entry.ranges, i)
      break
    end
  end
  entry.ranges[#entry.ranges + 1] = range
  if #entry.ranges > RANGES_OF_FILE then
    table.remove(entry.ranges, 1)
  end
end

local function add_file(facts, path, is_changed, range)
  local changed, read = facts.changed, facts.read
  if is_changed then
    take_out(read, path)
  end
  local list = (is_changed or changed.at[path]) and changed or read
  add_range(put(list, path), range)
end

-- Files that a patch names.
local function add_patched(facts, words)
  for path in words:gmatch "%*%*%* %a+ File: ([^\n]+)" do
    if is_path(path) then
      add_file(facts, path, true)
    end
  end
  for path in words:gmatch "\n%+%+%+ b/([^\n\t]+)" do
    if is_path(path) then
      add_file(facts, path, true)
    end
  end
end

local function range_of(from, to, count)
  if from == nil and to == nil then
    return count and ("1-%.0f"):format(count) or nil
  end
  from = from or 1
  to = to or count and from + count - 1
  return to and ("%.0f-%.0f"):format(from, to) or ("%.0f"):format(from)
end

local function add_name(list, words)
  if #words <= LONGEST_NAME then
    put(list, words)
  end
end

-- What the arguments of a call say.
local function read_call(facts, given)
  local paths, commands, is_changed = {}, {}, false
  local from, to, count
  arguments(given, function(key, value)
    key = key:lower():gsub("[_-]", "")
    if type(value) == "number" then
      if value % 1 ~= 0 or math.abs(value) > 2 ^ 53 then
        return
      elseif from ~= nil and to == nil and FROM[key] then
        to = value -- [from, to]
      elseif FROM[key] then
        from = value
      elseif TO[key] then
        to = value
      elseif COUNT[key] then
        count = value
      elseif NAMES[key] then
        add_name(facts.named, ("%s %.0f"):format(key, value))
      end
    elseif FILES[key] and is_path(value) then
      paths[#paths + 1] = value
    elseif COMMANDS[key] then
      commands[#commands + 1] = value
    elseif NAMES[key] and value:find "%S" and not value:find "%c" then
      add_name(facts.named, value)
    end
    is_changed = is_changed or CHANGES[key] or false
    if type(value) == "string" then
      add_patched(facts, value)
    end
  end)
  if type(given) == "string" and not given:find "^%s*[{%[]" then
    add_patched(facts, given) -- a patch by itself
  end
  for _, path in ipairs(paths) do
    add_file(facts, path, is_changed, #paths == 1 and range_of(from, to, count) or nil)
  end
  local command = one_line(table.concat(commands, " "), LONGEST_COMMAND)
  if command ~= "" then
    put(facts.commands, command)
  end
end

local function scanned(words)
  if #words <= SCANNED_BYTES then
    return words
  end
  return text.head(words, SCANNED_BYTES / 2) .. "\n" .. text.tail(words, SCANNED_BYTES / 2)
end

local function read_errors(facts, words)
  local found = 0
  for line in words:gmatch "[^\r\n]+" do
    for _, pattern in ipairs(FAILURES) do
      if line:find(pattern) then
        put(facts.errors, one_line(line, LONGEST_ERROR))
        found = found + 1
        break
      end
    end
    if found == ERRORS_OF_RESULT then
      break
    end
  end
end

-- Is it a word that would be missed: a number of some length, letters with digits, a path, A_NAME?
local function is_name(word, strict)
  if word:find "%d" then
    local _, digits = word:gsub("%d", "")
    if not word:find "%a" then
      return digits >= (strict and 5 or 3)
    end
    return not strict or digits >= 2 and #word >= 7
  end
  return not strict
    and (
      word:find "%w/%w.*%.%w+$" ~= nil
      or word:find "^%u[%u%d]*_[%u%d_]+$" ~= nil
      or word:find "%w_%w" ~= nil
      or word:find "%l%u%l" ~= nil
    )
end

-- Words of a text, numbers with the word before them.
local function read_names(list, words, strict, most)
  local found, before = 0, nil
  for word in scanned(words):gmatch "[%w_][%w_%-%.:/#@+=~]*[%w_]" do
    if #word >= 3 and is_name(word, strict) then
      if not word:find "%a" and before and #before < 30 and not before:find "^%d" then
        add_name(list, before .. " " .. word)
      else
        add_name(list, word)
      end
      found = found + 1
    end
    before = word
    if found == most then
      break
    end
  end
end

local function read_request(facts, message)
  local words = shape.text(message):gsub("^%s+", ""):gsub("%s+$", "")
  if words ~= "" then
    put(facts.requests, words)
    read_names(facts.named, words)
  end
end

---Facts of a text that `render` gave.
function M.parse(facts, words)
  local list, section, entry
  local function finish()
    if entry and list then
      local line, ranges = entry, nil
      if section.key == "changed" or section.key == "read" then
        line, ranges = entry:match "^(.-) %(lines ([%d, -]+)%)$"
        line = line or entry
      end
      local known = put(list, line)
      for range in (ranges or ""):gmatch "[%d-]+" do
        add_range(known, range)
      end
    end
    entry = nil
  end
  for line in (words .. "\n"):gmatch "([^\n]*)\n" do
    local item = line:match "^%- (.*)$"
    if item then
      finish()
      entry = item
    elseif line:sub(1, 2) == "  " and entry then
      entry = entry .. "\n" .. line:sub(3)
    else
      finish()
      for _, s in ipairs(SECTIONS) do
        if line == s.title then
          list, section = facts[s.key], s
        end
      end
    end
  end
  finish()
end

---Add what a message says.
function M.read(facts, message)
  local mark = shape.mark(message)
  local earlier = mark and present(mark.facts)
  if type(earlier) == "string" then -- of what was cut out of it
    M.parse(facts, earlier)
  end
  local role = shape.role(message)
  if shape.is_summary(message) then
    local _, block = summary.read(message)
    M.parse(facts, block)
  elseif role == "user" then
    read_request(facts, message)
  elseif role == "tool" then
    local words = shape.text(message)
    if not (mark and mark.pruned) then
      read_errors(facts, scanned(words))
      read_names(facts.seen, words, true, NAMES_OF_RESULT)
    end
  else
    read_names(facts.named, shape.text(message))
  end
  for _, call in ipairs(shape.calls(message)) do
    local _, given = shape.called(call)
    read_call(facts, given)
  end
end

---Facts of messages, oldest first.
function M.of(messages)
  local facts = M.new()
  for _, message in ipairs(messages) do
    M.read(facts, message)
  end
  return facts
end

--
-- As text
--

-- A line begins with "- "; what follows in it is indented.
local function item_of(entry, most)
  local words = entry.words
  if most and #words > most then
    words = text.cut_middle(words, most) or words
  end
  if entry.ranges then
    words = ("%s (lines %s)"):format(words, table.concat(entry.ranges, ", "))
  end
  return "- " .. words:gsub("\n", "\n  ")
end

local function items_of(list, most)
  local items, bytes = {}, 0
  for i, entry in ipairs(entries_of(list)) do
    entry.item = entry.item or item_of(entry)
    items[i] = most and #entry.words > most and item_of(entry, most) or entry.item
    bytes = bytes + #items[i] + 1
  end
  return items, bytes
end

-- The newest that fit; of requests the first one, too: it said what all is about.
local function newest_within(items, bytes, with_first)
  local kept, first = {}, nil
  if with_first and items[1] and #items > 1 and #items[1] + 1 <= bytes / 2 then
    first = items[1]
    bytes = bytes - #first - 1
  end
  for i = #items, first and 2 or 1, -1 do
    if #items[i] + 1 > bytes then
      break
    end
    bytes = bytes - #items[i] - 1
    table.insert(kept, 1, items[i])
  end
  if first then
    table.insert(kept, 1, first)
  end
  return kept
end

-- The items of a section in at most so many bytes.
local function section_items(section, list, bytes)
  local items, all = items_of(list)
  if section.key == "requests" then
    for _, most in ipairs(REQUEST_BYTES) do
      if all <= bytes then
        break
      end
      items, all = items_of(list, most)
    end
  end
  return all <= bytes and items or newest_within(items, bytes, section.key == "requests")
end

---The facts as text, in at most so many bytes; "" where there is none.
function M.render(facts, bytes)
  local wanted, left, shares = {}, bytes, 0
  local some = {}
  for _, section in ipairs(SECTIONS) do
    local _, all = items_of(facts[section.key])
    if all > 0 then
      wanted[section.key] = all + #section.title + 1
      some[#some + 1] = section
    end
  end
  -- What a section does not need, the others may have.
  table.sort(some, function(a, b)
    return wanted[a.key] / a.share < wanted[b.key] / b.share
  end)
  for _, section in ipairs(some) do
    shares = shares + section.share
  end
  local given = {}
  for _, section in ipairs(some) do
    given[section.key] = math.min(wanted[section.key], math.floor(left * section.share / shares))
    left, shares = left - given[section.key], shares - section.share
  end
  local lines = {}
  for _, section in ipairs(SECTIONS) do
    if given[section.key] then
      local items = section_items(section, facts[section.key], given[section.key] - #section.title - 1)
      if #items > 0 then
        lines[#lines + 1] = section.title
        for _, item in ipairs(items) do
          lines[#lines + 1] = item
        end
      end
    end
  end
  return table.concat(lines, "\n")
end

-- Of a summary that must be short, for its prose.
local PROSE_SHARE = 0.5

---Prose and facts of a summary in at most so many bytes.
function M.within(prose, facts, bytes)
  local most = math.max(math.floor(bytes * PROSE_SHARE), 1)
  if #prose > most then
    prose = text.cut_middle(prose, most) or prose
  end
  return prose, M.render(facts, math.max(bytes - #prose, 0))
end

return M
