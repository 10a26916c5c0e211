---A message made smaller: a copy whose longest parts are cut. The original is not touched.
local facts = require "compaction.facts"
local present = require "compaction.present"
local request = require "compaction.request"
local shape = require "compaction.shape"
local summary = require "compaction.summary"
local text = require "compaction.text"

-- Of a text that is cut, this much stays, so that one can tell what it was.
local LEAST_BYTES = 24
-- An attachment counts as 1,500 tokens of 3.5 bytes.
local MEDIA_BYTES = 5250
-- What a cut message said is remembered in its mark, which is not sent.
local MARK_BYTES = 1000

local M = {}

-- What can be cut in a copy: { bytes, cut(bytes to keep) }, for each text, attachment, and call.
local function components(copy)
  local all = {}
  local function add(bytes, cut)
    all[#all + 1] = { bytes = bytes, cut = cut }
  end
  local function add_text(t, key)
    local words = present(t[key])
    if type(words) == "string" and #words > LEAST_BYTES then
      add(#words, function(keep)
        t[key] = text.cut_middle(words, math.max(keep, LEAST_BYTES)) or words
        return #words - #t[key]
      end)
    end
  end
  add_text(copy, "content")
  add_text(copy, "reasoning_content")
  for _, key in ipairs { "content", "multi_content" } do
    for i, part in ipairs(type(copy[key]) == "table" and copy[key] or {}) do
      if shape.is_media(part) then
        add(MEDIA_BYTES, function()
          copy[key][i] = { type = "text", text = request.media_note(part) }
          return MEDIA_BYTES - #copy[key][i].text
        end)
      else
        add_text(part, "text")
      end
    end
  end
  for _, call in ipairs(shape.calls(copy)) do
    local called = present(call["function"]) or {}
    local words = request.arguments_text(present(called.arguments))
    local note = ("%s bytes left out"):format(text.thousands(#words))
    if #words > LEAST_BYTES + #note then -- cut in its middle it would be no JSON
      add(#words, function()
        local as_table = type(called.arguments) == "table"
        called.arguments = as_table and { cut = note } or ('{"cut":"%s"}'):format(note)
        return #words - #note - 10
      end)
    end
  end
  return all
end

-- A copy down to the tables that are cut.
local function deep_copy(message)
  local copy = shape.copy(message)
  for _, key in ipairs { "content", "multi_content", "tool_calls" } do
    if type(present(message[key])) == "table" then
      copy[key] = {}
      for i, item in ipairs(message[key]) do
        copy[key][i] = type(item) == "table" and shape.copy(item) or item
        local called = key == "tool_calls" and present(copy[key][i]["function"])
        if type(called) == "table" then
          copy[key][i]["function"] = shape.copy(called)
        end
      end
      setmetatable(copy[key], getmetatable(message[key]))
    end
  end
  return copy
end

---Bytes of the message that can be cut.
function M.bytes(message)
  local bytes = 0
  for _, part in ipairs(components(deep_copy(message))) do
    bytes = bytes + part.bytes
  end
  return bytes
end

-- What the provider said about the answer's size is no longer true of it.
local function forget_output(usage)
  if type(usage) ~= "table" or present(usage) == nil then
    return usage
  end
  usage = shape.copy(usage)
  usage.output_tokens, usage.reasoning_tokens = nil, nil
  return usage
end

-- The facts of a message that is about to lose some of its text.
local function facts_of(message)
  local words = facts.render(facts.of { message }, MARK_BYTES)
  return words ~= "" and words or nil
end

-- A summary loses prose and facts alike, and stays one.
local function shorten_summary(message, bytes)
  local prose, block = summary.read(message)
  local known = facts.new()
  facts.parse(known, block)
  local content = summary.content(facts.within(prose, known, math.max(#prose + #block - bytes, LEAST_BYTES)))
  if #content >= #shape.text(message) then
    return nil
  end
  local copy = shape.copy(message)
  copy.content, copy.multi_content = content, nil
  return copy
end

---A copy of the message that is smaller by `bytes`, or by as much as can be; nil where nothing can be
---cut. Marked compaction = { version = 1, cut = true }; without `native`, which is the whole one.
function M.shorten(message, bytes)
  if shape.is_summary(message) then
    return shorten_summary(message, bytes)
  end
  local copy = deep_copy(message)
  local parts, freed = components(copy), 0
  while freed < bytes do
    local largest
    for _, part in ipairs(parts) do
      if not part.done and (largest == nil or part.bytes > largest.bytes) then
        largest = part
      end
    end
    if largest == nil then
      break
    end
    largest.done = true
    freed = freed + largest.cut(largest.bytes - (bytes - freed))
  end
  if freed <= 0 then
    return nil
  end
  copy.native = nil
  copy.usage = forget_output(message.usage)
  copy.compaction = shape.copy(shape.mark(message) or { version = 1 })
  copy.compaction.cut = true
  copy.compaction.facts = facts_of(message)
  return copy
end

---A tool result without its content: a placeholder that is the same whenever it is made. nil where that
---is not smaller, or was done before.
function M.prune(message, name)
  local mark = shape.mark(message)
  if shape.role(message) ~= "tool" or mark and (mark.pruned or mark.placeholder) then
    return nil
  end
  local words, media = shape.text(message), shape.count_media(message)
  local note = ("[Old result%s removed: %s bytes%s]"):format(
    name and " of " .. tostring(name) or "",
    text.thousands(#words),
    media > 0 and (", %d attachment%s"):format(media, media == 1 and "" or "s") or ""
  )
  if #note >= #words + media * MEDIA_BYTES then
    return nil
  end
  local copy = shape.copy(message)
  copy.content, copy.multi_content, copy.native = note, nil, nil
  copy.usage = forget_output(message.usage)
  copy.compaction = { version = 1, pruned = true, facts = facts_of(message) }
  return copy
end

---A message with notes in the place of its attachments; nil where it has none.
function M.without_media(message)
  if shape.count_media(message) == 0 then
    return nil
  end
  local copy = deep_copy(message)
  local parts = shape.parts(copy)
  for i, part in ipairs(parts) do
    if shape.is_media(part) then
      parts[i] = { type = "text", text = request.media_note(part) }
    end
  end
  copy.native = nil
  copy.usage = forget_output(message.usage)
  return copy
end

return M
