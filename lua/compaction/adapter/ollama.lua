---Ollama: images beside the content, arguments as tables, no ids as a rule; the counts stand on
---the response around the message.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present, field, wrong = draft.present, draft.field, draft.wrong

local M = {}

local function read_call(d, call, at)
  if type(call) ~= "table" or present(call) == nil then
    wrong(at, "call (a table)", call)
  end
  local called = field(call, "function", "table", at) or {}
  at = at .. ".function"
  d:add_call(
    present(call.id),
    field(called, "name", "string", at),
    field(called, "arguments", "string or table", at)
  )
end

local function read_images(d, native, at)
  local images = field(native, "images", "table", at) or {}
  for i = 1, #images do
    d:add_media(images[i], true)
  end
end

local function read_message(d, native, out, holders)
  local at = d.at
  local role = d:read_role(native)
  for _, holder in ipairs(holders) do
    local place = ("'to_messages' (%s"):format(at)
    d.usage = d.usage
      or (present(holder.prompt_eval_count) or present(holder.eval_count)) and usage.read(
        holder,
        usage.OLLAMA,
        place
      )
      or nil
  end
  d:read_usage(usage.OLLAMA, holders)
  d:read_model(holders)
  if role == "tool" then
    local name = field(native, "tool_name", "string", at) or field(native, "name", "string", at)
    d:add_result(
      present(native.tool_call_id),
      name,
      present(native.content),
      d.read_content,
      at .. ".content"
    )
  else
    d:read_content(field(native, "content", "string or table", at), at .. ".content")
  end
  read_images(d, native, at)
  d:add_reasoning(field(native, "thinking", "string", at))
  local calls = field(native, "tool_calls", "table", at) or {}
  for i = 1, #calls do
    read_call(d, calls[i], ("%s.tool_calls[%d]"):format(at, i))
  end
  d:finish(role, out)
end

local function read(d, native, out)
  local message = present(native.message)
  if type(message) ~= "table" then
    return read_message(d, native, out, { native })
  end
  read_message(draft.new(message, d.at .. ".message"), message, out, { message, native })
end

local function is_single(native)
  return present(native.role) ~= nil or type(present(native.message)) == "table"
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.OLLAMA)

local function to_call(call)
  return { ["function"] = call["function"], id = call.id }
end

function M.from_message(message)
  local native = { role = message.role, content = draft.text_of(message) }
  if message.role == "tool" then
    native.tool_name = message.name
    native.tool_call_id = message.tool_call_id
  end
  for _, part in ipairs(present(message.multi_content) or {}) do
    local _, data = draft.data_of(part)
    data = data or type(part.native) == "string" and part.native or nil
    if data then
      native.images = native.images or {}
      native.images[#native.images + 1] = data
    end
  end
  for i, call in ipairs(message.tool_calls or {}) do
    native.tool_calls = native.tool_calls or {}
    native.tool_calls[i] = to_call(call)
  end
  return native
end

return M
