---What can be told of messages without a model.
local request = require "compaction.request"
local shape = require "compaction.shape"
local text = require "compaction.text"

local M = {}

-- The newest that fit, in their order.
local function newest_within(texts, bytes)
  local kept = {}
  for i = #texts, 1, -1 do
    local words = texts[i]
    if #words > bytes then
      words = bytes > 60 and text.cut_middle(words, bytes) or nil
    end
    if words == nil then
      break
    end
    table.insert(kept, 1, words)
    bytes = bytes - #words - 4
  end
  return kept
end

---A summary of messages in at most so many bytes: the user's own requests, newest first to stay.
function M.digest(messages, bytes)
  local requests, earlier = {}, nil
  for _, message in ipairs(messages) do
    if shape.is_summary(message) then
      earlier = request.summary_text(message)
    elseif shape.is_request(message) then
      local words = request.content_of(message)
      requests[#requests + 1] = words:find "%S" and words or nil
    end
  end
  local head = "Earlier messages were left out. What the user asked for in them:"
  local kept = newest_within(requests, math.max(bytes - #head, 0))
  local words = head .. "\n- " .. (#kept > 0 and table.concat(kept, "\n- ") or "nothing")
  if earlier and #words + 80 < bytes then
    words = (text.cut_middle(earlier, bytes - #words - 2) or earlier) .. "\n\n" .. words
  end
  return text.head(words, math.max(bytes, 1))
end

return M
