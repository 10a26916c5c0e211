---OpenAI's Responses: a list of items, of which a run by the assistant is one message.
local draft = require "compaction.adapter.draft"
local raise = require "compaction.raise"
local usage = require "compaction.adapter.usage"

local present, field, wrong = draft.present, draft.field, draft.wrong

local M = { makes_runs = true } -- several items may be one message

-- Calls and outputs of built-in tools follow the same pattern as those of functions.
local function is_call(item)
  return present(item.call_id) ~= nil and tostring(present(item.type)):find "_call$" ~= nil
end

local function is_output(item)
  return tostring(present(item.type)):find "_call_output$" ~= nil
end

local function is_message(item)
  return present(item.type) == "message" or present(item.type) == nil and present(item.role) ~= nil
end

-- Arguments of functions, of custom tools, of built-in ones.
local function arguments_of(item, at)
  return field(item, "arguments", "string or table", at)
    or field(item, "input", "string or table", at)
    or field(item, "action", "string or table", at)
    or field(item, "operation", "string or table", at)
end

local function read_item(d, item, at)
  if is_message(item) then
    d:read_content(field(item, "content", "string or table", at), at .. ".content")
  elseif present(item.type) == "reasoning" then
    d:read_content(field(item, "summary", "string or table", at), at .. ".summary")
    d:read_content(field(item, "content", "string or table", at), at .. ".content")
  elseif is_call(item) then
    local name = field(item, "name", "string", at) or present(item.type):gsub("_call$", "")
    d:add_call(item.call_id, name, arguments_of(item, at))
  elseif present(item.type) == "image_generation_call" then
    d:add_media(item, true)
  else
    d:add_json(item, at)
  end
  d.compaction = d.compaction or (type(present(item.compaction)) == "table" and item.compaction or nil)
end

local function is_assistants(item)
  if is_message(item) then
    return present(item.role) == "assistant"
  end
  return not is_output(item)
end

-- One run of the assistant's items, from `first` on; the index behind it. `response` stands around
-- them, or is empty.
local function read_run(items, first, place, out, response)
  local last = first
  while last < #items and type(items[last + 1]) == "table" and is_assistants(items[last + 1]) do
    last = last + 1
  end
  local native = {}
  for i = first, last do
    native[#native + 1] = items[i]
  end
  local d = draft.new(#native == 1 and native[1] or native, place(first))
  local holders = {}
  for i = first, last do
    read_item(d, items[i], place(i))
    table.insert(holders, 1, items[i]) -- the newest first
  end
  holders[#holders + 1] = response
  d:read_usage(usage.OPENAI, holders)
  d:read_model(holders)
  d:finish("assistant", out)
  return last + 1
end

local function read_other(item, at, out)
  local d = draft.new(item, at)
  if is_output(item) then
    local output = present(item.output)
    d:add_result(present(item.call_id), nil, output, d.read_content, at .. ".output")
    return d:finish("tool", out)
  end
  local role = d:read_role(item)
  read_item(d, item, at)
  d:finish(role, out)
end

local read_items

-- A whole response among the items, or alone.
local function read_response(response, at, out)
  local items = present(response.output)
  read_items(items, function(i)
    return ("%s.output[%d]"):format(at, i)
  end, out, response)
end

local function is_response(item)
  return present(item.type) == nil and present(item.role) == nil and type(present(item.output)) == "table"
end

function read_items(items, place, out, response)
  local i = 1
  while i <= #items do
    local item = items[i]
    if type(item) ~= "table" or present(item) == nil then
      wrong(place(i), "item (a table)", item)
    elseif is_response(item) then
      read_response(item, place(i), out)
      i = i + 1
    elseif is_assistants(item) then
      i = read_run(items, i, place, out, response)
    else
      read_other(item, place(i), out)
      i = i + 1
    end
  end
end

function M.to_messages(native)
  local out = {}
  if type(native) == "string" then
    out[1] = { role = "user", content = native, native = native }
    return out
  elseif type(native) ~= "table" or present(native) == nil then
    raise(("bad argument #1 to 'to_messages' (item or list of items expected, got %s)"):format(type(native)))
  end
  local response = present(native.response) -- an event of a stream
  if type(response) == "table" and is_response(response) then
    native = response
  end
  if is_response(native) then
    read_response(native, "response", out)
  elseif present(native.type) ~= nil or present(native.role) ~= nil then
    read_items({ native }, function()
      return "message"
    end, out, {})
  else
    read_items(native, function(i)
      return ("messages[%d]"):format(i)
    end, out, {})
  end
  return out
end

M.usage = usage.reader(usage.OPENAI)

local function content_of(message)
  if not present(message.multi_content) then
    return present(message.content)
  end
  local kind = message.role == "assistant" and "output_text" or "input_text"
  local parts = {}
  for i, part in ipairs(message.multi_content) do
    if part.type == "text" then
      parts[i] = { type = kind, text = part.text }
    elseif type(part.native) == "table" then
      parts[i] = part.native
    else
      parts[i] = { type = "input_image", image_url = draft.url_of(part) }
    end
  end
  return parts
end

---One item, or a list of them where the message has calls.
function M.from_message(message)
  if message.role == "tool" then
    return {
      type = "function_call_output",
      call_id = message.tool_call_id,
      output = content_of(message) or "",
    }
  end
  local items = {}
  if present(message.content) or present(message.multi_content) then
    items[1] = { type = "message", role = message.role, content = content_of(message) }
  end
  for _, call in ipairs(message.tool_calls or {}) do
    local called = call["function"] or {}
    items[#items + 1] = {
      type = "function_call",
      call_id = call.id,
      name = called.name,
      arguments = draft.text_of_arguments(called.arguments),
    }
  end
  return #items == 1 and items[1] or items
end

return M
