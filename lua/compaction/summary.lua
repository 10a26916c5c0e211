---The message that stands for messages that were compacted: a summary in prose, and beside it facts that
---were taken without a model.
local shape = require "compaction.shape"

local HEADER = "[Summary of the conversation before this point]\n\n"
local FACTS = "[Facts from the messages it stands for]"

local M = { HEADER = HEADER }

---The content of such a message; `facts` may be "".
function M.content(prose, facts)
  -- a model that repeats our headings must not be taken for us
  prose = prose:gsub("%[Facts from the messages it stands for%]", "[Facts]")
  if facts == nil or facts == "" then
    return HEADER .. prose
  end
  return HEADER .. prose .. "\n\n" .. FACTS .. "\n" .. facts
end

---Prose and facts of such a message.
function M.read(message)
  local content = shape.text(message)
  if content:sub(1, #HEADER) == HEADER then
    content = content:sub(#HEADER + 1)
  end
  local at, behind = content:find("\n\n" .. FACTS .. "\n", 1, true)
  if at == nil then
    return content, ""
  end
  return content:sub(1, at - 1), content:sub(behind + 1)
end

return M
