---What providers report about a request, in our convention. The same names mean different things:
---cached tokens stand inside the prompt or beside it, reasoning inside the output or beside it.
---Where a total is told, it decides; else the provider's own convention does.
local present = require "compaction.present"
local raise = require "compaction.raise"

local M = {}

-- One number may have several names. { "a", "b" } is the field b of a table a.
local PROMPT = { { "prompt_tokens" }, { "input_tokens" } }
local TOTAL = { { "total_tokens" } }

---OpenAI's names and all that followed them: cached tokens and cache writes are part of the prompt,
---reasoning is part of the completion, unless the total says otherwise (xAI).
M.OPENAI = {
  prompt = PROMPT,
  cached = {
    { "prompt_tokens_details", "cached_tokens" },
    { "input_tokens_details", "cached_tokens" },
    { "prompt_cache_hit_tokens" },
    { "cached_input_tokens" },
    { "cached_tokens" },
    { "num_cached_tokens" },
    { "cache_read_input_tokens" },
  },
  written = {
    { "prompt_tokens_details", "cache_write_tokens" },
    { "input_tokens_details", "cache_write_tokens" },
    { "cache_write_input_tokens" },
    { "cache_creation_input_tokens" },
  },
  output = { { "completion_tokens" }, { "output_tokens" } },
  reasoning = {
    { "completion_tokens_details", "reasoning_tokens" },
    { "output_tokens_details", "reasoning_tokens" },
    { "reasoning_output_tokens" },
    { "reasoning_tokens" },
  },
  total = TOTAL,
}

---Anthropic: three disjoint counts make the prompt.
M.ANTHROPIC = {
  beside = true,
  prompt = { { "input_tokens" } },
  cached = { { "cache_read_input_tokens" } },
  written = { { "cache_creation_input_tokens" } },
  written_parts = {
    { "cache_creation", "ephemeral_5m_input_tokens" },
    { "cache_creation", "ephemeral_1h_input_tokens" },
  },
  output = { { "output_tokens" } },
  reasoning = {
    { "output_tokens_details", "thinking_tokens" },
    { "output_tokens_details", "reasoning_tokens" },
  },
  total = TOTAL,
}

M.BEDROCK = {
  beside = true,
  prompt = { { "inputTokens" } },
  cached = { { "cacheReadInputTokens" }, { "cacheReadInputTokenCount" } },
  written = { { "cacheWriteInputTokens" }, { "cacheWriteInputTokenCount" } },
  output = { { "outputTokens" } },
  reasoning = {},
  total = { { "totalTokens" } },
}

---Gemini: thoughts stand beside the candidates, what tools put in beside the prompt.
M.GEMINI = {
  reasoning_beside = true,
  prompt = { { "promptTokenCount" }, { "prompt_token_count" } },
  added = { { "toolUsePromptTokenCount" }, { "tool_use_prompt_token_count" } },
  cached = { { "cachedContentTokenCount" }, { "cached_content_token_count" } },
  written = {},
  output = { { "candidatesTokenCount" }, { "candidates_token_count" } },
  reasoning = { { "thoughtsTokenCount" }, { "thoughts_token_count" } },
  total = { { "totalTokenCount" }, { "total_token_count" } },
}

M.OLLAMA = {
  prompt = { { "prompt_eval_count" } },
  cached = {},
  written = {},
  output = { { "eval_count" } },
  reasoning = {},
  total = {},
}

local CONVENTIONS = { M.OPENAI, M.ANTHROPIC, M.BEDROCK, M.GEMINI, M.OLLAMA }

local MAX_EXACT = 2 ^ 53

local function fail(at, wanted, got)
  raise(("bad argument #1 to %s: %s expected, got %s)"):format(at, wanted, got))
end

-- The number at a path, nil if it is absent.
local function number_at(usage, path, at)
  local value = usage
  for depth, key in ipairs(path) do
    value = present(value[key])
    if value == nil then
      return nil
    elseif depth < #path and type(value) ~= "table" then
      return nil -- a server's own field of that name
    end
  end
  at = at .. "." .. table.concat(path, ".")
  if type(value) ~= "number" then
    fail(at, "number", type(value))
  elseif not (value > -MAX_EXACT and value < MAX_EXACT and value % 1 == 0) then
    fail(at, "integer within +-2^53", tostring(value))
  end
  return math.floor(value)
end

-- The largest of the numbers at the paths: a server that knows two names fills one with 0.
local function largest(usage, paths, at)
  local most
  for _, path in ipairs(paths) do
    local n = number_at(usage, path, at)
    if n and (most == nil or n > most) then
      most = n
    end
  end
  return most
end

local function sum(usage, paths, at)
  local total
  for _, path in ipairs(paths or {}) do
    local n = number_at(usage, path, at)
    total = n and (total or 0) + n or total
  end
  return total
end

local function read(usage, convention, at)
  return {
    prompt = largest(usage, convention.prompt, at),
    added = largest(usage, convention.added or {}, at),
    cached = largest(usage, convention.cached, at),
    written = largest(usage, convention.written, at) or sum(usage, convention.written_parts, at),
    output = largest(usage, convention.output, at),
    reasoning = largest(usage, convention.reasoning, at),
    total = largest(usage, convention.total, at),
  }
end

local function says_something(counts)
  return counts.prompt ~= nil or counts.output ~= nil or counts.total ~= nil
end

local function forbid_negative(counts, odd)
  for _, name in ipairs { "prompt", "added", "cached", "written", "output", "reasoning", "total" } do
    if counts[name] and counts[name] < 0 then
      odd(("a negative %s count"):format(name))
      counts[name] = nil
    end
  end
end

-- Is the reasoning beside the output, and not part of it?
local function stands_beside(counts, convention, prompt, output, reasoning)
  if reasoning == 0 then
    return false
  elseif counts.total == prompt + output + reasoning then
    return true
  elseif
    counts.total == prompt + (counts.cached or 0) + output + reasoning and (counts.cached or 0) > prompt
  then
    return true -- and the cached tokens beside the prompt
  elseif counts.total == prompt + output then
    return reasoning > output
  end
  return convention.reasoning_beside or reasoning > output
end

-- Parts that are missing, from the total. A prompt is never empty: 0 says that it is not known.
local function complete(counts, convention, odd)
  local prompt, output, reasoning = counts.prompt or 0, counts.output, counts.reasoning or 0
  local cached = convention.beside and (counts.cached or 0) + (counts.written or 0) or 0
  prompt = prompt + (counts.added or 0)
  local total = counts.total
  local nothing_cached = (counts.cached or 0) == 0 and (counts.written or 0) == 0
  if total and prompt == 0 and nothing_cached and total > (output or 0) then
    odd "the prompt is what the total leaves"
    if output == nil then
      return total, 0
    end
    local beside = convention.reasoning_beside and total >= output + reasoning or reasoning > output
    local answer = output + (beside and reasoning or 0)
    return math.max(total - answer, 0), answer
  elseif total and output == nil then
    local answer = math.max(total - prompt - cached, reasoning)
    if answer > reasoning then
      odd "the output is what the total leaves"
    end
    return prompt, answer
  end
  output = output or 0
  if stands_beside(counts, convention, prompt + cached, output, reasoning) then
    output = output + reasoning
  end
  return prompt, output
end

-- Cached tokens that are part of the prompt: what is fresh, read and written.
local function split(counts, prompt, output, odd)
  local cached, written = counts.cached or 0, counts.written or 0
  if cached > prompt and counts.total and counts.total == prompt + cached + output then
    odd "cached tokens stand beside the prompt, the total says"
    return prompt, cached, 0
  elseif
    cached + written > prompt
    and counts.total
    and counts.total == prompt + cached + written + output
  then
    odd "cached tokens stand beside the prompt, the total says"
    return prompt, cached, written
  end
  if cached > prompt then
    odd "more cached tokens than the prompt has"
    cached = prompt
  end
  if cached + written > prompt then
    odd "more tokens read from and written to the cache than the prompt has"
    written = prompt - cached
  end
  return prompt - cached - written, cached, written
end

local function convert(counts, convention)
  local suspect = {}
  local function odd(text)
    suspect[#suspect + 1] = text
  end
  forbid_negative(counts, odd)
  local prompt, output = complete(counts, convention, odd)
  local fresh, cached, written = prompt, counts.cached or 0, counts.written or 0
  if not convention.beside then
    fresh, cached, written = split(counts, prompt, output, odd)
  end
  local all = fresh + cached + written + output
  if counts.total and counts.total ~= all then
    odd(("the total is %d, its parts add up to %d"):format(counts.total, all))
  end
  return {
    input_tokens = fresh,
    cached_input_tokens = cached,
    cached_write_tokens = written,
    output_tokens = output,
    reasoning_tokens = math.min(counts.reasoning or 0, output),
    suspect = suspect[1] and table.concat(suspect, "; ") or nil,
  }
end

-- What may stand around a usage: chunks, events and responses of streams.
local HOLDERS = { "message", "response", "metadata", "x_groq" }
local NAMES = { "usage", "usageMetadata", "usage_metadata", "tokens" }

-- The usage itself, where something stands around it.
local function unwrap(value)
  local holders = { value }
  for _, name in ipairs(HOLDERS) do
    local holder = present(value[name])
    holders[#holders + 1] = type(holder) == "table" and holder or nil
  end
  for _, holder in ipairs(holders) do
    for _, name in ipairs(NAMES) do
      local inner = present(holder[name])
      if type(inner) == "table" then
        return inner
      end
    end
  end
  return value
end

-- Lay the later usage of a stream over the earlier one; null overwrites nothing.
local function overlay(onto, later, depth)
  for key, value in pairs(later) do
    value = present(value)
    if type(value) == "table" and depth < 4 then
      onto[key] = overlay(type(onto[key]) == "table" and onto[key] or {}, value, depth + 1)
    elseif value ~= nil then
      onto[key] = value
    end
  end
  return onto
end

local function merge(list, at)
  local all = {}
  for i = 1, #list do
    local usage = present(list[i])
    if usage ~= nil and type(usage) ~= "table" then
      fail(("%s[%d]"):format(at, i), "table", type(usage))
    elseif usage ~= nil then
      overlay(all, unwrap(usage), 1)
    end
  end
  return all
end

-- Anthropic's own pair of names, which gateways hand through: the cached tokens stand beside.
local function is_anthropics(usage)
  return present(usage.input_tokens) ~= nil
    and present(usage.prompt_tokens) == nil
    and (present(usage.cache_read_input_tokens) ~= nil or present(usage.cache_creation_input_tokens) ~= nil)
    and present(usage.input_tokens_details) == nil
end

---Read a usage, or a stream of them, by a convention; by another one's where it has no field of its
---own. nil where nothing is told. `at` opens the place of an error.
function M.read(native, convention, at)
  if present(native) == nil then
    return nil
  elseif type(native) ~= "table" then
    fail(at, "table", type(native))
  end
  local usage = #native > 0 and merge(native, at) or unwrap(native)
  if convention == M.OPENAI and is_anthropics(usage) then
    convention = M.ANTHROPIC
  end
  local counts = read(usage, convention, at)
  for _, other in ipairs(CONVENTIONS) do
    if says_something(counts) then
      break
    end
    convention, counts = other, read(usage, other, at)
  end
  return says_something(counts) and convert(counts, convention) or nil
end

---The function `adapter.NAME.usage` of a convention.
function M.reader(convention)
  return function(native)
    return M.read(native, convention, "'usage' (usage")
  end
end

return M
