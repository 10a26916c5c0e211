---CopilotChat: OpenAI's shape with flat calls; of usage a total alone is kept.
local draft = require "compaction.adapter.draft"
local openai = require "compaction.adapter.openai"

local M = {}

local function read(d, native, out)
  local first = #out + 1
  openai.read_message(d, native, out, { native })
  draft.split_total(out[first], native, d.at)
end

local function is_single(native)
  return draft.present(native.role) ~= nil
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = openai.usage

function M.from_message(message)
  local native =
    { role = message.role, content = draft.text_of(message), tool_call_id = message.tool_call_id }
  for i, call in ipairs(message.tool_calls or {}) do
    native.tool_calls = native.tool_calls or {}
    local called = call["function"] or {}
    native.tool_calls[i] =
      { id = call.id, index = i, name = called.name, arguments = draft.text_of_arguments(called.arguments) }
  end
  return native
end

return M
