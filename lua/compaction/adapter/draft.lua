---A message of ours while it is read from a native one: texts, media, reasoning, calls and results.
---What stands in a content is told by its own marks, whatever the provider: hosts mix them.
local checked = require "compaction.checked"
local core = require "compaction.core"
local present = require "compaction.present"
local raise = require "compaction.raise"
local usage = require "compaction.adapter.usage"

-- Deeper than any message; a table that holds itself is deeper still.
local MAX_DEPTH = 50

-- Kinds of blocks that are text, and the field that holds it.
local TEXTS = {
  text = "text",
  input_text = "text",
  output_text = "text",
  refusal = "refusal",
}

-- Kinds that are reasoning. nil in the field: encrypted, and not sized.
local REASONING = {
  thinking = "thinking",
  redacted_thinking = "",
  reasoning_text = "text",
  summary_text = "text",
  ["reasoning.text"] = "text",
  ["reasoning.summary"] = "summary",
  ["reasoning.encrypted"] = "",
}

-- Kinds that are media: true for an image.
local MEDIA = {
  image = true,
  image_url = true,
  input_image = true,
  file = false,
  input_file = false,
  document = false,
  audio = false,
  input_audio = false,
  video = false,
  video_url = false,
  input_video = false,
}

-- Blocks without a kind are told by their key (Bedrock, Gemini): true for an image.
local KEYED_MEDIA = {
  image = true,
  document = false,
  video = false,
  audio = false,
  inlineData = true,
  inline_data = true,
  fileData = false,
  file_data = false,
}

-- What a host or a provider marks for itself; nothing of it is sent as text.
local MARKS = { cachePoint = true, cache_control = true, thoughtSignature = true, thought_signature = true }

-- Fields of a result object that hold all of it where they are alone.
local RESULT_TEXTS = { output = true, result = true, content = true }

local M = {}
local Draft = {}
Draft.__index = Draft

M.present = present

---Raise for a wrong value, naming its place.
local function wrong(at, wanted, value)
  raise(("bad argument #1 to 'to_messages' (%s: %s expected, got %s)"):format(at, wanted, type(value)))
end
M.wrong = wrong

---The field if it is there, of one of the kinds in `wanted` ("string or table").
local function field(t, key, wanted, at)
  local value = present(t[key])
  if value ~= nil and not (" " .. wanted .. " "):find(" " .. type(value) .. " ", 1, true) then
    wrong(at .. "." .. key, wanted, value)
  end
  return value
end
M.field = field

-- Base64 behind it, and no sentence that begins so.
local function is_data_url(text)
  return text:find "^data:[^,%s]-;base64,[%w+/=_-]" ~= nil and text:sub(1, 200):find "%s" == nil
end

---@param native table|string what the message is made of
---@param at string its place
function M.new(native, at)
  return setmetatable(
    { native = native, at = at, parts = {}, media = {}, reasoning = {}, calls = {}, results = {}, depth = 0 },
    Draft
  )
end

function Draft:add_text(text)
  if is_data_url(text) then
    self:add_media(text, true)
  elseif text ~= "" then
    self.parts[#self.parts + 1] = { type = "text", text = text }
  end
end

---One attachment. Beside a tool result it belongs to that result.
function Draft:add_media(native, is_image)
  local part = { type = is_image and "image_url" or "file", native = native }
  part[is_image and "image_url" or "file"] = native
  self.parts[#self.parts + 1] = part
  self.media[part] = math.max(#self.results, 1)
end

function Draft:add_reasoning(text)
  if text ~= nil and text ~= "" then
    self.reasoning[#self.reasoning + 1] = text
  end
end

---A call. A table of arguments stays one: it counts as its JSON.
function Draft:add_call(id, name, arguments)
  self.calls[#self.calls + 1] =
    { id = id, type = "function", ["function"] = { name = name, arguments = arguments } }
end

---A result, whose content is read by `read` into a draft of its own.
function Draft:add_result(id, name, content, read, at)
  local result = M.new(self.native, at)
  result.depth = self.depth
  read(result, content, at)
  self.results[#self.results + 1] = { id = id, name = name, draft = result }
end

-- Fields by which a block of a media kind holds, or points to, its media.
local HOLDS = {
  "image",
  "image_url",
  "file",
  "file_id",
  "file_data",
  "file_url",
  "source",
  "data",
  "url",
  "audio",
  "input_audio",
  "video",
  "video_url",
  "input_video",
  "images",
}

local function holds_media(block)
  for _, key in ipairs(HOLDS) do
    if present(block[key]) ~= nil then
      return true
    end
  end
  return false
end

-- Encrypted data, which is not sized.
local ENCRYPTED =
  { encrypted_content = true, signature = true, thoughtSignature = true, thought_signature = true }

-- Media in a value of any form: a data URL, or a table that holds base64 data and says of what kind.
local function is_media(value)
  if type(value) == "string" then
    return is_data_url(value)
  end
  local data = present(value.data) or present(value.blob)
  local mime = present(value.mimeType)
    or present(value.mime_type)
    or present(value.media_type)
    or present(value.mediaType)
  return type(data) == "string" and (mime ~= nil or MEDIA[present(value.type)] ~= nil)
    or type(present(value.bytes)) == "string"
    or MEDIA[present(value.type)] ~= nil
      and (present(value.source) ~= nil or present(value.image_url) ~= nil)
end

-- A copy of the value without its media, which go into the draft; the value itself where it has none.
local function without_media(draft, value, depth, seen)
  if type(value) == "string" or type(value) == "table" and present(value) ~= nil then
    if is_media(value) then
      draft:add_media(value, true)
      return "[attachment]"
    end
  end
  if type(value) ~= "table" or depth > MAX_DEPTH then
    return value -- the JSON of a table that holds itself is refused, with its place
  end
  if seen[value] == nil then
    local copy, changed = {}, false
    seen[value] = value
    for key, item in pairs(value) do
      if not ENCRYPTED[key] then
        copy[key] = without_media(draft, item, depth + 1, seen)
      end
      changed = changed or copy[key] ~= item
    end
    seen[value] = changed and copy or value
  end
  return seen[value]
end

---A value of no known form counts as its JSON.
function Draft:add_json(value, at)
  self:add_text(checked("to_messages", core.json, without_media(self, value, 1, {}), "to_messages", at))
end

---A result object: one string field alone is the result, all else counts as its JSON.
function Draft.add_object(draft, object, at)
  local text, others = nil, false
  for key, value in pairs(object) do
    if RESULT_TEXTS[key] and type(value) == "string" and text == nil then
      text = value
    elseif present(value) ~= nil then
      others = true
    end
  end
  if text and not others then
    draft:add_text(text)
  else
    draft:add_json(object, at)
  end
end

local function read_document(draft, block, at)
  local source = present(block.source)
  if type(source) == "table" and present(source.type) == "text" then
    draft:add_text(field(source, "data", "string", at .. ".source") or "")
  elseif type(source) == "table" and present(source.type) == "content" then
    draft:read_content(present(source.content), at .. ".source.content")
  elseif type(source) == "table" and present(source.text) then -- Bedrock
    draft:add_text(field(source, "text", "string", at .. ".source"))
  else
    draft:add_media(block, false)
  end
end

local function read_reasoning_content(draft, block, at)
  local text = field(block, "reasoningText", "table", at)
  if text then
    draft:add_reasoning(field(text, "text", "string", at .. ".reasoningText"))
  end
end

local function read_function_call(draft, call, at)
  draft:add_call(
    present(call.id),
    field(call, "name", "string", at),
    field(call, "args", "string or table", at)
  )
end

local function read_function_response(draft, response, at)
  draft:add_result(
    present(response.id),
    field(response, "name", "string", at),
    present(response.response),
    Draft.read_response,
    at .. ".response"
  )
  local result = draft.results[#draft.results].draft
  result:read_content(field(response, "parts", "table", at), at .. ".parts")
end

-- Reasoning as text, or as a list of blocks (Mistral).
local function read_thought(draft, thought, at)
  if type(thought) ~= "table" then
    return draft:add_reasoning(thought)
  end
  for i = 1, #thought do
    local block = type(thought[i]) == "table" and thought[i] or { text = thought[i] }
    draft:add_reasoning(field(block, "text", "string", ("%s[%d]"):format(at, i)))
  end
end

-- Blocks by the key that they hold, most telling first.
local KEYED = {
  { "reasoningContent", read_reasoning_content },
  { "functionCall", read_function_call },
  { "function_call", read_function_call },
  { "functionResponse", read_function_response },
  { "function_response", read_function_response },
  {
    "toolUse",
    function(draft, call, at)
      draft:add_call(
        present(call.toolUseId),
        field(call, "name", "string", at),
        field(call, "input", "string or table", at)
      )
    end,
  },
  {
    "toolResult",
    function(draft, result, at)
      draft:add_result(
        present(result.toolUseId),
        nil,
        present(result.content),
        Draft.read_content,
        at .. ".content"
      )
    end,
  },
  {
    "guardContent",
    function(draft, guard, at)
      local text = field(guard, "text", "table", at)
      draft:add_text(text and field(text, "text", "string", at .. ".text") or "")
    end,
  },
}

-- A block without a `type`.
local function read_keyed(draft, block, at)
  for _, kind in ipairs(KEYED) do
    local inner = field(block, kind[1], "table", at)
    if inner then
      return kind[2](draft, inner, at .. "." .. kind[1])
    end
  end
  if type(present(block.text)) == "string" then
    if present(block.thought) == true then
      return draft:add_reasoning(block.text)
    end
    return draft:add_text(block.text)
  end
  local document = present(block.document)
  if type(document) == "table" then
    return read_document(draft, document, at .. ".document")
  end
  for key, is_image in pairs(KEYED_MEDIA) do
    if present(block[key]) ~= nil then
      return draft:add_media(block, is_image)
    end
  end
  if present(block.json) ~= nil then
    return Draft.read_response(draft, block.json, at .. ".json")
  end
  if not MARKS[next(block)] then
    draft:add_json(block, at)
  end
end

---One block of a content.
function Draft:read_block(block, at)
  if type(block) == "string" then
    return self:add_text(block)
  elseif type(block) ~= "table" or present(block) == nil then
    wrong(at, "block (a table)", block)
  end
  local kind = present(block.type)
  if kind == nil then
    return read_keyed(self, block, at)
  elseif TEXTS[kind] then
    return self:add_text(field(block, TEXTS[kind], "string", at) or "")
  elseif REASONING[kind] then
    return read_thought(self, field(block, REASONING[kind], "string or table", at), at)
  elseif kind == "tool_use" then
    return self:add_call(
      present(block.id),
      field(block, "name", "string", at),
      field(block, "input", "string or table", at)
    )
  elseif kind == "tool_result" then
    local id = present(block.tool_use_id)
    return self:add_result(id, nil, present(block.content), Draft.read_content, at .. ".content")
  elseif kind == "document" then
    return read_document(self, block, at)
  elseif MEDIA[kind] ~= nil and holds_media(block) then
    return self:add_media(block, MEDIA[kind])
  end
  self:add_json(block, at)
end

---A content: a string, a list of blocks, one block, or an object that a tool returned.
function Draft:read_content(content, at)
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then
    wrong(at, "a content that nests less deeply", content)
  end
  if type(content) == "string" then
    self:add_text(content)
  elseif type(content) == "table" then
    if #content > 0 then
      for i = 1, #content do
        self:read_block(content[i], ("%s[%d]"):format(at, i))
      end
    elseif present(content.type) ~= nil then
      self:read_block(content, at)
    elseif next(content) ~= nil then
      self:add_object(content, at)
    end
  elseif content ~= nil then
    wrong(at, "string or list of blocks", content)
  end
  self.depth = self.depth - 1
end

---What a tool returned as a value: an object counts as its one text or as its JSON.
function Draft:read_response(value, at)
  if type(value) == "string" then
    self:add_text(value)
  elseif type(value) == "table" and #value == 0 and next(value) ~= nil then
    self:add_object(value, at)
  elseif value ~= nil then
    self:add_json(value, at)
  end
end

---Find usage and model: on the native message, or on the response around it.
function Draft:read_usage(convention, holders, key)
  for _, holder in ipairs(holders) do
    local place = ("'to_messages' (%s.%s"):format(self.at, key or "usage")
    local found = usage.read(key == nil and holder.usage or key and holder[key], convention, place)
    if found then
      self.usage = found
      return
    end
  end
end

function Draft:read_model(holders, key)
  for _, holder in ipairs(holders) do
    local model = present(holder[key or "model"])
    if type(model) == "string" then
      self.model = model
      return
    end
  end
end

local function set_content(message, parts)
  if #parts == 1 and parts[1].type == "text" then
    message.content = parts[1].text
  elseif #parts > 0 then
    message.multi_content = parts
  elseif message.tool_calls == nil and message.function_call == nil then
    message.content = ""
  end
end

-- Media that stand beside results go to them.
local function hand_out_media(draft)
  local rest = {}
  for _, part in ipairs(draft.parts) do
    local i = draft.media[part]
    if i then
      local result = draft.results[i].draft
      result.parts[#result.parts + 1] = part
    else
      rest[#rest + 1] = part
    end
  end
  draft.parts = rest
end

local function has_content(draft)
  return #draft.parts + #draft.reasoning + #draft.calls > 0 or draft.function_call ~= nil
end

local function add_message(draft, role, out)
  local message = { role = role, native = draft.native, usage = draft.usage, model = draft.model }
  message.reasoning_content = #draft.reasoning > 0 and table.concat(draft.reasoning, "\n") or nil
  message.tool_calls = #draft.calls > 0 and draft.calls or nil
  message.function_call = draft.function_call
  message.name = draft.name
  message.compaction = draft.compaction
  set_content(message, draft.parts)
  out[#out + 1] = message
end

---Append the messages that the draft makes: results as tool messages, all else as one of `role`.
function Draft:finish(role, out)
  local from_assistant = role == "assistant"
  if #self.results > 0 and not from_assistant then
    hand_out_media(self)
  end
  if from_assistant and (has_content(self) or #self.results == 0) then
    add_message(self, role, out)
  end
  for _, result in ipairs(self.results) do
    local message = {
      role = "tool",
      tool_call_id = result.id,
      name = result.name,
      native = self.native,
      compaction = self.compaction,
    }
    set_content(message, result.draft.parts)
    out[#out + 1] = message
  end
  if not from_assistant and (has_content(self) or #self.results == 0) then
    add_message(self, role, out)
  end
end

local ROLES = { llm = "assistant", model = "assistant" }

---The role of a native message, in our words. A host may put what an earlier compaction made
---into a native message: its mark is carried over.
function Draft:read_role(native)
  local role = field(native, "role", "string", self.at)
  local mark = present(native.compaction)
  self.compaction = type(mark) == "table" and mark or nil
  return ROLES[role] or role
end

---A total alone says nothing of its parts: of a message's own usage the answer's part is estimated.
function M.split_total(message, native, at)
  local told = present(native.usage)
  if message == nil or message.role ~= "assistant" or type(told) ~= "table" or message.usage == nil then
    return
  end
  local total = field(told, "total_tokens", "number", at .. ".usage")
  if total == nil or message.usage.input_tokens ~= total or message.usage.output_tokens ~= 0 then
    return
  end
  local bare = { role = "assistant", content = message.content, multi_content = message.multi_content }
  bare.reasoning_content, bare.tool_calls = message.reasoning_content, message.tool_calls
  local answer = math.min(core.estimate_message_tokens(bare), total)
  message.usage.input_tokens, message.usage.output_tokens = total - answer, answer
  message.usage.suspect = "a total alone: the answer's part is estimated"
end

---Where the media of a part of ours are: a URL, which may hold the data.
function M.url_of(part)
  local url = part.native or part.image_url or part.file
  if type(url) == "table" then
    url = url.url or (type(url.image_url) == "table" and url.image_url.url) or url.image_url
  end
  return type(url) == "string" and url or nil
end

---Media type and base64 data of a part of ours.
function M.data_of(part)
  local url = M.url_of(part)
  if url then
    return url:match "^data:([^,;]*)[^,]-;base64,(.*)$"
  end
end

---The text of a message of ours; nil if it has none.
function M.text_of(message)
  if present(message.multi_content) == nil then
    return present(message.content)
  end
  local texts = {}
  for _, part in ipairs(message.multi_content) do
    texts[#texts + 1] = part.text
  end
  return table.concat(texts, "\n")
end

---Arguments of a call for providers that take JSON text.
function M.text_of_arguments(arguments)
  if type(arguments) == "table" then
    return checked("from_message", core.json, arguments, "from_message", "arguments")
  end
  return arguments
end

---Arguments of a call for providers that take a table; JSON text can not be read here.
function M.table_of_arguments(arguments)
  if type(arguments) == "string" and arguments:find "^%s*{%s*}%s*$" or arguments == nil then
    return {}
  elseif type(arguments) == "string" then
    raise "bad argument #1 to 'from_message' (arguments: table expected, this provider takes no JSON text)"
  end
  return arguments
end

-- A block of a system prompt, which some providers take as a list of these beside the messages.
local function is_system_block(entry)
  local kind = present(entry.type)
  return present(entry.role) == nil
    and (kind == nil or kind == "text")
    and type(present(entry.text)) == "string"
end

---Read one native message or a list of them: `read(draft, native, out)` for each table.
function M.each(native, is_single, read)
  if type(native) ~= "table" or present(native) == nil then
    raise(
      ("bad argument #1 to 'to_messages' (message or list of messages expected, got %s)"):format(type(native))
    )
  end
  local out = {}
  if is_single(native) then
    read(M.new(native, "message"), native, out)
    return out
  end
  if #native == 0 and next(native) ~= nil then
    raise "bad argument #1 to 'to_messages' (message or list of messages expected, got a table that is neither)"
  end
  for i = 1, #native do
    local at = ("messages[%d]"):format(i)
    local entry = native[i]
    if type(entry) ~= "table" or present(entry) == nil then
      wrong(at, "table", entry)
    elseif is_system_block(entry) then
      local d = M.new(entry, at)
      d:add_text(entry.text)
      d:finish("system", out)
    else
      read(M.new(entry, at), entry, out)
    end
  end
  return out
end

return M
