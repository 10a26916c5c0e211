---What a provider's error says about size: is the prompt too long, and by how much?
---
---Nothing here is a list of known messages. A text becomes a row of words, numbers and signs; what a
---number means follows from the words around it, and what kind of error it is from the nouns that
---are too large: tokens, requests a minute, bytes, images, an option of the request.
local present = require "compaction.present"
local raise = require "compaction.raise"
local options_of = require "compaction.options"

-- Errors may repeat the whole prompt. Of longer ones the two ends are read, and what stands around
-- the words that an error of ours would hold.
local END_BYTES = 64 * 1024
local AROUND = 1024
local MAX_PLACES = 16
local TELLING = { "token", "context", "too long", "too large", "exceed", "maximum", "limit", "requested" }
local MAX_DEPTH = 20
local MAX_STRINGS = 1000
local MAX_KEYS = 1000

-- What was sent, and headers that name every limit there is, say nothing of the error.
local NOT_SAID = {
  requestBodyValues = true,
  requestBody = true,
  request_body = true,
  request = true,
  messages = true,
  prompt = true,
  headers = true,
  responseHeaders = true,
  url = true,
}

-- No model has a smaller window: such a number is a status, a code, a count of something else.
local MIN_LIMIT = 1024

local function set(text)
  local words = {}
  for word in text:gmatch "%S+" do
    words[word] = true
  end
  return words
end

--
-- The text
--

-- Strings of a decoded error, texts before codes, in an order of their own.
local FIRST = { message = 1, msg = 1, error = 2, detail = 2, body = 3, code = 4, type = 4 }

local function sorted_keys(t)
  local keys = {}
  for key in pairs(t) do
    keys[#keys + 1] = not NOT_SAID[key] and key or nil
    if #keys == MAX_KEYS then
      break
    end
  end
  table.sort(keys, function(a, b)
    local x, y = FIRST[a] or 9, FIRST[b] or 9
    if x ~= y then
      return x < y
    end
    return tostring(a) < tostring(b)
  end)
  return keys
end

local function collect(value, found, depth, seen)
  if type(value) == "string" then
    found[#found + 1] = value
  elseif type(value) == "table" and depth < MAX_DEPTH and not seen[value] and #found < MAX_STRINGS then
    seen[value] = true
    for _, key in ipairs(sorted_keys(value)) do
      local item = value[key]
      if type(key) == "string" and type(item) == "number" then
        item = ("%s: %s"):format(
          key,
          type(item) == "number" and item % 1 == 0 and ("%.0f"):format(item) or tostring(item)
        )
      end
      collect(item, found, depth + 1, seen)
    end
  end
end

local STATUS_KEYS = { "status", "status_code", "statusCode", "http_status", "code" }

local function status_in(value, depth)
  if type(value) ~= "table" or depth > 3 then
    return nil
  end
  for _, key in ipairs(STATUS_KEYS) do
    local n = value[key]
    if type(n) == "number" and n >= 400 and n < 600 then
      return n
    end
  end
  return status_in(value.error, depth + 1)
end

-- What is read of a long text.
local function excerpt(text)
  if #text <= 3 * END_BYTES then
    return text
  end
  local lower, places = text:lower(), {}
  for _, word in ipairs(TELLING) do
    local at, stop = END_BYTES, #text - END_BYTES
    for _ = 1, MAX_PLACES do
      at = lower:find(word, at, true)
      if not at or at > stop then
        break
      end
      places[#places + 1] = at
      at = at + AROUND
    end
  end
  table.sort(places)
  local parts, last = { text:sub(1, END_BYTES) }, END_BYTES
  for _, at in ipairs(places) do
    local first = math.max(last + 1, at - AROUND)
    last = math.max(last, at + AROUND)
    parts[#parts + 1] = text:sub(first, last)
  end
  parts[#parts + 1] = text:sub(-END_BYTES)
  return table.concat(parts, " \n ")
end

-- Lower case, without markup and escapes. Each step is one pass over the text.
local function clean(text)
  text = text:gsub("%z", " "):lower()
  text = text:gsub("\\+", "\\") -- each run once: escapes nest
  text = text:gsub("\\u00(%x%x)", function(hex)
    return string.char(tonumber(hex, 16))
  end)
  text = text:gsub("\\[nrt]", " "):gsub("\\", ""):gsub("`", "")
  text = text:gsub("https?://[^%s\"'<>)]+", " ")
  text = text:gsub("<[/!]?%a[^<>]*>", " "):gsub("&lt;", "<"):gsub("&gt;", ">"):gsub("&amp;", "&")
  text = text:gsub("\226\137\164", "<="):gsub("\226\137\165", ">=") -- ≤ ≥
  text = text:gsub("\194\160", " "):gsub("\226\128[\175\137]", " ") -- spaces inside numbers
  text = text:gsub("\226\128[\152\153]", "'")
  return text
end

--
-- Words, numbers and signs
--

local BIG = { k = 1000, m = 1000000 }

-- A number with the separators that people write: 1,048,576, 1_048_576, 128 000, 200.000, 128k. Its value,
-- and where it ends.
local function read_number(text, at)
  local last = select(2, text:find("^%d+", at))
  local digits = text:sub(at, last)
  local separator = #digits <= 3 and text:match("^[,_ .']%d%d%d", last + 1)
  if separator then
    local mark = separator:sub(1, 1)
    local group = "^%" .. mark .. "%d%d%d"
    local stop = last
    while text:find(group, stop + 1) and not text:find("^%d", stop + 5) do
      stop = stop + 4
    end
    -- a space, a dot: only where that is the whole number
    if stop > last and not text:find("^%.%d", stop + 1) then
      digits = text:sub(at, stop):gsub("%D", "")
      last = stop
    end
  end
  if text:find("^%.%d", last + 1) then -- a fraction: 1.5m
    last = select(2, text:find("^%.%d+", last + 1))
    digits = text:sub(at, last)
  end
  local value = tonumber(digits)
  local unit = text:match("^[km]", last + 1)
  if unit and not text:find("^%w", last + 2) then
    return value * BIG[unit], last + 1
  end
  return value, last
end

-- Part of a name or a date (gpt-4, 2024-10-22, req_12): no number of anything.
local function is_name(text, first, last)
  local before, after = text:sub(first - 1, first - 1), text:sub(last + 1, last + 1)
  return before:find "^[%w_#@]" ~= nil
    or before == "-" and text:find("^[%w]", math.max(first - 2, 1)) ~= nil
    or before == "." and text:find("^%d", math.max(first - 2, 1)) ~= nil
    or after:find "^[%a_@]" ~= nil
    or after == "-" and text:find("^%w", last + 2) ~= nil and not text:find("^-token", last + 1)
    or after == ":" and text:find("^%d", last + 2) ~= nil
end

local SIGNS = { ["<="] = "<=", [">="] = ">=" }

-- The text as a list of { word = … }, { number = … }, { sign = … }.
local function scan(text)
  local items, at = {}, 1
  while true do
    local first = text:find("[%w<>=+()%[%].,;:!?\n{}*/-]", at)
    if not first then
      return items
    end
    local c = text:sub(first, first)
    if c:find "%d" then
      local value, last = read_number(text, first)
      if is_name(text, first, last) then
        last = select(2, text:find("^[%w_.%-]*[%w_]", first)) or last
        items[#items + 1] = { word = text:sub(first, last) }
      else
        items[#items + 1] = { number = value }
      end
      at = last + 1
    elseif c:find "%a" then
      local last = select(2, text:find("^[%w_]+", first))
      items[#items + 1] = { word = text:sub(first, math.min(last, first + 60)) }
      at = last + 1
    else
      local sign = SIGNS[text:sub(first, first + 1)] or c
      -- a full stop ends a sentence only where something else follows
      if not (sign == "." and text:find("^%w", first + 1)) then
        items[#items + 1] = { sign = sign }
      end
      at = first + #sign
    end
  end
end

--
-- What a number means
--

local LIMIT =
  set [[maximum max limit limits limited allowed allows most only exceeds exceed exceeded exceeding window
  supports support supported available capacity cap capped ceiling below under within n_ctx n_ctx_slot longest
  larger longer greater than over beyond context]]
local ACTUAL =
  set [[requested requires required resulted results contains contained containing got given received provided
  current currently used uses using total totals totaling totalling count counted sent has have had needs need
  n_prompt_tokens consists consist found measured was were actual amounts adds]]
local PROMPT = set [[prompt prompts prompt_tokens input inputs input_tokens messages message conversation
  history text tool tools request functions]]
local OUTPUT =
  set [[completion completions output outputs max_tokens max_new_tokens max_completion_tokens max_output_tokens
  maxoutputtokens response generated generate generation new_tokens new
  maxtokens]]
local UNIT = set [[token tokens]]
local OTHER_UNITS =
  set [[byte bytes b kb mb gb kib mib gib char chars character characters pixel pixels px page pages image
  images second seconds s ms minute minutes min hour hours day days percent message messages item items file files
  times request requests attempts retries tools turns]]
local COUNTED = set "turns characters chars bytes string images pages messages"
local CODES = set "code codes status error errors http line column position version id"
local STOPS = set "( ) . ; , [ ] ! ? { }"
STOPS["\n"] = true

-- Words up to the number before, nearest first; a bracket or comma does not end them, a sentence does.
local function words_before(items, i)
  local words = {}
  for k = i - 1, math.max(i - 12, 1), -1 do
    local item = items[k]
    if
      item.number
      or item.sign and (item.sign == "." or item.sign == ";" or item.sign == "?" or item.sign == "\n")
    then
      break
    end
    words[#words + 1] = item.word or item.sign
  end
  return words
end

local CLAUSE = set "but while whereas however and plus"

-- Words behind, up to the next number or sign.
local function words_behind(items, i)
  local words = {}
  for k = i + 1, math.min(i + 6, #items) do
    local item = items[k]
    if item.number or (item.sign and STOPS[item.sign]) or item.sign == "+" or CLAUSE[item.word] then
      break
    end
    words[#words + 1] = item.word or item.sign
  end
  return words
end

local TOO_MUCH = set "exceeds exceed exceeded exceeding over above beyond > >="

-- The first of the words that is in the set, and its place.
local function first_of(words, wanted)
  for k, word in ipairs(words) do
    if wanted[word] then
      return word, k
    end
  end
end

-- The role of a number by what stands before it: nearest strong word first.
local function role_before(words)
  for k, word in ipairs(words) do
    if word == "<" or word == "=" and k == 1 then
      return "actual"
    elseif word == ">" or word == "<=" then
      return "limit"
    elseif word == "by" then
      return "excess"
    elseif ACTUAL[word] then
      return "actual"
    elseif LIMIT[word] then
      return "limit"
    elseif CLAUSE[word] and k > 1 then
      return nil
    end
  end
end

-- … and by what stands behind it.
local function role_behind(words)
  local k = 1
  while UNIT[words[k]] or words[k] == "of" or words[k] == "-" do
    k = k + 1
  end
  local word = words[k]
  if word == nil then
    return nil
  elseif
    TOO_MUCH[word]
    or word == "requested"
    or word == "were"
    or word == "is" and words[k + 1] == "too"
    or word == "too"
  then
    return "actual"
  elseif LIMIT[word] and not (word == "only" or word == "than") then
    return "limit"
  end
end

-- Words between a noun and its number.
local FILLERS = set "token tokens of is are : ( = count length number size about at least approximately"
local STRONG_LIMIT = set "maximum max limit limits limited allowed allows longest"

-- The noun that a number belongs to, by what stands directly before it: "prompt length (9000".
-- "maximum prompt length is 9000" is a limit; "max tokens: 9000" an option of the request.
local function noun_before(before)
  local k = 1
  while FILLERS[before[k]] do
    k = k + 1
  end
  local word = before[k]
  if OUTPUT[word] then
    return "output"
  elseif PROMPT[word] and not (STRONG_LIMIT[before[k + 1]] or STRONG_LIMIT[before[k + 2]]) then
    return "input"
  elseif word == "max" and UNIT[before[k - 1]] then
    return "option"
  end
end

-- What part of the request it counts.
local function part_of(before, behind)
  local output, at_output = first_of(behind, OUTPUT)
  local prompt, at_prompt = first_of(behind, PROMPT)
  if output and (not prompt or at_output < at_prompt) then
    return "output"
  elseif prompt then
    return "input"
  end
  local noun = noun_before(before)
  if noun == "input" or noun == "output" then
    return noun
  end
  output, at_output = first_of(before, OUTPUT)
  prompt, at_prompt = first_of(before, PROMPT)
  if output and (not prompt or at_output < at_prompt) and at_output <= 7 then
    return "output"
  elseif prompt then
    return "input"
  end
end

-- "prompt and max_tokens (9000)": one number for both.
local function is_sum_of_both(before)
  return first_of(before, OUTPUT) ~= nil
    and first_of(before, { prompt = true, input = true, inputs = true }) ~= nil
end

-- Is it a code, or the number of something: "AiError: 5021", "message 2048: …", "must be at least 1"?
local function is_label(before, items, i)
  local named = (before[1] == ":" or before[1] == "(") and before[2] or before[1]
  local follows = items[i + 1] and items[i + 1].sign
  return CODES[named] ~= nil
    or named ~= nil and (named:find "error$" or named:find "exception$") ~= nil
    or before[1] == "message" and follows == ":"
    or before[1] == "least" and first_of(before, { must = true, should = true }) ~= nil
end

-- What it counts, if it is not tokens.
local function other_unit(before, behind)
  if OTHER_UNITS[behind[1]] then
    return behind[1]
  end
  local noun, at = first_of(before, COUNTED)
  local unit, at_unit = first_of(before, UNIT)
  if noun == nil or unit and at_unit < at or first_of(behind, UNIT) then
    return nil
  end
  local listed = before[1] == ":" and before[2] == noun -- "too many messages: 2100"
  return (noun ~= "messages" or listed) and noun or nil
end

local function describe(items, i)
  local before, behind = words_before(items, i), words_behind(items, i)
  local kept = first_of(before, { keep = true, keeping = true, first = true }) ~= nil
    and UNIT[behind[1]] ~= nil
  local role = role_before(before)
  local passive = role == "limit" and first_of(behind, { exceeded = true }) ~= nil
  local opens = items[i - 1] ~= nil and items[i - 1].sign == "("
  return {
    value = items[i].number,
    before = before,
    behind = behind,
    role = (kept or is_label(before, items, i)) and "other" or not passive and role_behind(behind) or role,
    part = part_of(before, behind),
    noun = noun_before(before),
    is_tokens = first_of(behind, UNIT) ~= nil or first_of(before, UNIT) ~= nil,
    other_unit = other_unit(before, behind) or false,
    opens = opens,
    closed = opens and items[i + 1] ~= nil and items[i + 1].sign == ")",
  }
end

-- A status or a code in brackets: [400], (413), <400>.
local function is_bracketed_code(items, i)
  local before, behind = items[i - 1], items[i + 1]
  return items[i].number < 1000
    and before
    and behind
    and (before.sign == "[" or before.sign == "(" or before.sign == "<")
    and (behind.sign == "]" or behind.sign == ")" or behind.sign == ">")
end

-- [1, 30720]: the least and the most that is allowed.
local function range_end(items, i)
  local open, comma, upper, close = items[i - 1], items[i + 1], items[i + 2], items[i + 3]
  return open
    and open.sign == "["
    and comma
    and (comma.sign == "," or comma.sign == "-")
    and upper
    and upper.number
    and close
    and (close.sign == "]" or close.sign == ")")
    and upper.number
end

-- a + b > c, a + b <= c: the parts of a sum and its bound.
local function sum_at(items, i)
  local plus, b, sign, c = items[i + 1], items[i + 2], items[i + 3], items[i + 4]
  if
    plus
    and plus.sign == "+"
    and b
    and b.number
    and sign
    and sign.sign
    and sign.sign:find "^[<>]"
    and c
    and c.number
  then
    return items[i].number, b.number, c.number
  end
end

local function note_sum(found, items, i)
  local a, b, c = sum_at(items, i)
  if a then
    local words = words_before(items, i)
    local output, at_output = first_of(words, OUTPUT)
    local prompt, at_prompt = first_of(words, PROMPT)
    local output_first = output and prompt and at_output > at_prompt -- further back: named first
    found.input, found.output = output_first and b or a, output_first and a or b
    found.limit, found.actual, found.is_sum = c, a + b, true
  end
  return a ~= nil
end

-- Numbers that count what is asked for, with what each is of.
local function note_actual(found, n)
  if n.opens and found.actual and n.part then -- (130000 in the messages, 10000 in the completion)
    found.split = true
  end
  local beside = found.split or found.plus and n.noun == n.part
  if first_of(n.before, { requested = true }) then
    found.requested = n.value
  end
  if n.part == "output" and (beside or first_of(n.behind, OUTPUT) or first_of(n.before, OUTPUT)) then
    found.output = found.output or n.value
  elseif n.part == "input" and (beside or first_of(n.behind, PROMPT)) then
    found.inputs = (found.inputs or 0) + n.value
  elseif found.actual == nil or n.value > found.actual then
    found.actual, found.actual_number = n.value, n
  end
end

-- 150000 / 128000: what is used of what there is.
local function ratio_at(items, i)
  local slash, b = items[i + 1], items[i + 2]
  if
    slash
    and slash.sign == "/"
    and b
    and b.number
    and items[i].number > b.number
    and b.number >= MIN_LIMIT
  then
    return items[i].number, b.number
  end
end

-- Are two parts of a request added up: "prompt … plus max_tokens …"?
local function adds_up(items)
  for i, item in ipairs(items) do
    if item.sign == "+" or item.word == "plus" or item.word == "sum" then
      return true
    elseif item.word == "and" then
      local prompt, output = false, false
      for k = math.max(i - 8, 1), math.min(i + 8, #items) do
        prompt = prompt or (k < i and PROMPT[items[k].word]) or false
        output = output or (k > i and OUTPUT[items[k].word]) or false
      end
      if prompt and output then
        return true
      end
    end
  end
  return false
end

local function note_number(found, n)
  if n.other_unit then
    found.other_unit = found.other_unit or n.other_unit
  elseif n.role == "other" then
    return
  elseif n.before[1] == "=" and found.plus then -- what a sum comes to
    found.actual, found.sum_told = n.value, true
  elseif n.part == "output" and n.noun == "output" and is_sum_of_both(n.before) then
    found.actual, found.sum_told = n.value, true
  elseif found.plus and (n.noun == "option" or n.noun == "output" or first_of(n.behind, OUTPUT)) then
    found.output = found.output or n.value
  elseif found.plus and n.noun == "input" then
    found.inputs = (found.inputs or 0) + n.value
  elseif
    n.role == "limit"
    and n.part == "output"
    and not found.output
    and first_of(n.before, OUTPUT) == nil
  then
    found.output = n.value
  elseif n.role == "limit" and n.noun ~= "input" and n.value >= MIN_LIMIT then
    if found.limit == nil then
      found.doubtful = n.closed and n.value % 256 ~= 0 and n.value % 500 ~= 0 and not n.is_tokens
    end
    found.limit = found.limit or n.value
  elseif n.role == "excess" then
    found.excess = found.excess or n.value
  elseif n.role == "actual" or n.noun == "input" or n.role == nil and (n.is_tokens or n.part) then
    note_actual(found, n)
  end
end

-- No error has so many numbers; a text that is all numbers has nothing to say.
local MAX_NUMBERS = 2000

-- Walk over the numbers of the text.
local function read_numbers(items)
  local found, i = { read = 0, plus = adds_up(items) }, 1
  while i <= #items and found.read < MAX_NUMBERS do
    local item = items[i]
    found.read = found.read + (item.number and 1 or 0)
    if item.number == nil or is_bracketed_code(items, i) then
      i = i + 1
    elseif note_sum(found, items, i) then
      i = i + 5
    elseif ratio_at(items, i) then
      found.actual, found.limit = ratio_at(items, i)
      i = i + 3
    elseif range_end(items, i) then
      found.limit = found.limit or range_end(items, i)
      i = i + 4
    else
      note_number(found, describe(items, i))
      i = i + 1
    end
  end
  if found.doubtful and found.actual == nil and found.inputs == nil then
    found.limit = nil -- the only number, in brackets, and no size that windows have: a code
  end
  return found
end

-- Numbers that agree: what is compared with the limit, and the prompt alone where that is told.
local function settle(found, text)
  local input, output, actual = found.input or found.inputs, found.output, found.actual
  local sum = input and input + (output or 0)
  if sum and (actual == nil or actual < sum and actual <= math.max(input, output or 0)) then
    actual = sum
  end
  if found.limit and found.limit < MIN_LIMIT or found.limit and actual and found.limit > actual then
    found.limit = nil
  end
  if actual and input == nil then
    local words = found.actual_number and found.actual_number.before or {}
    local _, at = first_of(words, { requested = true })
    local asked = at and words[at - 1] ~= "model" or first_of(words, { total = true })
    local says_prompt = text:find("prompt", 1, true)
      or text:find("input", 1, true)
      or text:find("message", 1, true)
    local alone = output == nil
      and not asked
      and not found.plus
      and not found.sum_told
      and not text:find("completion", 1, true)
    input = alone and (says_prompt or text:find("request (", 1, true)) and actual or nil
  end
  local excess = found.excess
  if actual and found.limit then
    excess = actual - found.limit
  end
  return { actual = actual, limit = found.limit, input = input, output = output, excess = excess }
end

--
-- What kind of error it is
--

local function has_any(text, phrases)
  for _, phrase in ipairs(phrases) do
    if text:find(phrase, 1, true) then
      return true
    end
  end
  return false
end

-- Calls and results that do not belong together, and other lists that a provider does not take.
local MALFORMED = {
  "tool_use ids",
  "tool_use_id",
  "tool_result block",
  "must be followed by tool messages",
  "ding message with 'tool_calls'",
  "function calls and responses",
  "without its required following item",
  "must start with a user",
  "corresponding tool call",
  "must follow a tool",
  "did not have response messages",
  "no tool call found",
  "no tool output found",
  "function call turn",
  "function response parts",
  "function response turn",
  "roles must alternate",
  "first message must use",
  "must be non-empty",
  "must have non-empty content",
  "tool_call_id",
  "tooluse",
  "toolresult",
}

-- Time: the same request passes later, or never where it is larger than a whole period's share.
local RATE = {
  "per minute",
  "per min",
  "per second",
  "per hour",
  "per day",
  "per week",
  "per month",
  "/min",
  "/ min",
  "every minute",
  "weekly",
  "monthly",
  "hourly",
  "billing period",
  "usage limit",
  "please wait",
  "try again in",
  "try again later",
  "retry after",
  "retry-after",
  "rate limit",
  "rate_limit",
  "ratelimit",
  "too many requests",
  "throttl",
  "quota",
  "resource_exhausted",
  "daily",
}

-- … and as words of their own.
local RATE_WORDS = set "tpm rpm tpd rpd"

-- Time that ran out says nothing of size.
local TIMED_OUT = {
  "deadline exceeded",
  "timed out",
  "timeout",
  "time limit",
  "maximum time",
  "took too long",
  "context canceled",
  "context cancelled",
  "emsgsize",
}

-- The body as bytes, before anybody counted tokens.
local WIRE = {
  "entity too large",
  "payload too large",
  "content too large",
  "request_too_large",
  "request too large",
  "request body",
  "body exceeds",
  "body too large",
  "body size",
  "maximum size",
  "exceeds the maximum allowed number of bytes",
  "content-length",
  "string too long",
  "string_above_max_length",
  "text bytes",
  "message larger than max",
  "payload",
  "maxlength",
}

local MEDIA = { "image", "pdf", "pixel", "megapixel", "audio", "video", "page", "document", "attachment" }

-- Options of the request: how much to write, how much to think.
local SETTINGS = {
  "max_tokens",
  "max_output_tokens",
  "max_completion_tokens",
  "max_new_tokens",
  "maxoutputtokens",
  "max output tokens",
  "maximum output tokens",
  "completion tokens",
  "maximum tokens you requested",
  "budget_tokens",
  "thinking budget",
  "thinking_budget",
  "budget tokens",
  "maxtokens",
}

-- Something is too small, which no compaction mends.
local TOO_SMALL = {
  "too small",
  "too short",
  "too few",
  "minimum",
  "must be at least",
  "should be at least",
  "less than the min",
  "below the min",
  "greater than or equal to",
}

-- Sayings and codes of an overflow that come without numbers.
local TOKENS = {
  "context_length_exceeded",
  "context length exceeded",
  "contextwindowexceeded",
  "context_window_exceeded",
  "exceed_context_size",
  "max_prompt_tokens_exceeded",
  "prompt is too long",
  "prompt too long",
  "input is too long",
  "input too long",
  "too many tokens",
  "prompttoolong",
  "prompt_too_long",
  "input_too_long",
  "input_tokens_exceeded",
  "contextoverflow",
  "contextlengthexceeded",
  "tokens_limit_reached",
  "token limit exceeded",
  "reduce the length of the messages",
  "reduce the length of your",
}

-- Nouns of what the model reads, and what is said of it when it is too much.
local READ = set [[prompt prompts input inputs context conversation history tokens messages message window]]
local WINDOW = set [[context window tokens token ctx n_ctx prompt]]
local EXCESS =
  set [[exceed exceeds exceeded exceeding overflow overflows overflowed overflowing longer larger too over
  beyond surpasses surpassed maximum]]
local LARGE = set "long large big many much"

-- In one sentence: "the conversation is longer than", "input exceeds the context window".
local function says_too_much(items)
  local read, window, excess = false, false, false
  for i, item in ipairs(items) do
    local word = item.word
    if item.sign == "." or item.sign == ";" or item.sign == "\n" then
      read, window, excess = false, false, false
    elseif word then
      local key = word == "message" and items[i + 1] and items[i + 1].sign == ":" -- of a JSON object
      read = read or (not key and READ[word]) or false
      window = window or WINDOW[word] or false
      local behind = items[i + 1] and items[i + 1].word
      excess = excess
        or (word == "too" and LARGE[behind])
        or (word == "more" and behind == "than")
        or (word ~= "too" and word ~= "maximum" and EXCESS[word])
        or false
      local short = behind == "to" or behind == "short"
      if read and excess and (window or not short) then
        return true
      end
    end
  end
  return false
end

local function mentions_tokens(items)
  for _, item in ipairs(items) do
    if UNIT[item.word] or item.word == "context" or item.word and item.word:find "_tokens" then
      return true
    end
  end
  return false
end

-- Is the window named, or a sum of prompt and output? Then it is not the option alone that is wrong.
local function names_window(text, found)
  return found.is_sum
    or found.inputs ~= nil
    or found.sum_told
    or found.plus and has_any(text, { "prompt", "input", "messages" })
    or has_any(text, {
      "context length",
      "context window",
      "context limit",
      "context size",
      "prompt",
      "input token",
      "inputs token",
      "maximum context",
    })
end

local function has_word(items, words)
  for _, item in ipairs(items) do
    if words[item.word] then
      return true
    end
  end
  return false
end

local function report(kind, confidence, numbers)
  local r = numbers or {}
  r.kind, r.confidence = kind, confidence
  return r
end

local function tokens_report(numbers, known)
  local confidence = known and 0.9 or 0.6
  if numbers.actual and numbers.limit then
    confidence = known and 0.99 or 0.8
  end
  return report("tokens", confidence, numbers)
end

-- A rate that the request exceeds alone, or any other.
local function rate_report(found)
  if found.requested and found.limit and found.requested > found.limit then
    local numbers = { actual = found.requested, limit = found.limit, excess = found.requested - found.limit }
    return report("rate_size", 0.9, numbers)
  end
  return report("rate", 0.9)
end

local NOT_ALLOWED = { [401] = true, [403] = true, [404] = true }

-- The reading of a text whose words and numbers are known; nil: no overflow of any kind.
local function classify(text, items, status)
  local found = read_numbers(items)
  local counts_tokens = mentions_tokens(items)
  local numbers = found.other_unit and not counts_tokens and {} or settle(found, text)
  local compared = numbers.actual ~= nil and numbers.limit ~= nil and numbers.actual > numbers.limit
  local known = has_any(text, TOKENS)
  local too_much = says_too_much(items)

  if has_any(text, MALFORMED) and not known then
    return report("malformed", 0.9)
  elseif has_any(text, RATE) or has_word(items, RATE_WORDS) or status == 429 and not (known and compared) then
    return rate_report(found)
  elseif (has_any(text, TIMED_OUT) or NOT_ALLOWED[status]) and not known and not compared then
    return nil
  elseif has_any(text, TOO_SMALL) and not known and not compared then
    return has_any(text, SETTINGS) and report("config", 0.8) or nil
  elseif text:find("array too long", 1, true) then
    return report("config", 0.9)
  elseif has_any(text, SETTINGS) and not known and not names_window(text, found) then
    return report("config", 0.9)
  elseif has_any(text, MEDIA) and not known and not (counts_tokens and (compared or too_much)) then
    too_much = too_much or has_any(text, { "limit", "max", "exceed", "too ", "at most" })
    return too_much and report("media", 0.8) or nil
  elseif known and not found.other_unit then
    return tokens_report(numbers, true)
  elseif has_any(text, WIRE) and not (counts_tokens and (numbers.limit or compared)) then
    return report("wire", status == 413 and 0.9 or 0.7)
  elseif found.other_unit and not counts_tokens then
    return (too_much or compared or has_any(text, { "exceed", "too " })) and report("wire", 0.6) or nil
  elseif known then
    return tokens_report(numbers, true)
  elseif
    counts_tokens
    and (compared or numbers.limit and (too_much or has_any(text, { "range of", "max", "at most" })))
  then
    return tokens_report(numbers, has_any(text, { "context", "maximum" }))
  elseif too_much and (compared or counts_tokens or status == nil or status == 400 or status == 413) then
    return report("tokens", compared and 0.8 or 0.6, numbers)
  elseif numbers.limit and text:find("input length", 1, true) then
    return tokens_report(numbers, false)
  end
end

--
-- Whose error it is
--

local PROVIDERS = {
  { "openrouter", "openrouter" },
  { "litellm", "litellm" },
  { "bedrock", "bedrock" },
  { "validationexception", "bedrock" },
  { "anthropic", "anthropic" },
  { "prompt is too long:", "anthropic" },
  { "input length and max_tokens", "anthropic" },
  { "model_context_window_exceeded", "anthropic" },
  { "exceed_context_size", "llama.cpp" },
  { "available context size", "llama.cpp" },
  { "n_ctx", "llama.cpp" },
  { "ollama", "ollama" },
  { "exceeded max context length by", "ollama" },
  { "vllm", "vllm" },
  { "copilot", "copilot" },
  { "max_prompt_tokens_exceeded", "copilot" },
  { "input token count", "gemini" },
  { "gemini", "gemini" },
  { "moonshot", "kimi" },
  { "kimi", "kimi" },
  { "exceeded model token limit", "kimi" },
  { "deepseek", "deepseek" },
  { "groq", "groq" },
  { "cerebras", "cerebras" },
  { "mistral", "mistral" },
  { "maximum prompt length", "xai" },
  { "grok", "xai" },
  { "lm studio", "lmstudio" },
  { "algo.invalidparameter", "qwen" },
  { "this endpoint's maximum", "openrouter" },
  { "azure", "azure" },
  { "openai", "openai" },
  { "context_length_exceeded", "openai" },
}

local function provider_of(text)
  for _, row in ipairs(PROVIDERS) do
    if text:find(row[1], 1, true) then
      return row[2]
    end
  end
end

--
-- The host's own patterns
--

local KINDS =
  { tokens = true, rate = true, rate_size = true, wire = true, media = true, config = true, malformed = true }

local function wrong_option(place, wanted, value)
  local got = type(value) == "string" and "'" .. value .. "'" or type(value)
  raise(("bad argument #3 to 'overflow' (options.%s: %s expected, got %s)"):format(place, wanted, got))
end

local function check_pattern(row, i)
  local place = ("patterns[%d]"):format(i)
  if type(row) ~= "table" then
    wrong_option(place, "table", row)
  elseif type(row.pattern) ~= "string" then
    wrong_option(place .. ".pattern", "string", row.pattern)
  elseif not KINDS[row.kind] then
    wrong_option(place .. ".kind", "kind of overflow", row.kind)
  elseif row.captures ~= nil and type(row.captures) ~= "table" then
    wrong_option(place .. ".captures", "list of names", row.captures)
  elseif not pcall(string.find, "", row.pattern) then
    wrong_option(place .. ".pattern", "Lua pattern", row.pattern)
  end
end

local function to_number(text)
  return type(text) == "number" and text or tonumber((tostring(text):gsub("[,_ ]", "")))
end

local function try_pattern(row, text)
  local matched = { text:match(row.pattern) }
  if matched[1] == nil then
    return nil
  end
  local r = report(row.kind, 1)
  r.provider = row.provider
  for k, name in ipairs(row.captures or {}) do
    r[name] = to_number(matched[k])
  end
  if r.actual and r.limit then
    r.excess = r.excess or r.actual - r.limit
  end
  return r
end

local function try_patterns(patterns, text)
  for i = 1, #patterns do
    check_pattern(patterns[i], i)
  end
  for i = 1, #patterns do
    local r = try_pattern(patterns[i], text)
    if r then
      return r
    end
  end
end

local function text_of(err)
  if type(err) == "string" then
    return err
  end
  local found = {}
  collect(err, found, 1, {})
  return table.concat(found, "\n")
end

local function check_arguments(err, status)
  if err ~= nil and type(err) ~= "string" and type(err) ~= "table" then
    raise(("bad argument #1 to 'overflow' (string or table expected, got %s)"):format(type(err)))
  elseif status ~= nil and type(status) ~= "number" then
    raise(("bad argument #2 to 'overflow' (number expected, got %s)"):format(type(status)))
  end
end

---@see compaction.overflow in types.lua
return function(err, status, options)
  err, status = present(err), present(status)
  check_arguments(err, status)
  local o = options_of("overflow", 3, options, { patterns = "table" })
  local raw = excerpt(text_of(err or ""))
  local own = o.patterns and try_patterns(o.patterns, raw)
  if own then
    return own
  end
  status = status or status_in(err, 1)
  local text = clean(raw)
  local items = scan(text)
  if status == 413 and not text:find "%a%a%a" then
    return report("wire", 0.3)
  end
  local r = classify(text, items, status)
  if r == nil and status == 413 then
    r = report("wire", 0.3)
  end
  if r then
    r.provider = provider_of(text)
  end
  return r
end
