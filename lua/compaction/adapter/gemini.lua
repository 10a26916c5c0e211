---Gemini: contents of parts; calls have no ids as a rule and are paired by order and name.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present, field, wrong = draft.present, draft.field, draft.wrong

local M = {}

local function read_content(d, native, out, holders, default_role)
  local role = d:read_role(native) or default_role or "user"
  if role == "function" then
    role = "user"
  end
  d:read_usage(usage.GEMINI, holders, "usageMetadata")
  d:read_model(holders, "modelVersion")
  d:read_model(holders)
  d:read_content(field(native, "parts", "table", d.at), d.at .. ".parts")
  d:read_content(field(native, "content", "string or table", d.at), d.at .. ".content")
  d:finish(role, out)
end

local function read(d, native, out)
  local candidates = present(native.candidates)
  if present(native.promptFeedback) ~= nil and candidates == nil then
    return -- the prompt was blocked
  elseif type(candidates) ~= "table" then
    return read_content(d, native, out, { native })
  end
  local candidate = present(candidates[1])
  local content = type(candidate) == "table" and present(candidate.content) or nil
  if content == nil then
    return -- blocked: nothing was said
  elseif type(content) ~= "table" then
    wrong(d.at .. ".candidates[1].content", "table", content)
  end
  local inner = draft.new(content, d.at .. ".candidates[1].content")
  read_content(inner, content, out, { content, native }, "model")
end

local function is_single(native)
  return present(native.role) ~= nil
    or present(native.parts) ~= nil
    or present(native.candidates) ~= nil
    or present(native.promptFeedback) ~= nil
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.GEMINI)

local function to_part(part)
  if part.type == "text" then
    return { text = part.text }
  elseif type(part.native) == "table" then
    return part.native
  end
  local mime, data = draft.data_of(part)
  return mime and { inlineData = { mimeType = mime, data = data } } or { text = "[attachment]" }
end

local function to_parts(message)
  local parts = {}
  if type(present(message.content)) == "string" then
    parts[1] = { text = message.content }
  end
  for _, part in ipairs(present(message.multi_content) or {}) do
    parts[#parts + 1] = to_part(part)
  end
  for _, call in ipairs(message.tool_calls or {}) do
    local called = call["function"] or {}
    parts[#parts + 1] = {
      functionCall = { id = call.id, name = called.name, args = draft.table_of_arguments(called.arguments) },
    }
  end
  return parts
end

function M.from_message(message)
  if message.role == "tool" then
    local response = { output = draft.text_of(message) }
    local result = { id = message.tool_call_id, name = message.name, response = response }
    return { role = "user", parts = { { functionResponse = result } } }
  end
  return { role = message.role == "assistant" and "model" or message.role, parts = to_parts(message) }
end

return M
