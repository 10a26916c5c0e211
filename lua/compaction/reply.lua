---Is what the summariser answered a summary?
local present = require "compaction.present"
local summary = require "compaction.summary"

-- Finish reasons of answers that were cut off, and of those that are calls.
local CUT_OFF =
  { length = true, max_tokens = true, MAX_TOKENS = true, max_output_tokens = true, incomplete = true }
CUT_OFF.model_context_window_exceeded = true
local CALLS = { tool_calls = true, tool_use = true, function_call = true }
local WITHHELD =
  { content_filter = true, refusal = true, SAFETY = true, PROHIBITED_CONTENT = true, RECITATION = true }

-- A shorter earlier summary may well stand in a later one by chance.
local NESTED_BYTES = 200

local M = {}

local function text_of(content)
  if type(content) ~= "table" then
    return type(content) == "string" and content or ""
  end
  local texts = {}
  for _, part in ipairs(content) do
    local words = type(part) == "table" and present(part.text) or part
    texts[#texts + 1] = type(words) == "string" and words or nil
  end
  return table.concat(texts, "\n")
end

local function has_items(value)
  value = present(value)
  return type(value) == "table" and next(value) ~= nil
end

---The summary's text, or nil and why it is none: "empty", "reasoning_only", "tool_call", "truncated", "withheld",
---"nested" (it holds the earlier summary whole), "not_a_reply".
function M.judge(reply, earlier)
  if type(reply) == "string" then
    reply = { content = reply }
  elseif type(reply) ~= "table" then
    return nil, "not_a_reply"
  end
  local reason = present(reply.finish_reason) or present(reply.stop_reason)
  local words = text_of(present(reply.content))
  if has_items(reply.tool_calls) or CALLS[reason] then
    return nil, "tool_call"
  elseif CUT_OFF[reason] then
    return nil, "truncated"
  elseif WITHHELD[reason] then
    return nil, "withheld"
  elseif not words:find "%S" then
    local thought = present(reply.reasoning_content)
    return nil, type(thought) == "string" and thought:find "%S" and "reasoning_only" or "empty"
  end
  words = words:gsub("^%s+", ""):gsub("%s+$", "")
  local nested = words:find(summary.HEADER:sub(1, -3), 1, true)
    or earlier and #earlier >= NESTED_BYTES and #words > #earlier and words:find(earlier, 1, true)
  if nested then
    return nil, "nested"
  end
  return words
end

return M
