---A damaged list of messages into one whose structure any provider accepts.
local checked = require "compaction.checked"
local core = require "compaction.core"
local present = require "compaction.present"
local raise = require "compaction.raise"
local shape = require "compaction.shape"
local options_of = require "compaction.options"

local NO_RESULT = "[The result of this call is missing.]"
local NOTHING_LEFT = "[The messages before this point are missing.]"

-- An id as text; nil for one that cannot tell a call from another.
local function id_of(value)
  value = present(value)
  if value == nil or value == "" then
    return nil
  elseif type(value) == "number" then
    return (value % 1 == 0 and "%.0f" or "%.17g"):format(value)
  end
  return tostring(value)
end

local function text_field(t, key)
  local value = present(t[key])
  return type(value) == "string" and value ~= "" and value or nil
end

local function calls_of(message, at)
  local calls = present(message.role) == "assistant" and present(message.tool_calls) or nil
  if calls == nil then
    return {}
  elseif type(calls) ~= "table" then
    raise(("bad argument #1 to 'repair' (%s.tool_calls: table expected, got %s)"):format(at, type(calls)))
  end
  local found = {}
  for k = 1, shape.length(calls) do
    local call = calls[k]
    if type(call) ~= "table" or present(call) == nil then
      raise(
        ("bad argument #1 to 'repair' (%s.tool_calls[%d]: table expected, got %s)"):format(at, k, type(call))
      )
    end
    local called = present(call["function"])
    found[k] = {
      given = present(call.id),
      id = id_of(call.id),
      name = type(called) == "table" and text_field(called, "name") or nil,
    }
  end
  return found
end

-- What the list holds: an entry for each message, with the calls that it makes.
local function read(messages, n)
  local entries = {}
  for i = 1, n do
    local message, at = messages[i], ("messages[%d]"):format(i)
    if type(message) ~= "table" or present(message) == nil then
      raise(("bad argument #1 to 'repair' (%s: table expected, got %s)"):format(at, type(message)))
    end
    local entry = { index = i, message = message, calls = calls_of(message, at), results = {} }
    entry.is_result = present(message.role) == "tool"
    for _, call in ipairs(entry.calls) do
      call.owner = entry
    end
    entries[i] = entry
  end
  return entries
end

--
-- Pairing
--

local function pair(call, result)
  call.result, result.call = result, call
end

-- Open calls by id as the list goes by: for each id a stack of assistant messages, the newest last.
local function open_calls(opened, entry)
  local batch = {}
  for _, call in ipairs(entry.calls) do
    if call.id then
      batch[call.id] = batch[call.id] or {}
      table.insert(batch[call.id], call)
    end
  end
  for id, calls in pairs(batch) do
    opened[id] = opened[id] or {}
    table.insert(opened[id], { calls = calls, next = 1 })
  end
end

-- Looked at for one of the right name, where a message repeats an id in many calls.
local SAME_ID_CALLS = 32

-- The newest open call with the id; where one message repeats it, one of that name, or the first.
local function newest_open(stack, name)
  while #stack > 0 do
    local batch = stack[#stack]
    while batch.calls[batch.next] and batch.calls[batch.next].result do
      batch.next = batch.next + 1
    end
    local first = batch.calls[batch.next]
    for k = batch.next, name and math.min(batch.next + SAME_ID_CALLS, #batch.calls) or 0 do
      if batch.calls[k].result == nil and batch.calls[k].name == name then
        return batch.calls[k]
      end
    end
    if first then
      return first
    end
    table.remove(stack)
  end
end

-- Results with the id of an earlier call. A second result of a call is `duplicate`.
local function pair_by_id(entries)
  local opened = {}
  for _, entry in ipairs(entries) do
    local id = entry.is_result and id_of(entry.message.tool_call_id) or nil
    if id and opened[id] then
      local call = newest_open(opened[id], text_field(entry.message, "name"))
      if call then
        pair(call, entry)
      else
        entry.duplicate = true
      end
    end
    open_calls(opened, entry)
  end
end

-- The first open call of a list, which remembers how far it has been searched.
local function first_open(calls)
  if calls == nil then
    return nil
  end
  calls.next = calls.next or 1
  while calls[calls.next] and calls[calls.next].result do
    calls.next = calls.next + 1
  end
  return calls[calls.next]
end

-- Calls in order, and by name (false: without one).
local function queues_of(calls)
  local by_name = {}
  for _, call in ipairs(calls) do
    local name = call.name or false
    by_name[name] = by_name[name] or {}
    table.insert(by_name[name], call)
  end
  return { all = calls, names = by_name }
end

-- Give each result that has none yet its call: `find(result)`.
local function pair_each(results, find)
  for _, result in ipairs(results) do
    local call = result.call == nil and find(result)
    if call then
      pair(call, result)
    end
  end
end

local function name_of(result)
  return text_field(result.message, "name")
end

-- Results without a usable id, to the open calls of the batch before them: by name, then in order; first
-- to the calls that have no id either. Those that bear an id which no call has come last, and are
-- not meant for a call that bears another.
local function pair_batch(batch, results)
  local bare_calls, without_id, with_id = {}, {}, {}
  for _, call in ipairs(batch.calls) do
    bare_calls[#bare_calls + 1] = call.id == nil and call or nil
  end
  for _, result in ipairs(results) do
    local list = id_of(result.message.tool_call_id) and with_id or without_id
    list[#list + 1] = result
  end
  local bare, any = queues_of(bare_calls), queues_of(batch.calls)
  local function by_name(queues)
    return function(result)
      local name = name_of(result)
      return name and first_open(queues.names[name])
    end
  end
  local function in_order(queues)
    return function(result)
      if name_of(result) then
        return first_open(queues.names[false]) -- a call without a name may be of any
      end
      return first_open(queues.all)
    end
  end
  for _, find in ipairs { by_name(bare), by_name(any), in_order(bare), in_order(any) } do
    pair_each(without_id, find)
  end
  pair_each(with_id, by_name(bare))
  pair_each(with_id, in_order(bare))
end

local function pair_by_place(entries)
  local batch, results
  for _, entry in ipairs(entries) do
    if #entry.calls > 0 then
      if batch then
        pair_batch(batch, results)
      end
      batch, results = entry, {}
    elseif batch and entry.is_result and entry.call == nil and not entry.duplicate then
      results[#results + 1] = entry
    end
  end
  if batch then
    pair_batch(batch, results)
  end
end

--
-- Empty messages
--

local function has_items(value)
  value = present(value)
  return type(value) == "table" and (shape.length(value) > 0 or next(value) ~= nil)
end

-- Is there anything in a content? A value that is none raises.
local function has_content(entry)
  local content = present(entry.message.content)
  if type(content) == "string" then
    return content:find "%S" ~= nil
  elseif content ~= nil and type(content) ~= "table" then
    local place = ("messages[%d].content"):format(entry.index)
    raise(
      ("bad argument #1 to 'repair' (%s: string or list of parts expected, got %s)"):format(
        place,
        type(content)
      )
    )
  end
  return has_items(content)
end

local function is_empty(entry)
  local message = entry.message
  return present(message.role) == "assistant"
    and #entry.calls == 0
    and present(message.function_call) == nil
    and not has_content(entry)
    and not has_items(message.multi_content)
    and (present(message.reasoning_content) == nil or message.reasoning_content == "")
end

--
-- The new list
--

local function placeholder(call)
  return {
    role = "tool",
    tool_call_id = call.given,
    name = call.name,
    content = NO_RESULT,
    compaction = { version = 1, placeholder = true },
  }
end

-- The message without its calls that nothing answers. What it was made of holds them still.
local function without_open_calls(entry)
  local message, calls = shape.copy(entry.message), entry.message.tool_calls
  local answered = {}
  for k, call in ipairs(entry.calls) do
    answered[#answered + 1] = call.result and calls[k] or nil
  end
  local meta = getmetatable(calls)
  if type(meta) == "table" and meta.__index == nil then
    setmetatable(answered, meta) -- cjson's array_mt and its like
  end
  shape.set(message, "tool_calls", #answered > 0 and answered or nil, {})
  shape.set(message, "native", nil, false)
  return message, #entry.calls - #answered
end

-- Results that stand elsewhere than directly behind their call and its other results.
local function count_moved(entries)
  local moved, owner = 0, nil
  for _, entry in ipairs(entries) do
    if entry.call then
      moved = moved + (entry.call.owner ~= owner and 1 or 0)
    end
    if not entry.is_result and not entry.gone then
      owner = entry
    end
  end
  return moved
end

local M = {}

-- Add an assistant message with its results, and what stands in for those that are missing.
local function add_batch(add, entry, drop_calls, report)
  local message = entry.message
  local open = {}
  for _, call in ipairs(entry.calls) do
    open[#open + 1] = call.result == nil and call or nil
  end
  if drop_calls and #open > 0 then
    local removed
    message, removed = without_open_calls(entry)
    report.dropped = report.dropped + removed
    if removed == #entry.calls and is_empty { message = message, calls = {}, index = entry.index } then
      report.empty = report.empty + 1
      return
    end
  end
  add(message, entry.index)
  for _, result in ipairs(entry.results) do
    add(result.message, result.index)
  end
  for _, call in ipairs(drop_calls and {} or open) do
    report.placeholders = report.placeholders + 1
    add(placeholder(call))
  end
end

---Repair; also for `fit`, which needs to know where each message came from (false: from here).
function M.run(messages, drop_calls, n)
  local entries = read(messages, n)
  local report = { dropped = 0, duplicates = 0, placeholders = 0, moved = 0, empty = 0, added = 0 }
  local out, origins = {}, {}
  local function add(message, index)
    out[#out + 1] = message
    origins[#out] = index or false
  end
  pair_by_id(entries)
  pair_by_place(entries)
  for _, entry in ipairs(entries) do
    if entry.call then
      table.insert(entry.call.owner.results, entry)
    elseif entry.duplicate then
      report.duplicates = report.duplicates + 1
    elseif entry.is_result then
      report.dropped = report.dropped + 1
    elseif is_empty(entry) then
      entry.gone = true
      report.empty = report.empty + 1
    end
  end
  report.moved = count_moved(entries)
  local system = 0
  for _, entry in ipairs(entries) do
    if not entry.is_result and not entry.gone then
      system = system + (shape.is_front(entry.message) and 1 or 0)
      add_batch(add, entry, drop_calls, report)
    end
  end
  if #out == system then
    report.added = 1
    add { role = "user", content = NOTHING_LEFT, compaction = { version = 1, placeholder = true } }
  end
  return out, report, origins
end

---@see compaction.repair in types.lua
function M.repair(messages, options)
  local n = checked("repair", core.count_messages, messages, "repair")
  local o = options_of("repair", 2, options, { calls = "string" })
  if o.calls ~= nil and o.calls ~= "drop" and o.calls ~= "placeholder" then
    raise(
      ("bad argument #2 to 'repair' (options.calls: 'placeholder' or 'drop' expected, got '%s')"):format(
        o.calls
      )
    )
  end
  local out, report = M.run(messages, o.calls == "drop", n)
  return out, report
end

return M
