---The messages of one conversation beside its native state: what is sent, and what it costs.
local checked = require "compaction.checked"
local core = require "compaction.core"
local present = require "compaction.present"
local raise = require "compaction.raise"
local shape = require "compaction.shape"
local shorten = require "compaction.shorten"
local summaries = require "compaction.summary"

-- A request that must be cut keeps this part of the room, as the plan has it.
local REQUEST_OF_ROOM = 0.15
local TRIES = 8
-- Fields of a message that stay with the host; and how deep what is sent may be nested.
local NOT_SENT = { native = true, usage = true, compaction = true }
local MOST_DEPTH = 12

local History = {}
History.__index = History

local M = {}

---@param o table adapter (nil: messages are ours), sizing = { estimator, families, model }, limit, fixed
function M.new(o)
  local self =
    setmetatable({ list = {}, adapter = o.adapter, sizing = o.sizing, made = {}, version = 0 }, History)
  setmetatable(self.made, { __mode = "k" }) -- how many messages each native table made
  self.sent_sizes = setmetatable({}, { __mode = "k" }) -- of messages, in bytes
  self:forget_usage()
  self.conversation = checked("compactor", core.conversation, nil, {
    estimator = o.sizing.estimator,
    families = o.sizing.families,
    model = o.sizing.model,
    limit = o.limit,
  })
  if o.fixed ~= nil then
    checked("compactor", self.conversation.set_fixed, self.conversation, o.fixed)
  end
  return self
end

--
-- Coming and going
--

local function is_run(native)
  return type(native) == "table" and native[1] ~= nil
end

-- A run of items that was begun by an earlier append goes on: one assistant message.
function History:continue_run(messages)
  local last, first = self.list[#self.list], messages[1]
  local runs = self.adapter and self.adapter.makes_runs and last and first
  if
    not runs
    or shape.role(last) ~= "assistant"
    or shape.role(first) ~= "assistant"
    or last.native == nil
  then
    return false
  end
  local items = {}
  for _, message in ipairs { last, first } do
    for _, item in ipairs(is_run(message.native) and message.native or { message.native }) do
      items[#items + 1] = item
    end
  end
  local whole = self.adapter.to_messages(items)[1]
  checked("append", self.conversation.set, self.conversation, #self.list, whole)
  self.list[#self.list] = whole
  self:forget_usage()
  self.made[whole.native] = 1
  table.remove(messages, 1)
  return true
end

-- A message, or a list of them: as a list of ours.
local function to_list(adapter, value)
  if type(value) ~= "table" or present(value) == nil then
    raise(("bad argument #1 to 'append' (message or list of messages expected, got %s)"):format(type(value)))
  elseif adapter then
    return adapter.to_messages(value)
  elseif present(value.role) ~= nil then
    return { value }
  end
  local n = checked("append", core.count_messages, value, "append")
  local list = {}
  for i = 1, n do
    list[i] = value[i]
  end
  return list
end

---Append one message or a list, all of it or nothing.
function History:append(value)
  local messages = to_list(self.adapter, value)
  self:continue_run(messages)
  if #messages > 0 then
    checked("append", self.conversation.append, self.conversation, messages)
  end
  for _, message in ipairs(messages) do
    self.list[#self.list + 1] = message
    local native = message.native
    if type(native) == "table" then
      self.made[native] = (self.made[native] or 0) + 1
    end
  end
end

-- Jobs that were made before are void; and what a provider may have cached ends before message i.
function History:note_change(i)
  self.version = self.version + 1
  self:forget_usage()
  self.changed = math.min(self.changed or i, i)
end

---The first index that changed since the last call.
function History:take_change()
  local first = self.changed
  self.changed = nil
  return first
end

---Put a smaller message in place of message i; false, and nothing has changed, if it is not smaller.
function History:put_smaller(i, message)
  local before = self.conversation:estimate(i, i)
  self.conversation:set(i, message)
  if self.conversation:estimate(i, i) >= before then
    self.conversation:set(i, self.list[i])
    return false
  end
  self.list[i] = message
  self:note_change(i)
  return true
end

-- Tokens of a message as it would count here.
function History:size_of(message)
  local alone = core.conversation({ message }, self.sizing)
  return math.ceil(alone:estimate(1, 1) * self.conversation:scale())
end

-- The request in at most so many tokens.
function History:cut_request(message, most)
  local copy = message
  for _ = 1, TRIES do
    local size = self:size_of(copy)
    if size <= most then
      break
    end
    local bytes = shorten.bytes(copy)
    local smaller = shorten.shorten(copy, math.max(math.ceil(bytes * (size - most) / size), 1))
    if smaller == nil then
      break
    end
    copy = smaller
  end
  return copy
end

---Put a summary where a verdict says; the report.
function History:replace(verdict, prose, facts)
  local list, c = self.list, self.conversation
  local before, front, n = c:used(), verdict.first - 1, #list
  local carried = verdict.request and list[verdict.request]
  if carried and verdict.item == verdict.request then
    carried = self:cut_request(carried, math.floor(self:room(verdict.trigger) * REQUEST_OF_ROOM))
  end
  local kept = n - verdict.keep_from + 1 + (carried and 1 or 0)
  local fixed = c:calibration().fixed
  local mark = { version = 1, kept = kept, fixed = fixed > 0 and fixed or nil }
  local summary = { role = "user", content = summaries.content(prose, facts), compaction = mark }
  local as_it_is = carried ~= nil and carried == list[verdict.request]
  c:replace(verdict.keep_from, summary, as_it_is and verdict.request or carried)

  local new = {}
  for i = 1, front do
    new[i] = list[i]
  end
  new[#new + 1] = summary
  new[#new + 1] = carried or nil
  for i = verdict.keep_from, n do
    new[#new + 1] = list[i]
  end
  self.list = new
  self:note_change(front + 1)
  return {
    before = before,
    after = c:used(),
    dropped = n - front - kept,
    kept = kept,
    summary = c:estimate(front + 1, front + 1),
  }
end

---Take another list in place of all, as it was repaired.
function History:reset(list)
  local c = self.conversation
  c:truncate(0)
  c:append(list)
  self.list = list
  self:note_change(1)
end

--
-- Questions
--

function History:count()
  return #self.list
end

function History:message(i)
  return self.list[i]
end

function History:used()
  return (self.conversation:used())
end

---Tokens of the next prompt by the sizes of its messages alone.
function History:sum()
  local c = self.conversation
  return c:calibration().fixed + (#c > 0 and c:estimate(1, #c) or 0)
end

---Was the newest message answered to a prompt that was counted?
function History:ends_counted()
  local last = self.list[#self.list]
  local _, source = self.conversation:used()
  return last ~= nil and shape.role(last) == "assistant" and source == "anchor"
end

-- Where the newest usage stands, and what is behind it, is to be looked at again.
function History:forget_usage()
  self.looked_at, self.newest_usage, self.behind_usage = 0, 0, 0
end

-- Each message is looked at once.
function History:look_for_usage()
  for i = self.looked_at + 1, #self.list do
    if present(self.list[i].usage) ~= nil then
      self.newest_usage, self.behind_usage = i, 0
    else
      self.behind_usage = self.behind_usage + self:size(i)
    end
  end
  self.looked_at = #self.list
end

---First of the messages that no provider has counted yet: behind the newest usage.
function History:first_uncounted()
  self:look_for_usage()
  return self.newest_usage + 1
end

---Tokens of the messages that no provider has counted yet.
function History:uncounted()
  self:look_for_usage()
  return self.behind_usage
end

function History:size(i)
  return self.conversation:estimate(i, i)
end

---The largest message from `first` on, of those that are not in `skip`; nil if there is none.
function History:largest(first, skip)
  local best
  for i = first, #self.list do
    if not (skip and skip[i]) and (best == nil or self:size(i) > self:size(best)) then
      best = i
    end
  end
  return best
end

-- Bytes of all strings within, as JSON has them; what stands around them is little.
local function string_bytes(value, depth)
  if type(value) == "string" then
    local _, escaped = value:gsub('[%c"\\]', "")
    return #value + escaped
  elseif type(value) ~= "table" or depth == 0 then
    return 0
  end
  local bytes = 0
  for key, item in next, value do
    bytes = bytes + (NOT_SENT[key] and 0 or string_bytes(item, depth - 1))
  end
  return bytes
end

---Bytes of a message in a request body, about. Each is looked at once.
function History:sent_bytes(i)
  local message = self.list[i]
  local bytes = self.sent_sizes[message]
  if bytes == nil then
    bytes = string_bytes(message, MOST_DEPTH)
    self.sent_sizes[message] = bytes
  end
  return bytes
end

---Bytes of a message that can be cut.
function History:bytes(i)
  return shorten.bytes(self.list[i])
end

---Number of leading system messages.
function History:front()
  local n = 0
  while self.list[n + 1] and shape.is_front(self.list[n + 1]) do
    n = n + 1
  end
  return n
end

---First message of the newest unit.
function History:newest_unit()
  local front = self:front()
  for i = #self.list, front + 1, -1 do
    if self.conversation:can_cut(i) then
      return i
    end
  end
  return front + 1
end

---Name of the tool whose result message i is; nil if nothing tells.
function History:tool(i)
  local message = self.list[i]
  local name, id = present(message.name), present(message.tool_call_id)
  if shape.role(message) ~= "tool" or name ~= nil then
    return shape.role(message) == "tool" and name or nil
  end
  for k = i - 1, 1, -1 do
    for _, call in ipairs(shape.calls(self.list[k])) do
      if id ~= nil and present(call.id) == id then
        return (shape.called(call))
      end
    end
  end
end

---What the trigger leaves for messages behind the front.
function History:room(trigger)
  return trigger - self.conversation:calibration().fixed - self.conversation:estimate(1, self:front())
end

function History:slice(first, last)
  local messages = {}
  for i = first, last do
    messages[#messages + 1] = self.list[i]
  end
  return messages
end

---Tokens of a summary.
function History:summary_size(prose, facts)
  return self:size_of { role = "user", content = summaries.content(prose, facts) }
end

---The longest summary that `make(bytes)` gives, prose and facts, that costs at most so many tokens.
function History:summary_within(make, tokens)
  local bytes = tokens * 4
  local prose, facts = make(bytes)
  for _ = 1, TRIES do
    if self:summary_size(prose, facts) <= tokens then
      break
    end
    bytes = math.floor(math.min(bytes, #prose + #facts) * 0.75)
    prose, facts = make(bytes)
  end
  return prose, facts
end

--
-- What is sent
--

local function add_native(out, native)
  for _, item in ipairs(is_run(native) and native or { native }) do
    out[#out + 1] = item
  end
end

---The messages to send, in the host's shape. A native table goes back untouched, once, where all that was
---made of it is still there; else each message is made anew.
function History:sent()
  local out = {}
  if self.adapter == nil then
    for i, message in ipairs(self.list) do
      out[i] = message
    end
    return out
  end
  local here, done = {}, {}
  for _, message in ipairs(self.list) do
    local native = message.native
    if native ~= nil then
      here[native] = (here[native] or 0) + 1
    end
  end
  for _, message in ipairs(self.list) do
    local native = message.native
    if native == nil or type(native) == "table" and here[native] ~= self.made[native] then
      add_native(out, self.adapter.from_message(message))
    elseif not done[native] or type(native) ~= "table" then
      done[native] = true
      add_native(out, native)
    end
  end
  return out
end

return M
