---The summarising request: the conversation as text, so that no provider's rules of pairing apply
---and no tools are needed; in chunks that the summariser can read.
local core = require "compaction.core"
local present = require "compaction.present"
local shape = require "compaction.shape"
local summary = require "compaction.summary"
local text = require "compaction.text"

-- Tokens for the words around the conversation.
local OVERHEAD = 100
-- Estimates are off by some percent, and the summariser may count by another tokenizer.
local CAUTION = 1.1
-- With less of the conversation in a chunk, a summary would be made of its own instructions.
local LEAST_CHUNK = 100
-- Of the summariser's window, for the summary that it writes and for the one that it is given.
local SUMMARY_OF_WINDOW = 0.25

local M = {}

--
-- The conversation as text
--

local EXTENSIONS = { "filename", "file_name", "name", "title", "path" }
local KINDS = { "mimeType", "mime_type", "media_type", "mediaType", "mimetype", "format" }

-- The first string under one of the keys, in the table or one within it.
local function find_string(value, keys, depth)
  if type(value) ~= "table" or depth > 4 then
    return nil
  end
  for _, key in ipairs(keys) do
    local found = present(value[key])
    if type(found) == "string" and #found < 200 then
      return found
    end
  end
  for _, item in pairs(value) do
    local found = find_string(item, keys, depth + 1)
    if found then
      return found
    end
  end
end

-- Bytes of the longest string within: the data.
local function data_bytes(value, depth)
  if type(value) == "string" then
    return #value
  elseif type(value) ~= "table" or depth > 4 then
    return 0
  end
  local most = 0
  for _, item in pairs(value) do
    most = math.max(most, data_bytes(item, depth + 1))
  end
  return most
end

---What stands in for an image or a file: its kind, its name, its size.
function M.media_note(part)
  local is_image = present(part.image_url) ~= nil
  local words = { is_image and "image" or "file" }
  words[#words + 1] = find_string(part, EXTENSIONS, 1)
  local source = present(part.image_url) or present(part.file) or present(part.document) or part
  local url = type(source) == "table" and present(source.url) or source
  local mime = type(url) == "string" and url:match "^data:([%w.+/-]+)" or find_string(part, KINDS, 1)
  words[#words + 1] = mime
  if type(url) == "string" and not url:find "^data:" and #url < 500 then
    words[#words + 1] = url
  else
    local bytes = data_bytes(part, 1) * 3 / 4 -- base64
    words[#words + 1] = ("%d KB"):format(math.ceil(bytes / 1024))
  end
  return "[" .. table.concat(words, ", ") .. "]"
end

-- Text and media of a message.
local function content_of(message)
  local texts = {}
  local content = present(message.content)
  if type(content) == "string" then
    texts[1] = content
  end
  for _, part in ipairs(shape.parts(message) or {}) do
    local words = present(part.text)
    if type(words) == "string" then
      texts[#texts + 1] = words
    end
    if shape.is_media(part) then
      texts[#texts + 1] = M.media_note(part)
    end
  end
  return table.concat(texts, "\n")
end
M.content_of = content_of

-- A long text in its middle, where the host wants that.
local function shortened(words, bytes)
  return bytes and #words > bytes and text.cut_middle(words, bytes) or words
end

---Arguments of a call as text.
function M.arguments_text(arguments)
  if type(arguments) == "table" then
    local ok, json = pcall(core.json, arguments, "compactor", "arguments")
    return ok and json or "{…}"
  end
  return type(arguments) == "string" and arguments or ""
end

local function add_calls(lines, message, names, bytes)
  for _, call in ipairs(shape.calls(message)) do
    local name, arguments = shape.called(call)
    local id = present(call.id)
    if id ~= nil and name then
      names[id] = name
    end
    lines[#lines + 1] = ("[call %s] %s"):format(name or "?", shortened(M.arguments_text(arguments), bytes))
  end
end

-- One message as text; "" where there is nothing to tell. `names` remembers what was called.
local function render_message(message, names, bytes)
  local role = shape.role(message)
  local lines, content = {}, content_of(message)
  if role == "tool" then
    local id = present(message.tool_call_id)
    local name = present(message.name) or (id ~= nil and names[id]) or nil
    lines[1] = ("[result%s]"):format(name and " of " .. tostring(name) or "")
    lines[2] = shortened(content, bytes)
  elseif content:find "%S" then
    lines[1] = ("[%s]"):format(tostring(role or "other"))
    lines[2] = content
  end
  add_calls(lines, message, names, bytes)
  return table.concat(lines, "\n")
end

---Messages first to last as text, one for each; and the earlier summary among them, apart.
function M.render(messages, first, last, bytes)
  local segments, names, earlier = {}, {}, {}
  for i = first, last do
    if shape.is_summary(messages[i]) then
      earlier[#earlier + 1] = (summary.read(messages[i]))
    else
      local segment = render_message(messages[i], names, bytes)
      segments[#segments + 1] = segment ~= "" and segment or nil
    end
  end
  return segments, earlier[1] and table.concat(earlier, "\n\n") or nil
end

--
-- Chunks
--

-- Tokens as the summariser may count them.
local function tokens(words, sizing)
  return math.ceil(core.estimate_text_tokens(words, sizing.family) * math.max(sizing.scale, 1) * CAUTION)
end

-- Segments in chunks of at most `room` tokens; a segment that is larger is taken in pieces.
local function split(segments, room, sizing)
  local chunks, chunk, left = {}, {}, room
  local function add(words, cost)
    if cost > left and #chunk > 0 then
      chunks[#chunks + 1], chunk, left = chunk, {}, room
    end
    chunk[#chunk + 1] = words
    left = left - cost
  end
  for _, segment in ipairs(segments) do
    local cost = tokens(segment, sizing) + 1
    if cost <= room then
      add(segment, cost)
    else
      -- no byte costs more than a token, so the loop ends
      local pieces = text.pieces(segment, math.max(math.floor(#segment * room / cost * 0.9), 16))
      for _, piece in ipairs(pieces) do
        add(piece, tokens(piece, sizing) + 1)
      end
    end
  end
  if #chunk > 0 then
    chunks[#chunks + 1] = chunk
  end
  return chunks
end

local function user_prompt(instructions)
  if instructions == nil or instructions == "" then
    return core.USER_PROMPT
  end
  return core.USER_PROMPT .. "\n## Besides\n" .. instructions .. "\n"
end

---Plan the requests of a job. `sizing` = { limit, summary, family, scale, instructions, result_bytes }: the
---summariser's window, the longest summary, and how to count. nil where its window is too small. In a
---small window a shorter summary is asked for, and an earlier one that leaves no room is read in chunks.
function M.plan(messages, first, last, sizing)
  local segments, earlier = M.render(messages, first, last, sizing.result_bytes)
  local user = user_prompt(sizing.instructions)
  local window = sizing.limit - tokens(core.SYSTEM_PROMPT, sizing) - tokens(user, sizing) - OVERHEAD
  local max_tokens = math.min(sizing.summary, math.floor(window * SUMMARY_OF_WINDOW))
  local reserved = math.ceil(max_tokens * CAUTION)
  if earlier and tokens(earlier, sizing) > math.max(reserved, window * SUMMARY_OF_WINDOW) then
    table.insert(segments, 1, "[summary so far]\n" .. earlier)
    earlier = nil
  end
  local whole = 0
  for _, segment in ipairs(segments) do
    whole = whole + tokens(segment, sizing) + 1
  end
  local room = window - reserved - (earlier and tokens(earlier, sizing) or 0)
  if whole > room then -- chunks after the first carry the summary so far
    room = math.min(room, window - 2 * reserved)
  end
  if room < LEAST_CHUNK then
    return nil
  end
  local chunks = split(segments, room, sizing)
  if #chunks == 0 then
    chunks[1] = {}
  end
  return { chunks = chunks, earlier = earlier, user = user, max_tokens = max_tokens }
end

---Request number `chunk` of a plan, with the summary so far: { system, messages, user, max_tokens, chunk, chunks }.
function M.build(plan, chunk, so_far)
  local words = {}
  so_far = so_far or plan.earlier
  if so_far then
    words[1] = "<summary_so_far>\n" .. so_far .. "\n</summary_so_far>\n"
  end
  words[#words + 1] = "<conversation>\n" .. table.concat(plan.chunks[chunk], "\n\n") .. "\n</conversation>"
  return {
    system = core.SYSTEM_PROMPT,
    messages = { { role = "user", content = table.concat(words, "\n") } },
    user = plan.user,
    max_tokens = plan.max_tokens,
    chunk = chunk,
    chunks = #plan.chunks,
  }
end

return M
