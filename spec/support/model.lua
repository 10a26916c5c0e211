-- The conversation as a slow model, written from its rules and not from its sources: it keeps
-- the messages, and works every answer out from the first one on.
local M = {}
M.__index = M

-- estimator: "seed" or "auto"
function M.new(estimator, limit)
  return setmetatable({ estimator = estimator, limit = limit or 0, list = {} }, M)
end

function M:append(message)
  self.list[#self.list + 1] = message
end

function M:truncate(n)
  while #self.list > n do
    table.remove(self.list)
  end
end

--
-- Sizes of single messages
--

-- The text estimator: for each byte a weight by the one before it, from the committed tables.
local loaded = {}

local function table_of(name)
  if not loaded[name] then
    local file = assert(io.open("src/tables/" .. name .. ".u8", "rb"))
    loaded[name] = file:read "*a"
    file:close()
  end
  return loaded[name]
end

local weighed = {} -- texts come again and again

-- Hundredths of a token of one text.
local function weight(text, name)
  if text == "" then
    return 0
  end
  weighed[name] = weighed[name] or {}
  if not weighed[name][text] then
    local t, sum, previous = table_of(name), 0, 10
    for i = 1, #text do
      local current = text:byte(i)
      sum = sum + t:byte(current * 256 + previous + 1)
      previous = current
    end
    weighed[name][text] = math.min(math.max(sum, 100), 100 * #text)
  end
  return weighed[name][text]
end

local tables = { openai = { "o200k" }, ["claude-5"] = { "claude5" }, unknown = { "o200k", "claude4" } }
local tool_envelopes = { openai = 10, ["claude-5"] = 14, unknown = 12 }
local families = { ["gpt-5"] = "openai", ["claude-opus-4-8"] = "claude-5" }

local function texts_of(message)
  local texts = { message.content or "", message.reasoning_content or "" }
  for _, call in ipairs(message.tool_calls or {}) do
    texts[#texts + 1] = call["function"] and call["function"].arguments or ""
  end
  return texts
end

local function table_guess(message, family)
  local most = 0
  for _, name in ipairs(tables[family]) do
    local sum = 0
    for _, text in ipairs(texts_of(message)) do
      sum = sum + weight(text, name)
    end
    most = math.max(most, sum)
  end
  return math.floor((most + 50) / 100) + (message.role == "tool" and tool_envelopes[family] or 5)
end

M.text_weight = weight

local function heuristic(message)
  local bytes = #(message.content or "") + #(message.reasoning_content or "")
  for _, call in ipairs(message.tool_calls or {}) do
    bytes = bytes + #(call["function"] and call["function"].arguments or "")
  end
  return math.floor(bytes / 3.5) + 5
end

local function usage_of(message)
  local u = message.usage or {}
  return (u.input_tokens or 0) + (u.cached_input_tokens or 0), u.output_tokens or 0, u.reasoning_tokens or 0
end

local function stored(message)
  return (message.reasoning_content or "") ~= ""
end

local function seed_reported(message)
  local _, output, reasoning = usage_of(message)
  local size = stored(message) and output or output - reasoning
  return size > 0 and size + 5 or nil
end

local function same_model(a, b)
  a, b = a or "", b or ""
  return a == "" or b == "" or a == b
end

--
-- The seed
--

function M:seed_scale()
  local measured_sum, guessed_sum, last = 0, 0, nil
  local told, guessed = 0, 0
  for _, message in ipairs(self.list) do
    local prompt, output, reasoning = usage_of(message)
    if prompt > 0 then
      if last then
        local measured = prompt - last.total - told
        if measured > 0 and guessed > 0 and same_model(last.model, message.model) then
          measured_sum, guessed_sum = measured_sum + measured, guessed_sum + guessed
        end
      end
      last = { total = prompt + math.max(output - reasoning, 0), model = message.model }
      told, guessed = 0, 0
    elseif seed_reported(message) then
      told = told + seed_reported(message)
    else
      guessed = guessed + heuristic(message)
    end
  end
  if guessed_sum < 512 then
    return 1
  end
  return math.min(math.max(measured_sum / guessed_sum, 0.75), 2)
end

function M:seed_used()
  local scale, sum, source = self:seed_scale(), 0, "estimate"
  for _, message in ipairs(self.list) do
    local prompt, output, reasoning = usage_of(message)
    if prompt > 0 then
      sum, source = prompt + math.max(output - reasoning, 0), "anchor"
    else
      sum = sum + (seed_reported(message) or math.floor(heuristic(message) * scale))
    end
  end
  return sum, source
end

--
-- Screened anchors. State is rebuilt message by message; `i` counts messages.
--

local function round(x)
  return math.floor(x + 0.5)
end

-- Works the list through; returns the state at its end.
function M:work()
  local s = {
    family = "unknown", -- of the newest model named so far
    tallies = {}, -- model name -> { measured, guessed, windows, dropped, resent }
    sizes = {}, -- own size of message i: { told = n } or { guess = n, ratio = r }
    anchors = {}, -- in order: { i, prompt, answer, reasoning, model, tally, refused, … }
    refused = { shrunk = 0, model = 0, clipped = 0, aggregated = 0, placeholder = 0 },
  }
  local function tally(name)
    s.tallies[name] = s.tallies[name]
      or { measured = 0, guessed = 0, windows = 0, dropped = 0, resent = 0, known = s.family ~= "unknown" }
    return s.tallies[name]
  end
  local function present()
    local newest = s.anchors[#s.anchors]
    return newest and tally(newest.tally)
      or { measured = 0, guessed = 0, windows = 0, dropped = 0, resent = 0 }
  end
  local function scale()
    local prior = present().known and 4096 or 512
    return (prior + present().measured) / (prior + present().guessed)
  end
  local function live()
    for k = #s.anchors, 1, -1 do
      if not s.anchors[k].refused then
        return s.anchors[k]
      end
    end
  end
  -- told and guessed tokens of the messages strictly between an anchor and message i
  local function between(anchor, i)
    local told, guessed = 0, 0
    for k = anchor.first, i - 1 do
      told, guessed = told + (s.sizes[k].told or 0), guessed + (s.sizes[k].guess or 0)
    end
    return told, guessed
  end
  local function user_between(anchor, i)
    for k = anchor.i + 1, i - 1 do
      if self.list[k].role == "user" then
        return true
      end
    end
    return false
  end
  local function growth(anchor, i)
    local told, guessed = between(anchor, i)
    return anchor.answer + told + guessed * scale()
  end
  local function resent_change(anchor, i)
    return user_between(anchor, i) and -anchor.turn or anchor.reasoning
  end
  local function expected_change(anchor, i)
    local t = tally(anchor.tally)
    return t.resent + 1000 <= t.dropped and math.floor(resent_change(anchor, i)) or 0
  end

  local function accept(new, b)
    local told, guessed = between(b, new.i)
    local charged = new.prompt - b.prompt - b.answer - told
    local change = expected_change(b, new.i)
    new.turn = user_between(b, new.i) and 0 or b.turn + b.reasoning
    if b.turn + b.reasoning > 0 and same_model(new.model, b.model) then
      local dropped = b.prompt + growth(b, new.i)
      local t = tally(b.tally)
      local function capped(e)
        return math.floor(math.min(math.abs(e), 2000))
      end
      t.dropped = t.dropped + capped(new.prompt - dropped)
      t.resent = t.resent + capped(new.prompt - dropped - resent_change(b, new.i))
    end
    if not same_model(b.model, new.model) then
      s.refused.model = s.refused.model + 1
      return
    end
    local measured = charged - change
    if measured < 0 or (measured == 0 and guessed > 0) then
      s.refused.shrunk = s.refused.shrunk + 1
      new.shrunk = true
    elseif measured > 0 and guessed > 0 then
      local t = tally(new.tally)
      local low, high = t.known and 0.6 or 0.4, t.known and 2 or 3
      t.measured = t.measured + math.floor(math.min(math.max(measured, low * guessed), high * guessed))
      t.guessed, t.windows = t.guessed + guessed, t.windows + 1
    end
    if charged > 0 and guessed > 0 then
      for k = b.first, new.i - 1 do
        s.sizes[k].ratio = charged / guessed
      end
    end
  end

  local function arrive(new)
    local b, before = live(), s.anchors[#s.anchors]
    if not b then
      return
    end
    local grown = growth(before, new.i)
    local step = new.prompt - before.prompt
    if
      before.refused
      and same_model(before.model, new.model)
      and step > 0
      and math.abs(step - grown) <= grown / 2 + 100
    then
      s.refused[before.refused] = s.refused[before.refused] - 1
      before.refused = nil
      b = before
    else
      local expected = b.prompt + growth(b, new.i) + expected_change(b, new.i)
      local half = self.limit / 2
      if
        (new.prompt == before.prompt and grown > 40)
        or (self.limit > 0 and math.abs(new.prompt - half) <= 4 and expected > 1.5 * new.prompt)
      then
        s.refused.clipped = s.refused.clipped + 1
        new.refused = "clipped"
        if before == b and b.shrunk and new.prompt == b.prompt then
          b.refused = "both"
        end
        return
      end
      if new.prompt > 1.5 * expected and new.prompt - b.prompt > 4 * growth(b, new.i) + 1000 then
        s.refused.aggregated = s.refused.aggregated + 1
        new.refused = "aggregated"
        return
      end
    end
    accept(new, b)
  end

  for i, message in ipairs(self.list) do
    local prompt, output, reasoning = usage_of(message)
    if message.role == "assistant" and (message.model or "") ~= "" then
      s.family = families[message.model] or "unknown"
    end
    local guess = table_guess(message, s.family)
    local all, reasoning_bytes = 0, #(message.reasoning_content or "")
    for _, text in ipairs(texts_of(message)) do
      all = all + #text
    end
    -- stored reasoning is taken off by its share of the bytes
    local bare = table_guess({ role = message.role }, s.family)
    local visible = guess - (all > 0 and round((guess - bare) * reasoning_bytes / all) or 0)
    local new
    if prompt > 0 then
      local before = s.anchors[#s.anchors]
      local name = message.model or ""
      new = { i = i, prompt = prompt, reasoning = reasoning, model = message.model, turn = 0 }
      new.tally = name == "" and before and before.tally or name
      tally(new.tally)
    end
    local answer = output - reasoning
    local worth = visible * scale()
    local placeholder = answer <= 8 and worth > 4 * math.max(answer, 0) + 16
    if new then
      -- an answer whose output cannot be true is guessed with what follows it
      new.answer = placeholder and 0 or math.max(answer, 0)
      new.first = placeholder and i or i + 1
      arrive(new)
      s.anchors[#s.anchors + 1] = new
      s.sizes[i] = placeholder and { guess = visible } or { told = new.answer }
    elseif not placeholder and seed_reported(message) then
      s.sizes[i] = { told = seed_reported(message) }
    else
      s.sizes[i] = { guess = guess }
    end
    if placeholder and output > 0 then
      s.refused.placeholder = s.refused.placeholder + 1
    end
  end

  s.scale = scale()
  s.windows = present().windows
  local b = live()
  if b then
    s.used, s.source =
      round(b.prompt + growth(b, #self.list + 1) + expected_change(b, #self.list + 1)), "anchor"
  else
    local sum = 0
    for _, size in ipairs(s.sizes) do
      sum = sum + (size.told or size.guess * s.scale)
    end
    s.used, s.source = round(sum), "estimate"
  end
  function s.size(i)
    local size = s.sizes[i]
    return size.told or round(size.guess * (size.ratio or s.scale))
  end
  return s
end

--
-- Units, by trying everything
--

-- For each result the message of its call, or nil for an orphan; and the waiting calls.
function M:paired()
  local open, ties, newest = {}, {}, nil
  for i, message in ipairs(self.list) do
    if message.role == "assistant" then
      newest = i
      for _, call in ipairs(message.tool_calls or {}) do
        local id = call.id or ""
        open[#open + 1] = { message = i, id = id }
      end
    elseif message.role == "tool" then
      local id, chosen = message.tool_call_id or "", nil
      local function choose(accept)
        if chosen then
          return
        end
        for k, call in ipairs(open) do
          if call.message == newest and not call.result and accept(call) then
            chosen = k
            return
          end
        end
      end
      if id ~= "" then
        choose(function(call)
          return call.id == id
        end)
        for k = #open, 1, -1 do
          if not chosen and open[k].message ~= newest and open[k].id == id and not open[k].result then
            chosen = k
          end
        end
      end
      choose(function(call)
        return call.id == ""
      end)
      if id == "" then
        choose(function()
          return true
        end)
      end
      if chosen then
        open[chosen].result = i
        ties[i] = open[chosen].message
      end
    end
  end
  local pending, first = 0, nil
  for _, call in ipairs(open) do
    if call.message == newest and not call.result then
      pending, first = pending + 1, call.message
    end
  end
  return ties, pending, first
end

function M:can_cut(i)
  local ties, _, waiting = self:paired()
  local message = self.list[i]
  if message and message.role ~= "user" and message.role ~= "assistant" then
    return false
  end
  if waiting and i > waiting then
    return false
  end
  for k = i, #self.list do
    if ties[k] and ties[k] < i then
      return false
    end
  end
  return true
end

return M
