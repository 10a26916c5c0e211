---One conversation kept inside its window: decide, summarise, accept, apply, recover.
---
---A job is made for the messages as they are; messages appended meanwhile are kept. What changes the
---messages behind its back (another job, a shortened message) makes it void: "changed".
local adapters = require "compaction.adapter"
local checked = require "compaction.checked"
local core = require "compaction.core"
local facts = require "compaction.facts"
local history_of = require "compaction.history"
local ladder = require "compaction.ladder"
local options_of = require "compaction.options"
local overflow = require "compaction.overflow"
local ask = require "compaction.policy.ask"
local state_of = require "compaction.policy.state"
local present = require "compaction.present"
local raise = require "compaction.raise"
local repair = require "compaction.repair"
local replies = require "compaction.reply"
local request = require "compaction.request"
local shape = require "compaction.shape"

-- A prompt is too large for sure beyond this share of what the reserve leaves: sizes are estimates,
-- and what no provider has counted yet may be a tenth more, or as much more as lately some was. Of
-- messages that fill less than this part of the window, overheads tell more than texts.
local CERTAIN = 0.97
local DOUBT, MOST_DOUBT, DOUBT_FADES = 0.1, 1, 0.98
local TELLING = 0.005
-- A refusal that counts less than this part of what was sent, or more than any prompt has, counts something else.
local LEAST_TOLD, MOST_TOLD = 0.25, 2 ^ 53
-- A refusal without numbers says that the window is smaller than what was sent, by some percent.
local UNTOLD = 0.97
-- A reply is over the cap when it is longer than asked for by more than counts may differ.
local CAP_SLACK, CAP_TOKENS = 1.15, 20
-- Of a summary, for the facts beside the prose.
local FACTS_SHARE = 0.25
-- Compactions in a row that freed nothing, before no more are tried.
local STALLED = 2
-- The summariser refuses a request as too long: so often smaller ones are tried.
local SMALLER = 3
-- A prompt clipped to less than this part of the window is half of it, as some servers keep. One alone may be
-- chance: reasoning that is dropped can make two prompts equal.
local HALF_CLIPPED = 0.6
local CLIPPED_IN_A_ROW = 2
-- The part of the room that stays free after a message was cut, or the ladder was gone down.
local FREE = 0.1

local OPTIONS = {
  limit = "tokens",
  model = "string",
  estimator = "string or function",
  families = "table",
  fixed = "table or number",
  threshold = "number",
  reserve = "tokens",
  keep = "tokens",
  summary = "tokens",
  min_gain = "tokens",
  summarizer_limit = "tokens",
  instructions = "string",
  result_bytes = "tokens",
  patterns = "table",
  shape = "string",
  policy = "function",
  summarize = "function",
  on_event = "function",
}

local DECIDE_OPTIONS = { force = "boolean" }
local COMPACT_OPTIONS = { force = "boolean", instructions = "string" }

-- Of a tool result in a summarising request, where the host says nothing.
local RESULT_BYTES = 16000

local Compactor = {}
Compactor.__index = Compactor

local function emit(self, event)
  if self.on_event then
    self.on_event(event)
  end
end

--
-- Windows
--

-- The window of the present model: what the host said, or less where a refusal told so.
local function limit_of(self)
  local told, served = self.told[self.model or ""], self.served[self.model or ""]
  if told and served then
    return math.min(told, served)
  end
  return served or told
end

local function update_limit(self)
  self.history.conversation:set_limit(limit_of(self))
  self.stalled, self.unproven = 0, nil
end

-- The window in our own tokens: smaller, after a refusal that counted more than we had, until the next
-- prompt is reported.
local function own_limit(self)
  local limit = limit_of(self)
  return limit and self.excess and math.floor(limit / self.excess) or limit
end

local function reserve_of(self)
  return math.max(self.options.reserve or 0, self.asked or 0)
end

-- What the reserve leaves for the prompt.
local function input_limit(self)
  local limit = own_limit(self)
  return limit - math.min(reserve_of(self), math.floor(limit / 2))
end

-- By how much more than estimated the prompt may well be, as a factor, where it would then be refused; else 1.
local function peril(self)
  local used, limit = self.history:used(), limit_of(self)
  local worst = used + self.doubt * self.history:uncounted()
  return limit and used > 0 and worst > input_limit(self) and worst / used or 1
end

local function budget_of(self, force)
  local o, limit = self.options, own_limit(self)
  return {
    limit = limit and math.floor(limit / peril(self)),
    threshold = o.threshold,
    reserve = reserve_of(self),
    keep = o.keep,
    summary = o.summary,
    min_gain = o.min_gain,
    summarizer_limit = o.summarizer_limit,
    force = force,
  }
end

-- The verdict with some numbers of the budget changed.
local function plan(self, changes)
  local budget = budget_of(self)
  for key, value in pairs(changes or {}) do
    budget[key] = value
  end
  return self.history.conversation:plan(budget)
end

-- Would the next request be refused? It was, or it is too large for sure, or may well be.
local function must_shrink(self)
  if self.refused or limit_of(self) == nil then
    return self.refused
  end
  return self.history:used() > CERTAIN * input_limit(self) or peril(self) > 1
end

--
-- Deciding
--

-- Less than this is no progress.
local function least_gain(self)
  return self.options.min_gain or math.max(math.floor((limit_of(self) or 0) / 20), 1)
end

local function count_progress(self, progress, wanted)
  self.stalled = progress < wanted and self.stalled + 1 or 0
  self.stalled_at = self.history:used()
  self.unproven = nil
end

-- What a compaction freed shows at the next prompt that is reported.
local function look_for_progress(self)
  local proof, c = self.unproven, self.history.conversation
  local used, source = c:used()
  if proof and source == "anchor" then
    local since = #c > proof.length and c:estimate(proof.length + 1, #c) or 0
    count_progress(self, proof.before - (used - since), proof.wanted)
  end
end

-- From now on it is to be seen what this compaction freed. Where no prompt was reported since the one
-- before, the estimate says what that one did.
local function expect_progress(self, report)
  local proof = self.unproven
  if proof then
    count_progress(self, proof.before - proof.after, least_gain(self))
  end
  self.unproven = {
    before = report.before,
    after = report.after,
    wanted = math.max(math.min(least_gain(self), math.floor((report.before - report.after) / 2)), 1),
    length = self.history:count(),
  }
end

-- Two compactions freed nothing: no third one, until there is more that it could free.
local function is_stalled(self, verdict)
  if self.stalled < STALLED then
    return false
  end
  if math.abs(verdict.used - self.stalled_at) > least_gain(self) then
    self.stalled = STALLED - 1
    return false
  end
  return true
end

-- A user asked for it: a summary of half of what there is must do.
local function manual_plan(self)
  local used = self.history:used()
  local verdict = plan(self, { force = true })
  if verdict.reason == "no_gain" and self.options.summary == nil then
    return plan(self, { force = true, summary = math.floor(used / 3) })
  end
  return verdict
end

local function policy_failed(self, verdict, reason)
  verdict.policy_error = reason
  emit(self, { type = "policy_failed", reason = reason })
  return verdict
end

-- What the host's policy says of it, where it has an opinion.
local function ask_policy(self, verdict)
  local opinion, reason = ask(
    self.policy,
    state_of.new(self.history, verdict, function(changes)
      return plan(self, changes)
    end)
  )
  if reason then
    return policy_failed(self, verdict, reason)
  elseif opinion == nil then
    return verdict
  elseif opinion.action == "compact" then
    if verdict.action == "none" and verdict.reason ~= "paused" then
      verdict = plan(self, { force = "keep" })
    end
    verdict.reason = verdict.action == "compact" and opinion.reason or verdict.reason
    return verdict
  end
  verdict.action, verdict.reason = opinion.action, opinion.reason or "policy"
  verdict.indexes, verdict.media = opinion.indexes, opinion.media
  return verdict
end

---What to do now, and why: a verdict of the plan, or of the policy. Pure but for what it learns of
---progress.
function Compactor:decide(options)
  local o = options_of("decide", 1, options, DECIDE_OPTIONS)
  look_for_progress(self)
  if o.force then
    return manual_plan(self)
  end
  local verdict = plan(self)
  if self.refused then
    if verdict.action == "none" then
      verdict = plan(self, { force = "keep" })
    end
    return verdict
  end
  verdict = ask_policy(self, verdict)
  if verdict.action == "compact" and is_stalled(self, verdict) then
    verdict.action, verdict.reason = "stuck", "no_progress"
  end
  return verdict
end

--
-- The job
--

local function summarizer_limit(self, verdict)
  local limit = self.options.summarizer_limit or verdict.limit
  return math.min(limit, self.summarizer_served or limit)
end

local function set_chunk(job, chunk)
  job.request = request.build(job.plan, chunk, job.so_far)
  job.chunk = chunk
end

-- Facts of the range. While nothing is compacted ranges only grow; what was read is not read again.
local function facts_of_range(self, first, last)
  local history, read = self.history, self.read
  if
    read == nil
    or read.version ~= history.version
    or read.first ~= first
    or read.last > last
    or read.newest ~= history:message(read.last)
  then
    read = { version = history.version, first = first, last = first - 1, facts = facts.new() }
    self.read = read
  end
  for i = read.last + 1, last do
    facts.read(read.facts, history:message(i))
  end
  read.last, read.newest = last, history:message(last)
  return read.facts
end

-- Facts of the range within their part of the summary, and what they cost there.
local function facts_beside(self, verdict)
  local history = self.history
  local known = facts_of_range(self, verdict.first, verdict.last)
  local bare = history:summary_size ""
  local _, words = history:summary_within(function(bytes)
    return "", facts.render(known, bytes)
  end, bare + math.floor(verdict.summary * FACTS_SHARE))
  return words, history:summary_size("", words) - bare
end

local function make_job(self, verdict, instructions)
  local history = self.history
  local calibration = history.conversation:calibration()
  local words, cost = facts_beside(self, verdict)
  local requests = request.plan(history.list, verdict.first, verdict.last, {
    limit = summarizer_limit(self, verdict),
    summary = verdict.summary - cost,
    family = calibration.family,
    scale = calibration.scale,
    instructions = instructions or self.options.instructions,
    result_bytes = self.options.result_bytes or RESULT_BYTES,
  })
  if requests == nil then
    return nil, "summarizer_limit"
  end
  local job = {
    verdict = verdict,
    version = history.version,
    plan = requests,
    facts = words,
    facts_size = cost,
    instructions = instructions,
    before = verdict.used,
    after = verdict.after,
    range = history.conversation:estimate(verdict.first, verdict.last),
    first = verdict.first,
    last = verdict.last,
    keep_from = verdict.keep_from,
    summary = verdict.summary,
    chunks = #requests.chunks,
  }
  set_chunk(job, 1)
  return job
end

---A job for what decide says: `job.request` is what to send to the summariser.
function Compactor:prepare(options)
  local o = options_of("prepare", 1, options, COMPACT_OPTIONS)
  local verdict = self:decide { force = o.force }
  if verdict.action ~= "compact" then
    return nil, verdict.reason
  end
  return make_job(self, verdict, o.instructions)
end

-- Why a summary's text can not stand for the range; nil if it can.
local function objection(self, job, words)
  local size = self.history:summary_size(words, job.facts)
  if size >= job.range then
    return "not_smaller"
  elseif
    size - job.facts_size > job.plan.max_tokens * CAP_SLACK + CAP_TOKENS
    or job.after - job.summary + size >= job.verdict.trigger
  then
    return "too_long"
  end
end

local function check_job(job)
  if type(job) ~= "table" or type(job.verdict) ~= "table" or type(job.plan) ~= "table" then
    raise(("bad argument #1 to 'apply' (job expected, got %s)"):format(type(job)))
  end
end

local function refuse(self, reason)
  emit(self, { type = "refused", reason = reason })
  return nil, reason
end

-- The conversation was made smaller. What comes before `report.first` may still be in a provider's cache; what
-- stands there and behind will be read anew.
local function shrunk(self, report)
  local history = self.history
  report.first = history:take_change()
  report.behind = history.conversation:estimate(report.first, history:count())
  self.refused = nil
  self.compactions = self.compactions + 1
  self.last = report
  emit(self, { type = "applied", report = report })
  return true, report
end

-- … so that it should be far from the next time.
local function applied(self, report)
  expect_progress(self, report)
  return shrunk(self, report)
end

-- What the ladder needs to know; sizes in sums of messages, which a reported prompt may well exceed.
local function ladder_job(self, verdict)
  local history = self.history
  local unit = self.excess and 1 or math.max(history:used() / math.max(history:sum(), 1), 1)
  local trigger = math.floor(math.min(verdict.trigger, CERTAIN * input_limit(self)) / unit)
  local room = math.max(history:room(trigger), 0)
  return {
    goal = math.floor(trigger - room * FREE),
    trigger = trigger,
    room = room,
    min_gain = least_gain(self),
    doubt = peril(self) > 1 and 0 or self.doubt, -- else it is in the verdict's trigger
    plan = function(changes)
      return plan(self, changes)
    end,
  }
end

-- A huge message that no provider has counted yet is cut where it leaves little room beside the summary: the next
-- prompt would soon be over the trigger again, and then all of it would go.
local function leave_room(self, verdict, uncounted)
  local history, job = self.history, ladder_job(self, verdict)
  local i = history:largest(history:count() - uncounted + 1)
  if i and history:size(i) > job.room / 2 then
    ladder.cut_item(history, i, job)
  end
end

---Judge the summariser's reply, and put the summary in. `nil, "chunk"`: it was taken, and job.request is the
---next one to send. Any other `nil, reason`: nothing has changed.
function Compactor:apply(job, reply)
  check_job(job)
  local history = self.history
  if job.version ~= history.version or job.done or not history.conversation:can_cut(job.keep_from) then
    return refuse(self, "changed")
  end
  local words, reason = replies.judge(reply, job.so_far or job.plan.earlier)
  reason = reason or objection(self, job, words)
  if reason then
    return refuse(self, reason)
  end
  emit(self, { type = "accepted", chunk = job.chunk, chunks = job.chunks })
  if job.chunk < job.chunks then
    job.so_far = words
    set_chunk(job, job.chunk + 1)
    return nil, "chunk"
  end
  job.done = true
  local uncounted = history:count() - math.max(history:first_uncounted(), job.keep_from) + 1
  local report = history:replace(job.verdict, words, job.facts)
  leave_room(self, job.verdict, uncounted)
  report.after = history:used()
  return applied(self, report)
end

--
-- Carrying it out
--

-- Without a model: its steps made it smaller, or nothing can.
local function without_model(self, run, verdict, reason)
  local before = self.history:used()
  local steps = run(ladder_job(self, verdict))
  if #steps == 0 then
    emit(self, { type = "stuck", reason = reason, verdict = verdict })
    return nil, reason
  end
  return applied(self, { before = before, after = self.history:used(), steps = steps, reason = reason })
end

local function go_down(self, verdict, reason)
  return without_model(self, function(job)
    return ladder.run(self.history, job)
  end, verdict, reason)
end

local function cut_item(self, verdict)
  return without_model(self, function(job)
    local steps = ladder.cut_item(self.history, verdict.item, job)
    return #steps > 0 and steps or ladder.run(self.history, job)
  end, verdict, "item")
end

local function carry_out_prune(self, verdict)
  local history = self.history
  local before = history:used()
  if not ladder.prune(history, verdict.indexes, verdict.media) then
    return nil, "nothing_to_prune"
  end
  return shrunk(self, {
    before = before,
    after = history:used(),
    steps = { { step = "prune", before = before, after = history:used() } },
    reason = verdict.reason,
  })
end

-- What the policy wanted to be pruned; and what the plan says where that was not enough, else nil.
local function prune_first(self, verdict)
  local ok, outcome = carry_out_prune(self, verdict)
  local next_verdict = plan(self)
  if next_verdict.action == "compact" or next_verdict.action == "stuck" then
    emit(self, { type = "planned", verdict = next_verdict })
    return next_verdict, ok, outcome
  end
  return nil, ok, outcome
end

-- The summariser did not help. Where the next request would not fit, what needs no model does.
local function after_refusal(self, job, reason)
  if self.summarize == nil or must_shrink(self) then
    if job.version ~= self.history.version then
      return nil, "changed"
    end
    return go_down(self, job.verdict, reason)
  end
  return nil, reason
end

-- Was the summarising request itself too long? Then a job of smaller ones.
local function smaller_job(self, job, reason)
  local told = type(reason) ~= "nil"
      and (type(reason) == "string" or type(reason) == "table")
      and overflow(reason)
    or nil
  if
    told == nil
    or told.kind ~= "tokens"
    or (job.smaller or 0) >= SMALLER
    or job.version ~= self.history.version
  then
    return nil
  end
  local limit = summarizer_limit(self, job.verdict)
  self.summarizer_served = told.limit and told.limit < limit and told.limit or math.floor(limit * 0.7)
  local again = make_job(self, job.verdict, job.instructions)
  if again then
    again.smaller = (job.smaller or 0) + 1
  end
  return again
end

-- What follows from a reply: another job to go on with, or the outcome.
local function take_reply(self, job, reply, reason)
  if reply == nil then
    emit(self, { type = "refused", reason = reason or "failed" })
    local again = smaller_job(self, job, reason)
    if again then
      return again
    end
    return nil, after_refusal(self, job, reason or "failed")
  end
  local ok, outcome = self:apply(job, reply)
  if ok then
    return nil, ok, outcome
  elseif outcome == "chunk" then
    return job
  elseif outcome == "changed" then
    return nil, nil, outcome
  end
  return nil, after_refusal(self, job, outcome)
end

local function announce(self, job)
  emit(self, { type = "chunk", chunk = job.chunk, chunks = job.chunks, request = job.request })
end

local function summarize_now(self, job)
  while true do
    announce(self, job)
    local reply, reason = self.summarize(job.request)
    local next_job, ok, outcome = take_reply(self, job, reply, reason)
    if next_job == nil then
      return ok, outcome
    end
    job = next_job
  end
end

-- Whatever raises on the way (the host's summarize, on_event, callback), it is not busy afterwards.
local function summarize_later(self, job, callback)
  announce(self, job)
  self.busy = true
  local answered = false
  local ok, err = pcall(self.summarize, job.request, function(reply, reason)
    if answered then
      return
    end
    answered, self.busy = true, false
    local next_job, ok, outcome = take_reply(self, job, reply, reason)
    if next_job then
      return summarize_later(self, next_job, callback)
    end
    callback(ok, outcome)
  end)
  if not ok then
    self.busy = answered and self.busy
    answered = true
    error(err, 0)
  end
end

-- What needs no summariser; `job`: what does.
local function begin(self, options)
  local verdict = self:decide { force = options.force }
  emit(self, { type = "planned", verdict = verdict })
  if verdict.action == "prune" then
    local next_verdict, ok, outcome = prune_first(self, verdict)
    if next_verdict == nil then
      return nil, ok, outcome
    end
    verdict = next_verdict
  end
  local action = verdict.action
  if action == "stuck" then
    if verdict.reason == "item" then
      return nil, cut_item(self, verdict)
    elseif must_shrink(self) then
      return nil, go_down(self, verdict, verdict.reason)
    end
    emit(self, { type = "stuck", reason = verdict.reason, verdict = verdict })
    return nil, nil, verdict.reason
  elseif action ~= "compact" then
    return nil, nil, verdict.reason
  end
  local job, reason = make_job(self, verdict, options.instructions)
  if job and self.summarize then
    return job
  end
  return nil, go_down(self, verdict, reason or "no_summarizer")
end

---Carry out what decide says. With a callback, summarize(request, done) is called and callback(true, report) or
---callback(nil, reason) comes when all is done; else summarize(request) returns, or yields.
function Compactor:compact(callback, options)
  if type(callback) == "table" and options == nil then
    callback, options = nil, callback
  end
  if callback ~= nil and type(callback) ~= "function" then
    raise(("bad argument #1 to 'compact' (function expected, got %s)"):format(type(callback)))
  end
  local o = options_of("compact", callback and 2 or 1, options, COMPACT_OPTIONS)
  local ok, outcome
  if self.busy then
    outcome = "busy"
  else
    local job
    job, ok, outcome = begin(self, o)
    if job and callback then
      return summarize_later(self, job, callback)
    elseif job then
      return summarize_now(self, job)
    end
  end
  if callback then
    return callback(ok, outcome)
  end
  return ok, outcome
end

--
-- Refusals
--

local function learn_limit(self, limit)
  local known = limit_of(self)
  if known == nil or limit < known then
    self.served[self.model or ""] = limit
    update_limit(self)
  end
end

-- The prompt was too long. Lower the output where that alone is too much, else make it smaller.
local function on_tokens(self, told)
  local history = self.history
  local used, counted = history:used(), told.input
  if counted and (counted < LEAST_TOLD * used or counted > MOST_TOLD) then
    counted = nil
  end
  if told.limit then
    learn_limit(self, told.limit)
  end
  if counted then
    history.conversation:observe({ input_tokens = counted }, self.model)
    self.excess = math.max(counted / math.max(history:sum(), 1), 1)
  end
  if told.limit == nil then
    learn_limit(self, math.max(math.floor(UNTOLD * (counted or used)), 1))
  end
  local limit = limit_of(self)
  local input = counted or (told.output and told.actual and told.actual - told.output) or history:used()
  if told.output and told.output > 0 then
    self.asked = math.max(self.asked or 0, told.output)
    local left = limit - input
    if
      left > 0
      and left >= told.output / 4
      and input <= (self.options.threshold or core.DEFAULT_THRESHOLD) * limit
    then
      return { action = "lower_output", reason = "tokens", output = left }
    end
  end
  self.refused = true
  local fitting = UNTOLD * history:used()
  if input_limit(self) > fitting then -- by these numbers it would have fit: they, or our sizes, are off
    self.excess = limit / math.max(fitting, 1)
  end
  local verdict = self:decide()
  local is_item = verdict.action == "stuck" and verdict.reason == "item"
  return {
    action = is_item and "shrink_item" or "compact",
    reason = "tokens",
    item = is_item and verdict.item or nil,
  }
end

local function newest_with_media(history)
  for i = history:count(), history:front() + 1, -1 do
    if shape.count_media(history:message(i)) > 0 then
      return i
    end
  end
end

local ADVICE = {
  tokens = on_tokens,
  rate = function()
    return { action = "wait", reason = "rate" }
  end,
  rate_size = function(self, told)
    if told.limit then
      learn_limit(self, told.limit)
    end
    self.refused = true
    return { action = "compact", reason = "rate_size" }
  end,
  wire = function(self)
    self.refused = true
    return { action = "compact", reason = "wire" }
  end,
  media = function(self)
    return { action = "shrink_item", reason = "media", item = newest_with_media(self.history) }
  end,
  config = function()
    return { action = "lower_output", reason = "config" }
  end,
  malformed = function()
    return { action = "repair", reason = "malformed" }
  end,
}

---Learn from the provider's refusal of the messages as they are, and say what to do.
function Compactor:overflowed(err, status)
  local told = checked("overflowed", overflow, err, status, { patterns = self.options.patterns })
  if told == nil then
    return { action = "none", reason = "not_overflow", limit = limit_of(self) }
  end
  local advice = ADVICE[told.kind](self, told)
  advice.limit, advice.actual = limit_of(self), told.actual
  return advice
end

---Repair the list, where calls and results do not belong together; the report of compaction.repair.
function Compactor:repair()
  local history = self.history
  local list, report = repair.repair(history.list)
  for _, n in pairs(report) do
    if n > 0 then
      history:reset(list)
      break
    end
  end
  return report
end

--
-- The rest
--

-- The newest prompt that was reported; nil if none was.
local function newest_prompt(list)
  for i = #list, 1, -1 do
    local usage = present(list[i].usage)
    if type(usage) == "table" then
      local prompt = 0
      for _, key in ipairs { "input_tokens", "cached_input_tokens", "cached_write_tokens" } do
        prompt = prompt + (present(usage[key]) or 0)
      end
      if prompt > 0 then
        return prompt
      end
    end
  end
end

-- A server that clips prompts in silence reports its window, or half of it, again and again.
local function look_for_clipping(self)
  local clipped = self.history.conversation:calibration().refused.clipped
  if clipped > self.clipped then
    self.clipped_in_a_row = self.clipped_in_a_row + 1
  elseif self.history:ends_counted() then
    self.clipped_in_a_row = 0
  end
  if clipped > self.clipped and self.clipped_in_a_row >= CLIPPED_IN_A_ROW then
    local prompt, limit = newest_prompt(self.history.list), limit_of(self)
    if prompt and (limit == nil or prompt > limit * HALF_CLIPPED) then
      learn_limit(self, prompt)
    end
    self.refused = true
  end
  self.clipped = clipped
end

-- Append, and learn from an answer how far off the sizes were of what it answered.
local function append_and_learn(self, message_or_list)
  local history = self.history
  local used, source = history.conversation:used()
  local uncounted, count = history:uncounted(), history:count()
  history:append(message_or_list)
  local is_answer = source == "anchor" and history:count() == count + 1 and history:ends_counted()
  local prompt = is_answer and newest_prompt(history.list)
  if prompt and uncounted > TELLING * (limit_of(self) or 0) then
    local more = (prompt - used) / uncounted
    self.doubt = math.min(math.max(self.doubt * DOUBT_FADES, more, DOUBT), MOST_DOUBT)
  end
end

---Append one message or a list, in the host's shape.
function Compactor:append(message_or_list)
  append_and_learn(self, message_or_list)
  if self.excess and self.history:ends_counted() then
    self.excess = nil
  end
  look_for_clipping(self)
  return self.history:count()
end

---What to send: a new list, in the host's shape.
function Compactor:messages()
  return self.history:sent()
end

function Compactor:used()
  return self.history.conversation:used()
end

---The next request goes to this model, whose window is `limit` tokens (nil: as it was, or not known).
function Compactor:set_model(name, limit)
  checked("set_model", self.history.conversation.set_model, self.history.conversation, name)
  if limit ~= nil then
    local o = options_of("set_model", 2, { limit = limit }, { limit = "tokens" }, "arguments")
    self.told[name or ""] = o.limit
  end
  self.model = name
  self.history:forget_usage() -- another model has another scale
  update_limit(self)
end

---Another policy from now on; nil: the library's own.
function Compactor:set_policy(policy)
  if policy ~= nil and type(policy) ~= "function" then
    raise(("bad argument #1 to 'set_policy' (function expected, got %s)"):format(type(policy)))
  end
  self.policy = policy
end

---Numbers to show.
function Compactor:state()
  local c = self.history.conversation
  local used, source = c:used()
  local limit = limit_of(self)
  return {
    used = used,
    source = source,
    limit = limit,
    fraction = limit and limit > 0 and used / limit or nil,
    model = self.model,
    count = #c,
    pending = c:pending(),
    busy = self.busy,
    compactions = self.compactions,
    last = self.last,
  }
end

---@see compaction.compactor in types.lua
return function(options)
  local o = options_of("compactor", 1, options, OPTIONS)
  local adapter
  if o.shape then
    adapter = adapters[o.shape]
    if adapter == nil or o.shape == "detect" then
      raise(("bad argument #1 to 'compactor' (options.shape: unknown shape '%s')"):format(o.shape))
    end
  end
  local self = setmetatable({
    options = o,
    policy = o.policy,
    summarize = o.summarize,
    on_event = o.on_event,
    model = o.model,
    told = { [o.model or ""] = o.limit },
    served = {},
    doubt = DOUBT,
    stalled = 0,
    compactions = 0,
    busy = false,
    clipped = 0,
    clipped_in_a_row = 0,
  }, Compactor)
  self.history = history_of.new {
    adapter = adapter,
    sizing = { estimator = o.estimator, families = o.families, model = o.model },
    limit = o.limit,
    fixed = o.fixed,
  }
  if o.model then
    self.history.conversation:set_model(o.model)
  end
  return self
end
