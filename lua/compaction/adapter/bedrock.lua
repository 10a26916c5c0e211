---Bedrock's Converse: blocks told by their key, the system prompt outside the list.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present = draft.present

local M = {}

local function read_message(d, native, out, holders)
  local role = d:read_role(native)
  d:read_usage(usage.BEDROCK, holders)
  d:read_model(holders)
  d:read_model(holders, "modelId")
  d:read_content(present(native.content), d.at .. ".content")
  d:finish(role, out)
end

local function read(d, native, out)
  local output = present(native.output)
  local message = type(output) == "table" and present(output.message) or nil
  if type(message) ~= "table" then
    return read_message(d, native, out, { native })
  end
  read_message(draft.new(message, d.at .. ".output.message"), message, out, { message, native })
end

local function is_single(native)
  return present(native.role) ~= nil or present(native.output) ~= nil
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.BEDROCK)

local function to_block(part)
  if part.type == "text" then
    return { text = part.text }
  elseif type(part.native) == "table" then
    return part.native
  end
  return { text = "[attachment]" }
end

local function to_blocks(message)
  local blocks = {}
  if type(present(message.content)) == "string" then
    blocks[1] = { text = message.content }
  end
  for _, part in ipairs(present(message.multi_content) or {}) do
    blocks[#blocks + 1] = to_block(part)
  end
  return blocks
end

function M.from_message(message)
  local blocks = to_blocks(message)
  if message.role == "tool" then
    local result = { toolUseId = message.tool_call_id, content = blocks }
    return { role = "user", content = { { toolResult = result } } }
  end
  for _, call in ipairs(message.tool_calls or {}) do
    local called = call["function"] or {}
    blocks[#blocks + 1] = {
      toolUse = {
        toolUseId = call.id,
        name = called.name,
        input = draft.table_of_arguments(called.arguments),
      },
    }
  end
  return { role = message.role, content = blocks }
end

return M
