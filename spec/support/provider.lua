-- A provider that is simulated: it counts tokens by a rule of its own, refuses what is too long in a real
-- provider's words, and reports usage in a real provider's convention. Each message is counted once.
local adapters = require("compaction").adapter

local M = {}

--
-- Texts of three kinds, of any length; the same length gives the same string
--

local WORDS = {}
for word in
  ([[the a file test error value of to in is function return path module request message window model
  index because table compare follow between release number parser reader correct pending buffer against]]):gmatch "%S+"
do
  WORDS[#WORDS + 1] = word
end

local makers = {}
function makers.prose(random)
  return WORDS[random(#WORDS) + 1] .. (random(9) == 0 and ". " or " ")
end
function makers.code(random)
  local a, b = WORDS[random(#WORDS) + 1], WORDS[random(#WORDS) + 1]
  return ("  local %s_%s = %s[%d](%s.%s)\n"):format(a, b, b, random(900), a, b)
end
function makers.hex(random)
  return ("%04x%03d%02x"):format(random(65536), random(1000), random(256)) .. (random(6) == 0 and "\n" or " ")
end

local bases, texts = {}, {}

local function base_of(kind)
  if not bases[kind] then
    local random, parts, bytes = require "spec.support.random"(#kind), {}, 0
    while bytes < 60000 do
      parts[#parts + 1] = makers[kind](random)
      bytes = bytes + #parts[#parts]
    end
    bases[kind] = table.concat(parts)
  end
  return bases[kind]
end

-- Lengths step by an eighth, so that few texts serve for all.
function M.text(kind, bytes)
  local step = 2 ^ math.floor(math.log(math.max(bytes, 16)) / math.log(2)) / 8
  local length = math.max(math.floor(math.floor(bytes / step) * step), 8)
  texts[kind] = texts[kind] or {}
  if not texts[kind][length] then
    local base = base_of(kind)
    texts[kind][length] = base:rep(math.ceil(length / #base)):sub(1, length)
  end
  return texts[kind][length]
end

--
-- Counting: pieces of words, of numbers and of signs
--

local raw_counts = setmetatable({}, { __mode = "k" })

local function raw_pieces(text)
  local n = 0
  for letters, rest in text:gmatch "(%a*)([^%a]*)" do
    n = n + math.ceil(#letters / 6)
    if #rest > 1 then
      n = n + math.ceil((#rest - 1) / 2)
    end
  end
  return n
end

local function raw(text)
  if not raw_counts[text] then
    raw_counts[text] = raw_pieces(text)
  end
  return raw_counts[text]
end

local prose_ratio = #base_of "prose" / raw_pieces(base_of "prose")

--
-- What is sent over the wire, in each convention
--

local function usage_openai(p, cached, out, reasoning)
  return {
    prompt_tokens = p,
    completion_tokens = out,
    total_tokens = p + out,
    prompt_tokens_details = { cached_tokens = cached },
    completion_tokens_details = { reasoning_tokens = reasoning },
  }
end

M.wires = {}

M.wires.openai = {
  user = function(text)
    return { role = "user", content = text }
  end,
  result = function(id, _, text)
    return { role = "tool", tool_call_id = id, content = text }
  end,
  reply = function(text, calls, p, cached, out, reasoning, model)
    local message = { role = "assistant", content = text, model = model }
    message.usage = p and usage_openai(p, cached, out, reasoning) or nil
    for i, call in ipairs(calls) do
      message.tool_calls = message.tool_calls or {}
      message.tool_calls[i] =
        { id = call.id, ["function"] = { name = call.name, arguments = '{"path":"' .. call.path .. '"}' } }
    end
    return message
  end,
}

M.wires.responses = {
  user = function(text)
    return { type = "message", role = "user", content = { { type = "input_text", text = text } } }
  end,
  result = function(id, _, text)
    return { type = "function_call_output", call_id = id, output = text }
  end,
  reply = function(text, calls, p, cached, out, reasoning, model)
    local items =
      { { type = "message", role = "assistant", content = { { type = "output_text", text = text } } } }
    for _, call in ipairs(calls) do
      items[#items + 1] = {
        type = "function_call",
        call_id = call.id,
        name = call.name,
        arguments = '{"path":"' .. call.path .. '"}',
      }
    end
    items[#items].model = model
    items[#items].usage = p
        and {
          input_tokens = p,
          output_tokens = out,
          total_tokens = p + out,
          input_tokens_details = { cached_tokens = cached },
          output_tokens_details = { reasoning_tokens = reasoning },
        }
      or nil
    return items
  end,
}

M.wires.anthropic = {
  user = function(text)
    return { role = "user", content = { { type = "text", text = text } } }
  end,
  result = function(id, _, text)
    return { role = "user", content = { { type = "tool_result", tool_use_id = id, content = text } } }
  end,
  reply = function(text, calls, p, cached, out, reasoning, model)
    local content = { { type = "text", text = text } }
    for _, call in ipairs(calls) do
      content[#content + 1] =
        { type = "tool_use", id = call.id, name = call.name, input = { path = call.path } }
    end
    local usage = p
      and {
        input_tokens = p - cached,
        cache_read_input_tokens = cached,
        output_tokens = out,
        output_tokens_details = { thinking_tokens = reasoning },
      }
    return { role = "assistant", content = content, model = model, usage = usage or nil }
  end,
}

M.wires.gemini = {
  user = function(text)
    return { role = "user", parts = { { text = text } } }
  end,
  result = function(_, name, text)
    return { role = "user", parts = { { functionResponse = { name = name, response = { output = text } } } } }
  end,
  reply = function(text, calls, p, cached, out, reasoning, model)
    local parts = { { text = text } }
    for _, call in ipairs(calls) do
      parts[#parts + 1] = { functionCall = { name = call.name, args = { path = call.path } } }
    end
    local usage = p
      and {
        promptTokenCount = p,
        cachedContentTokenCount = cached,
        candidatesTokenCount = out - reasoning,
        thoughtsTokenCount = reasoning,
        totalTokenCount = p + out,
      }
    return { role = "model", parts = parts, modelVersion = model, usageMetadata = usage or nil }
  end,
}

M.wires.bedrock = {
  user = function(text)
    return { role = "user", content = { { text = text } } }
  end,
  result = function(id, _, text)
    return { role = "user", content = { { toolResult = { toolUseId = id, content = { { text = text } } } } } }
  end,
  reply = function(text, calls, p, cached, out, _, model)
    local content = { { text = text } }
    for _, call in ipairs(calls) do
      content[#content + 1] =
        { toolUse = { toolUseId = call.id, name = call.name, input = { path = call.path } } }
    end
    local usage = p
      and {
        inputTokens = p - cached,
        outputTokens = out,
        totalTokens = p + out,
        cacheReadInputTokens = cached,
      }
    return { role = "assistant", content = content, modelId = model, usage = usage or nil }
  end,
}

-- Refusals with numbers, in the words of several providers, and without.
local TOLD = {
  function(actual, limit)
    return ("prompt is too long: %d tokens > %d maximum"):format(actual, limit)
  end,
  function(actual, limit)
    return ("This model's maximum context length is %d tokens. However, your messages resulted in %d tokens."):format(
      limit,
      actual
    )
  end,
  function(actual, limit)
    return ('{"error":{"message":"The input token count (%d) exceeds the maximum number of tokens allowed (%d)."}}'):format(
      actual,
      limit
    )
  end,
}
local UNTOLD =
  { "Input is too long for requested model.", "Your input exceeds the context window of this model." }

--
-- The provider
--

local Provider = {}
Provider.__index = Provider

local ENVELOPE = 4

-- o: wire, ratio (bytes a token), fixed, served (its window), told (numbers in refusals?), clips,
-- no_usage, resends (reasoning), model
function M.new(o)
  local self =
    setmetatable({ o = o, known = setmetatable({}, { __mode = "k" }), requests = 0, reported = 0 }, Provider)
  self.wire, self.served, self.model = M.wires[o.wire], o.served, o.model
  self.factor = prose_ratio / o.ratio
  return self
end

function Provider:count(text)
  return math.ceil(raw(text) * self.factor)
end

-- All strings in what was sent, but for its marks.
local MARKS = {
  type = true,
  role = true,
  id = true,
  tool_call_id = true,
  tool_use_id = true,
  toolUseId = true,
  call_id = true,
  model = true,
  modelId = true,
  modelVersion = true,
  name = true,
}

local function count_strings(self, value, key)
  if type(value) == "string" then
    return MARKS[key] and 0 or self:count(value)
  elseif type(value) ~= "table" then
    return 0
  end
  local n = 0
  for k, item in pairs(value) do
    if k ~= "usage" and k ~= "usageMetadata" then
      n = n + count_strings(self, item, k)
    end
  end
  return n
end

-- What a message costs and what it is; made by the agent, by this provider, or by the library.
function Provider:look(native)
  local known = self.known[native]
  if not known then
    known = { tokens = count_strings(self, native) + ENVELOPE, calls = {}, answers = {} }
    for _, message in ipairs(adapters[self.o.wire].to_messages { native }) do
      known.role = message.role
      for _, call in ipairs(message.tool_calls or {}) do
        known.calls[#known.calls + 1] = call.id or call["function"].name
      end
      if message.role == "tool" then
        known.answers[#known.answers + 1] = message.tool_call_id or message.name
      end
    end
    self.known[native] = known
  end
  return known
end

-- What is wrong with the structure of a request; nil if nothing is.
function Provider:complaint(messages)
  local open, n = {}, 0
  for _, native in ipairs(messages) do
    local known = self:look(native)
    for _, id in ipairs(known.answers) do
      if not open[id] or open[id] == 0 then
        return "a result without its call"
      end
      open[id], n = open[id] - 1, n - 1
    end
    if #known.answers == 0 and n > 0 and not (self.o.wire == "responses" and known.role == "assistant") then
      return "a call without its result"
    end
    for _, id in ipairs(known.calls) do
      open[id], n = (open[id] or 0) + 1, n + 1
    end
  end
  return n > 0 and "a call without its result" or nil
end

-- Tokens of the prompt; reasoning that is sent again stands in what is known of the answers.
function Provider:size(messages)
  local sum, last_user = self.o.fixed, 0
  for i, native in ipairs(messages) do
    local known = self:look(native)
    sum = sum + known.tokens
    if known.role == "user" then
      last_user = i
    end
  end
  if self.o.resends then
    for i = last_user + 1, #messages do
      sum = sum + (self:look(messages[i]).reasoning or 0)
    end
  end
  return sum
end

-- Send a request: the size, and nil or a refusal (text, status).
function Provider:send(messages)
  self.requests = self.requests + 1
  local size = self:size(messages)
  if size > self.served and not self.o.clips then
    local refusals = self.o.told and TOLD or UNTOLD
    local say = refusals[self.requests % #refusals + 1]
    return size, type(say) == "string" and say or say(size, self.served), 400
  end
  return size
end

-- The answer to a request of that size, as native messages (several for Responses items).
function Provider:answer(size, text, calls, reasoning)
  local out = self:count(text) + reasoning
  for _, call in ipairs(calls) do
    out = out + self:count(call.path) + self:count(call.name) + 6
  end
  local prompt = self.o.clips and math.min(size, self.served) or size
  local told = not self.o.no_usage and prompt or nil
  self.reported = self.reported + (told and 1 or 0)
  local reply = self.wire.reply(text, calls, told, math.floor(prompt * 0.8), out, reasoning, self.model)
  local items = reply[1] and reply or { reply }
  for i, item in ipairs(items) do
    local known =
      { tokens = i == 1 and out - reasoning + ENVELOPE or 0, role = "assistant", calls = {}, answers = {} }
    known.reasoning = i == 1 and reasoning or 0
    if i == #items then
      for _, call in ipairs(calls) do
        known.calls[#known.calls + 1] = self.o.wire == "gemini" and call.name or call.id
      end
    end
    self.known[item] = known
  end
  return reply
end

return M
