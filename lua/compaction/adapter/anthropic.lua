---Anthropic's Messages: blocks; results stand in user messages; the system prompt outside the list.
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present = draft.present

local M = {}

---Read a message of this shape into a draft; also for Avante, which wraps it.
function M.read_message(d, native, out, holders, convention)
  local role = d:read_role(native)
  d:read_usage(convention or usage.ANTHROPIC, holders)
  d:read_model(holders)
  d:read_content(present(native.content), d.at .. ".content")
  d:finish(role, out)
end

local function read(d, native, out)
  M.read_message(d, native, out, { native })
end

local function is_single(native)
  return present(native.role) ~= nil
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.ANTHROPIC)

-- A part of ours as a block.
local function to_block(part)
  if part.type == "text" then
    return { type = "text", text = part.text }
  elseif type(part.native) == "table" then
    return part.native
  end
  local mime, data = draft.data_of(part)
  if mime then
    return { type = "image", source = { type = "base64", media_type = mime, data = data } }
  end
  return { type = "text", text = "[attachment]" }
end

local function to_blocks(message)
  local blocks = {}
  for i, part in ipairs(present(message.multi_content) or {}) do
    blocks[i] = to_block(part)
  end
  return blocks
end

local function content_of(message)
  if present(message.multi_content) then
    return to_blocks(message)
  end
  return present(message.content)
end

---Content of a message with calls, which must be blocks. Reasoning has no signature any more, and
---would be refused.
local function blocks_with_calls(message)
  local blocks = to_blocks(message)
  if present(message.content) and message.content ~= "" then
    table.insert(blocks, 1, { type = "text", text = message.content })
  end
  for _, call in ipairs(message.tool_calls) do
    local called = call["function"] or {}
    blocks[#blocks + 1] = {
      type = "tool_use",
      id = call.id,
      name = called.name,
      input = draft.table_of_arguments(called.arguments),
    }
  end
  return blocks
end

function M.from_message(message)
  if message.role == "tool" then
    local result = { type = "tool_result", tool_use_id = message.tool_call_id, content = content_of(message) }
    return { role = "user", content = { result } }
  elseif message.tool_calls then
    return { role = message.role, content = blocks_with_calls(message) }
  end
  return { role = message.role, content = content_of(message) }
end

return M
