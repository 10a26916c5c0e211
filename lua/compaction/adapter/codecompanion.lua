---CodeCompanion's chat messages: calls and their ids stand in `tools`, an image is its content.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present, field = draft.present, draft.field

local M = {}

local function is_image(native, meta)
  local context = present(native.context)
  local mime = type(context) == "table" and present(context.mimetype) or nil
  return present(meta.tag) == "image" or type(mime) == "string" and mime:find "^image/" ~= nil
end

local function read_calls(d, tools, at)
  local calls = field(tools, "calls", "table", at) or {}
  for i = 1, #calls do
    local here = ("%s.calls[%d]"):format(at, i)
    if type(calls[i]) ~= "table" then
      draft.wrong(here, "call (a table)", calls[i])
    end
    local called = field(calls[i], "function", "table", here) or {}
    d:add_call(
      present(calls[i].call_id) or present(calls[i].id),
      field(called, "name", "string", here .. ".function"),
      field(called, "arguments", "string or table", here .. ".function")
    )
  end
end

-- _meta.cumulative_tokens is the provider's total, the answer included.
local function read_total(d, native, meta)
  if present(meta.cumulative_tokens) ~= nil then
    d.usage = usage.read(
      { total_tokens = meta.cumulative_tokens },
      usage.OPENAI,
      "'to_messages' (" .. d.at .. "._meta"
    )
  end
  d:read_usage(usage.OPENAI, { native })
end

local function read_reasoning(d, native, at)
  local reasoning = field(native, "reasoning", "string or table", at)
  if type(reasoning) == "table" then
    reasoning = field(reasoning, "content", "string", at .. ".reasoning")
  end
  d:add_reasoning(reasoning)
end

local function read(d, native, out)
  local at, first = d.at, #out + 1
  local role = d:read_role(native)
  local tools, meta = field(native, "tools", "table", at) or {}, field(native, "_meta", "table", at) or {}
  read_total(d, native, meta)
  d:read_model { native }
  if role == "tool" then
    local id, name =
      present(tools.call_id) or present(tools.id), field(tools, "name", "string", at .. ".tools")
    local content = is_image(native, meta) and { { type = "image", data = native.content } }
      or present(native.content)
    d:add_result(id, name, content, d.read_content, at .. ".content")
  elseif is_image(native, meta) then
    d:add_media(native, true)
  else
    d:read_content(field(native, "content", "string or table", at), at .. ".content")
  end
  read_reasoning(d, native, at)
  read_calls(d, tools, at .. ".tools")
  d:finish(role, out)
  draft.split_total(out[first], { usage = { total_tokens = present(meta.cumulative_tokens) } }, at)
end

local function is_single(native)
  return present(native.role) ~= nil
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.OPENAI)

local function to_call(call)
  local called = call["function"] or {}
  local arguments = draft.text_of_arguments(called.arguments)
  return { id = call.id, type = "function", ["function"] = { name = called.name, arguments = arguments } }
end

function M.from_message(message)
  local native =
    { role = message.role == "assistant" and "llm" or message.role, content = draft.text_of(message) }
  if message.role == "tool" then
    native.tools = { call_id = message.tool_call_id, name = message.name }
  elseif message.tool_calls then
    native.tools = { calls = {} }
    for i, call in ipairs(message.tool_calls) do
      native.tools.calls[i] = to_call(call)
    end
  end
  return native
end

return M
