---Avante's history: entries around messages in Anthropic's shape, with bare strings among the blocks.
---Entries for the screen alone, and those that an earlier compaction replaced, are not sent.
local anthropic = require "compaction.adapter.anthropic"
local draft = require "compaction.adapter.draft"
local usage = require "compaction.adapter.usage"

local present, field = draft.present, draft.field

local M = {}

local function is_sent(entry)
  return present(entry.just_for_display) ~= true
    and present(entry.is_dummy) ~= true
    and present(entry.is_compacted) ~= true
end

-- A content that is one item of reasoning, as OpenAI's Responses have it.
local function read_reasoning(d, item)
  for _, key in ipairs { "summary", "content" } do
    d:read_content(field(item, key, "string or table", d.at), d.at .. ".content." .. key)
  end
end

local function read(d, entry, out)
  local message = field(entry, "message", "table", d.at) or entry
  if not is_sent(entry) then
    return
  end
  local content = present(message.content)
  if type(content) == "table" and present(content.type) == "reasoning" then
    local role = d:read_role(message)
    read_reasoning(d, content)
    return d:finish(role, out)
  end
  d.at = message == entry and d.at or d.at .. ".message"
  anthropic.read_message(d, message, out, { message, entry }, usage.OPENAI)
end

local function is_single(native)
  return present(native.role) ~= nil or type(present(native.message)) == "table"
end

function M.to_messages(native)
  return draft.each(native, is_single, read)
end

M.usage = usage.reader(usage.OPENAI)

function M.from_message(message)
  return { message = anthropic.from_message(message) }
end

return M
