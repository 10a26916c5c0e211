---OpenAI's chat completions, and all that speak like them.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present, field, wrong = draft.present, draft.field, draft.wrong

local M = {}

-- DeepSeek and many servers: reasoning_content; others: reasoning, as text or an object;
-- OpenRouter: reasoning_details.
local function read_reasoning(d, native, at)
  local text = field(native, "reasoning_content", "string", at)
  local reasoning = field(native, "reasoning", "string or table", at)
  if text == nil and type(reasoning) == "table" then
    reasoning = field(reasoning, "content", "string", at .. ".reasoning")
      or field(reasoning, "text", "string", at .. ".reasoning")
  end
  if text or reasoning then
    return d:add_reasoning(text or reasoning)
  end
  d:read_content(field(native, "reasoning_details", "table", at), at .. ".reasoning_details")
end

local function read_call(d, call, at)
  if type(call) ~= "table" or present(call) == nil then
    wrong(at, "call (a table)", call)
  end
  local called = field(call, "function", "table", at)
  if called then
    at = at .. ".function"
    return d:add_call(
      present(call.id),
      field(called, "name", "string", at),
      field(called, "arguments", "string or table", at)
    )
  end
  local custom = field(call, "custom", "table", at)
  at = custom and at .. ".custom" or at -- CopilotChat: name and arguments stand in the call itself
  custom = custom or call
  d:add_call(
    present(call.id),
    field(custom, "name", "string", at),
    field(custom, "input", "string or table", at) or field(custom, "arguments", "string or table", at)
  )
end

---Read a message of this shape into a draft; also for the shapes that differ in little.
function M.read_message(d, native, out, holders)
  local at = d.at
  local role = d:read_role(native)
  d:read_usage(usage.OPENAI, holders)
  d:read_model(holders)
  if role == "tool" then
    local content = present(native.content) or present(native.multi_content)
    d:add_result(
      present(native.tool_call_id),
      field(native, "name", "string", at),
      content,
      d.read_content,
      at .. ".content"
    )
    return d:finish(role, out)
  end
  d:read_content(field(native, "content", "string or table", at), at .. ".content")
  d:read_content(field(native, "multi_content", "table", at), at .. ".multi_content")
  d:add_text(field(native, "refusal", "string", at) or "")
  local audio = field(native, "audio", "table", at)
  d:add_text(audio and field(audio, "transcript", "string", at .. ".audio") or "")
  d:read_content(field(native, "images", "table", at), at .. ".images")
  read_reasoning(d, native, at)
  local calls = field(native, "tool_calls", "table", at) or {}
  for i = 1, #calls do
    read_call(d, calls[i], ("%s.tool_calls[%d]"):format(at, i))
  end
  d.function_call = field(native, "function_call", "table", at)
  d.name = field(native, "name", "string", at)
  d:finish(role, out)
end

local function read(d, native, out)
  local choices = present(native.choices)
  if type(choices) ~= "table" then
    return M.read_message(d, native, out, { native })
  end
  local choice = present(choices[1])
  local message = type(choice) == "table" and present(choice.message) or nil
  if type(message) ~= "table" then
    wrong(d.at .. ".choices[1].message", "table", message)
  end
  M.read_message(draft.new(message, d.at .. ".choices[1].message"), message, out, { message, native })
end

local function is_single(native)
  return present(native.role) ~= nil or present(native.choices) ~= nil
end

---Messages of ours from native ones; see types.lua.
function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.OPENAI)

---A part of ours as a content part of this shape.
local function to_part(part)
  local native = part.native
  local kind = type(native) == "table" and native.type
  if kind == "image_url" or kind == "file" or kind == "input_audio" then
    return native
  elseif part.type == "image_url" and draft.url_of(part) then
    return { type = "image_url", image_url = { url = draft.url_of(part) } }
  end
  return { type = part.type, text = part.text, image_url = part.image_url, file = part.file }
end

local function to_call(call)
  local called = call["function"] or {}
  local arguments = draft.text_of_arguments(called.arguments)
  return { id = call.id, type = "function", ["function"] = { name = called.name, arguments = arguments } }
end

local function map(list, convert)
  if type(present(list)) ~= "table" then
    return nil
  end
  local out = {}
  for i, item in ipairs(list) do
    out[i] = convert(item)
  end
  return out
end

---A native message from one that this library made: a summary, a placeholder, a shortened message. Without
---its reasoning, which some servers refuse.
function M.from_message(message)
  return {
    role = message.role,
    content = map(message.multi_content, to_part) or present(message.content),
    tool_calls = map(message.tool_calls, to_call),
    function_call = present(message.function_call),
    tool_call_id = present(message.tool_call_id),
  }
end

return M
