---What a message of ours is: questions that several files ask.
local core = require "compaction.core"
local present = require "compaction.present"

local M = {}

function M.role(message)
  return present(message.role)
end

function M.is_front(message)
  local role = present(message.role)
  return role == "system" or role == "developer"
end

function M.starts_turn(message)
  local role = present(message.role)
  return role == "user" or role == "assistant"
end

---The mark of a message that a compaction made, nil for others.
function M.mark(message)
  local mark = present(message.compaction)
  return type(mark) == "table" and present(mark.version) == 1 and mark or nil
end

---Does it stand for messages that were compacted?
function M.is_summary(message)
  local mark = M.mark(message)
  return mark ~= nil and present(mark.kept) ~= nil
end

---Did a user ask it? A summary is never asked; a request that was cut still is.
function M.is_request(message)
  return present(message.role) == "user" and not M.is_summary(message)
end

---The parts of its content, whichever field holds them; nil where it is a string or absent.
function M.parts(message)
  for _, key in ipairs { "multi_content", "content" } do
    local parts = present(message[key])
    if type(parts) == "table" and #parts > 0 then
      return parts, key
    end
  end
end

---Is a part of a content an image or a file?
function M.is_media(part)
  return type(part) == "table"
    and (present(part.image_url) ~= nil or present(part.file) ~= nil or present(part.document) ~= nil)
end

---Number of its attachments.
function M.count_media(message)
  local n = 0
  for _, part in ipairs(M.parts(message) or {}) do
    n = n + (M.is_media(part) and 1 or 0)
  end
  return n
end

---Its text, without media; "" if it has none.
function M.text(message)
  local texts = {}
  local content = present(message.content)
  if type(content) == "string" then
    texts[1] = content
  end
  for _, part in ipairs(M.parts(message) or {}) do
    local text = type(part) == "table" and present(part.text)
    texts[#texts + 1] = type(text) == "string" and text or nil
  end
  return table.concat(texts, "\n")
end

---Its calls, as a list that may be empty.
function M.calls(message)
  local calls = present(message.role) == "assistant" and present(message.tool_calls)
  return type(calls) == "table" and calls or {}
end

---Name and arguments of a call.
function M.called(call)
  local called = present(call["function"])
  if type(called) ~= "table" then
    return nil, nil
  end
  return present(called.name), present(called.arguments)
end

---A copy with the same metatable. Put fields into it with `set`.
function M.copy(message)
  local copy = {}
  for key, value in next, message do
    copy[key] = value
  end
  local meta = getmetatable(message)
  if type(meta) == "table" and rawget(meta, "__metatable") == nil then
    setmetatable(copy, meta)
  end
  return copy
end

---Set a field of a copy, whatever its metatable says. Where nothing cannot be said (`__index` would answer),
---`nothing` says it.
function M.set(copy, key, value, nothing)
  rawset(copy, key, value)
  if value == nil and copy[key] ~= nil then
    rawset(copy, key, nothing)
  end
end

---Length of a list that a host handed in; __len is honoured on every version.
function M.length(list)
  return getmetatable(list) and core.length(list) or #list
end

return M
