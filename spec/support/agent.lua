-- An agent that works against a simulated provider, with the compactor between them; and an oracle that
-- knows every exact size. Returns counts of what happened; nothing is asserted here.
local compaction = require "compaction"
local providers = require "spec.support.provider"
local random_of = require "spec.support.random"

local M = {}

--
-- The oracle: exact sizes, the same budgets
--

local Oracle = {}
Oracle.__index = Oracle

-- Of the window that is served, whatever the agent was told.
local function oracle_of(o, window)
  local trigger =
    math.min(math.floor(0.9 * window), math.floor(0.95 * (window - math.min(o.reserve, window / 2))))
  local room = trigger - o.fixed
  return setmetatable({
    trigger = trigger,
    room = room,
    base = o.fixed,
    keep = math.min(20000, math.floor(window / 5), math.floor(0.4 * room)),
    summary = math.min(16000, math.floor(window / 4), math.floor(0.3 * room)),
    items = {}, -- { tokens, cut = may the list be cut before it?, request }
    used = o.fixed,
    compactions = 0,
    kept = 0, -- sum of shares of the budget
  }, Oracle)
end

function Oracle:add(tokens, may_cut, is_request)
  self.items[#self.items + 1] = { tokens = tokens, cut = may_cut, request = is_request }
  self.used = self.used + tokens
end

-- A message that leaves too little room is cut, as the library does it.
function Oracle:cut_items()
  for _, item in ipairs(self.items) do
    local most = self.room * 0.85
    if item.tokens > most then
      self.used = self.used - item.tokens + most
      item.tokens = most
    end
  end
end

function Oracle:look(summary_share)
  if self.used <= self.trigger then
    return
  end
  self:cut_items()
  if self.used <= self.trigger then
    return
  end
  local kept, from = 0, nil
  for i = #self.items, 1, -1 do
    kept = kept + self.items[i].tokens
    if self.items[i].cut then
      if from and kept > self.keep then
        break
      end
      from = i
    end
  end
  local request
  for i = #self.items, 1, -1 do
    if self.items[i].request then
      request = i
      break
    end
  end
  local new = { { tokens = math.floor(self.summary * summary_share), cut = true } }
  if request and request < from then
    local item = self.items[request]
    new[2] = { tokens = math.min(item.tokens, self.room * 0.15), cut = true, request = true }
  end
  local tokens = 0
  for i = from, #self.items do
    new[#new + 1] = self.items[i]
    tokens = tokens + self.items[i].tokens
  end
  self.kept = self.kept + math.min(tokens / self.keep, 1)
  self.items, self.used = new, self.base
  for _, item in ipairs(new) do
    self.used = self.used + item.tokens
  end
  self.compactions = self.compactions + 1
end

--
-- The agent
--

-- What a summariser may do, by the number of the request.
local SUMMARY_SHARE = 0.5
local summarizers = {}
function summarizers.good(self, request)
  self.summaries = self.summaries + 1
  return ("Summary %d. "):format(self.summaries)
    .. providers.text("prose", math.floor(request.max_tokens * SUMMARY_SHARE * self.o.ratio))
end
function summarizers.failing(self, request)
  self.calls = self.calls + 1
  if self.calls % 2 == 1 then
    return nil, "connection lost"
  end
  return summarizers.good(self, request)
end
function summarizers.always_failing()
  return nil, "connection lost"
end
function summarizers.empty(self, request)
  self.calls = self.calls + 1
  return self.calls % 2 == 1 and { content = "  \n" } or summarizers.good(self, request)
end
function summarizers.too_long(self, request)
  self.calls = self.calls + 1
  if self.calls % 2 == 1 then
    return providers.text("prose", math.floor(request.max_tokens * 4 * self.o.ratio))
  end
  return summarizers.good(self, request)
end
function summarizers.always_too_long(self, request)
  return providers.text("prose", math.floor(request.max_tokens * 4 * self.o.ratio))
end
function summarizers.growing(self, request)
  local earlier = request.messages[1].content:match "<summary_so_far>\n(.-)\n</summary_so_far>" or ""
  return earlier .. providers.text("prose", math.floor(request.max_tokens * 0.3 * self.o.ratio))
end
function summarizers.overflowing(self, request)
  local size = self.provider:count(request.system .. request.messages[1].content .. request.user)
  if size > self.o.window * 0.3 then
    return nil, ("prompt is too long: %d tokens > %d maximum"):format(size, math.floor(self.o.window * 0.3))
  end
  return summarizers.good(self, request)
end

local Agent = {}
Agent.__index = Agent

-- o: window, ratio, wire, fault, turns, seed; the fault sets the rest
local FAULTS = {
  none = {},
  failing = { summarizer = "failing" },
  empty = { summarizer = "empty" },
  too_long = { summarizer = "too_long" },
  growing = { summarizer = "growing" },
  big_result = { big = true },
  parallel = { parallel = true },
  chain = { chain = 100 },
  dense = { dense = true },
  reserve = { reserve_share = 0.4 },
  resent = { resends = true },
  no_usage = { no_usage = true },
  smaller = { served_share = 0.8, told = true },
  smaller_untold = { served_share = 0.8, told = false },
  clips = { served_share = 0.8, clips = true },
  switch = { switch = true },
  always_failing = { summarizer = "always_failing" },
  always_too_long = { summarizer = "always_too_long" },
  overflowing = { summarizer = "overflowing" },
}
M.FAULTS = FAULTS

local function new_agent(o)
  local fault = FAULTS[o.fault]
  local self = setmetatable(
    { o = o, fault = fault, random = random_of(o.seed), calls = 0, summaries = 0, serial = 0 },
    Agent
  )
  o.fixed = math.floor(math.max(o.window * 0.06, 150))
  o.reserve = math.floor(o.window * (fault.reserve_share or 0))
  self.provider = providers.new {
    wire = o.wire,
    ratio = o.ratio,
    fixed = o.fixed,
    served = math.floor(o.window * (fault.served_share or 1)) - o.reserve,
    told = fault.told ~= false,
    clips = fault.clips,
    no_usage = fault.no_usage,
    resends = fault.resends,
    model = "gpt-5",
  }
  self.count = {
    requests = 0,
    refused = 0,
    early = 0,
    over = 0,
    unrecovered = 0,
    broken = 0,
    lost = 0,
    idle = 0,
    no_gain = 0,
    compactions = 0,
    shortened = 0,
    kept = 0,
    kept_of = 0,
  }
  self.oracle = oracle_of(o, math.floor(o.window * (fault.served_share or 1)))
  local summarize = summarizers[fault.summarizer or "good"]
  self.chat = compaction.compactor {
    limit = o.window,
    reserve = o.reserve > 0 and o.reserve or nil,
    shape = o.wire,
    model = "gpt-5",
    policy = o.policy,
    summarize = function(request)
      return summarize(self, request)
    end,
    on_event = function(event)
      self:on_event(event)
    end,
  }
  self.since = { turns = 1, refused = false }
  return self
end

function Agent:on_event(event)
  local n = self.count
  if event.type == "planned" then
    self.verdict = event.verdict
  elseif event.type == "applied" then
    local report = event.report
    local has_summary = report.summary ~= nil
    for _, step in ipairs(report.steps or {}) do
      has_summary = has_summary or step.step == "digest" or step.step == "drop"
      n.no_gain = n.no_gain + (step.after >= step.before and 1 or 0)
    end
    if has_summary then
      n.compactions = n.compactions + 1
    else
      n.shortened = n.shortened + 1
    end
    n.idle = n.idle + ((self.since.turns == 0 and not self.since.refused) and 1 or 0)
    n.no_gain = n.no_gain + (report.after >= report.before and 1 or 0)
    if report.summary then
      local v, c = self.verdict, self.chat.history.conversation
      local room = v.trigger - c:calibration().fixed
      local budget = math.min(20000, math.floor(v.limit / 5), math.floor(0.4 * room))
      local first = #c - (report.kept - (v.request and 1 or 0)) + 1
      n.kept = n.kept + math.min(c:estimate(first, #c) / budget, 1)
      n.kept_of = n.kept_of + 1
    end
    self.since.turns, self.since.refused = 0, false
  end
end

-- Bytes of a message that fills about this share of the window, or of a usual one.
function Agent:bytes(share)
  return math.max(
    math.floor(math.min(self.o.window, 200000) * self.o.ratio * share * (0.3 + self.random(140) / 100)),
    40
  )
end

function Agent:append(native, text, role, is_request)
  local items = role == "assistant" and native[1] and native or { native }
  if role ~= "assistant" then
    local p = self.provider
    p.known[native] = {
      tokens = p:count(text) + 4,
      role = role,
      calls = {},
      answers = role == "tool" and {
        self.o.wire == "gemini" and native.parts[1].functionResponse.name or self.answering,
      } or {},
      request = is_request,
    }
  end
  self.chat:append(native)
  local tokens = 0
  for _, item in ipairs(items) do
    tokens = tokens + self.provider.known[item].tokens
  end
  self.oracle:add(tokens, role ~= "tool", is_request)
  if role ~= "tool" then
    self.since.turns = self.since.turns + 1
  end
end

function Agent:ask()
  self.serial = self.serial + 1
  local text = ("Request %d: "):format(self.serial) .. providers.text("prose", self:bytes(0.003))
  self.request = self.provider.wire.user(text)
  self:append(self.request, text, "user", true)
  self.left = self.fault.chain or self.random(5)
end

function Agent:add_results(calls)
  for i, call in ipairs(calls) do
    local share = self.fault.chain and 0.008 or 0.012
    local bytes = self:bytes(share)
    if self.fault.big and self.random(60) == 0 then
      bytes = math.floor(self.o.window * self.o.ratio * 0.9)
    end
    local kind = self.fault.dense and (self.random(2) == 0 and "hex" or "code")
      or (self.random(2) == 0 and "code" or "prose")
    local text = providers.text(kind, bytes)
    self.answering = call.id
    self:append(self.provider.wire.result(call.id, call.name, text), text, "tool")
    if self.fault.parallel and i < #calls then -- the host asks while calls are pending
      local before = self.count.compactions
      self.chat:compact()
      self.count.broken = self.count.broken + (self.count.compactions > before and 1 or 0)
    end
  end
end

-- Is the last request in what is sent, whole, or named as cut?
function Agent:holds_request(messages)
  for i = #messages, 1, -1 do
    if messages[i] == self.request then
      return true
    end
  end
  for _, message in ipairs(self.chat.history.list) do
    if message.role == "user" and message.compaction and message.compaction.cut then
      return true
    end
  end
  return false
end

function Agent:compact()
  local verdict = self.chat:decide()
  if verdict.action == "compact" or verdict.action == "stuck" or verdict.action == "prune" then
    self.chat:compact()
  end
end

-- Send until the provider takes it; its size, or nil.
function Agent:send()
  local n, refused = self.count, false
  for _ = 1, 6 do
    local messages = self.chat:messages()
    local wrong = self.provider:complaint(messages)
    n.broken = n.broken + (wrong and 1 or 0)
    n.lost = n.lost + (self:holds_request(messages) and 0 or 1)
    n.requests = n.requests + 1
    local size, err, status = self.provider:send(messages)
    if size > self.provider.served then
      local early = self.provider.reported < 3 and not self.fault.no_usage
      n[early and "early" or "over"] = n[early and "early" or "over"] + 1
    end
    if not err then
      return size
    end
    n.unrecovered = n.unrecovered + (refused and 1 or 0)
    refused, self.since.refused = true, true
    n.refused = n.refused + 1
    local advice = self.chat:overflowed(err, status)
    if advice.action ~= "compact" and advice.action ~= "shrink_item" then
      n.unrecovered = n.unrecovered + 1
    end
    self.chat:compact()
  end
end

function Agent:turn()
  if self.pending then
    self:add_results(self.pending)
    self.pending = nil
  else
    self:ask()
  end
  self.oracle:look(SUMMARY_SHARE)
  self:compact()
  local size = self:send()
  if not size then
    return false
  end
  local calls = {}
  if self.left > 0 then
    self.left = self.left - 1
    for k = 1, self.fault.parallel and self.random(5) + 1 or 1 do
      self.serial = self.serial + 1
      calls[k] =
        { id = "c" .. self.serial, name = "tool_" .. k, path = "src/file" .. self.serial % 90 .. ".lua" }
    end
    self.pending = calls
  end
  local text = providers.text("prose", self:bytes(0.002))
  local reasoning = self.random(2)
    * math.floor(math.min(self.o.window, 200000) * 0.001 * (1 + self.random(3)))
  local reply = self.provider:answer(size, text, calls, reasoning)
  self:append(reply, text, "assistant")
  return true
end

function Agent:switch_model()
  local p = self.provider
  p.model = p.model == "gpt-5" and "claude-opus-4-8" or "gpt-5"
  p.factor = p.factor * (p.model == "gpt-5" and 1 / 1.25 or 1.25)
  for _, known in pairs(p.known) do
    known.tokens = math.floor(known.tokens * (p.model == "gpt-5" and 1 / 1.25 or 1.25))
  end
  p.reported = 0
  self.chat:set_model(p.model, self.o.window)
end

---Run a scenario: { window, ratio, wire, fault, turns, seed, policy }. Counts, and the oracle's compactions.
function M.run(o)
  local self = new_agent(o)
  for turn = 1, o.turns do
    if self.fault.switch and turn % 400 == 0 and not self.pending then
      self:switch_model()
    end
    if not self:turn() then
      self.count.dead = turn
      break
    end
  end
  self.count.oracle, self.count.room = self.oracle.compactions, self.oracle.room
  self.count.average_kept = self.count.kept_of > 0 and self.count.kept / self.count.kept_of or 1
  self.count.oracle_kept = self.oracle.kept / math.max(self.oracle.compactions, 1)
  return self.count, self
end

return M
