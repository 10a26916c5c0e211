-- The verdict on a conversation, and a slow planner that tries every cut.
local compaction = require "compaction"
local nulls = require "spec.support.nulls"
local random_of = require "spec.support.random"
local transcripts = require "spec.support.transcripts"

-- Sizes that are easy: a message costs its bytes and 5, a result its bytes and 12.
local function bytes(text)
  return #text
end
local function text(n)
  return ("x"):rep(n - 5)
end
local function system(n)
  return { role = "system", content = text(n) }
end
local function user(n)
  return { role = "user", content = text(n) }
end
local function assistant(n, usage)
  return { role = "assistant", content = text(n), usage = usage }
end
local function call(id)
  return { role = "assistant", content = text(50), tool_calls = { { id = id } } }
end
local function result(id, n)
  return { role = "tool", tool_call_id = id, content = ("x"):rep(n - 12) }
end
local function conversation(messages, limit)
  return compaction.conversation(messages, { estimator = bytes, limit = limit })
end
local function turns(n, size)
  local list = {}
  for _ = 1, n do
    list[#list + 1] = user(size)
    list[#list + 1] = assistant(size)
  end
  return list
end

describe("plan", function()
  it("needs a limit", function()
    local v = conversation(turns(5, 100)):plan()
    assert.same({ "none", "no_limit", 1000 }, { v.action, v.reason, v.used })
    assert.equal("compact", conversation(turns(5, 100)):plan({ limit = 1000 }).action)
  end)

  it("leaves alone what fits", function()
    local v = conversation(turns(40, 100), 10000):plan()
    assert.same({ "none", "fits", 8000, 9000 }, { v.action, v.reason, v.used, v.trigger })
    assert.is_nil(v.keep_from)
  end)

  it("compacts what does not: where, and to what size", function()
    local list = turns(50, 100)
    table.insert(list, 1, system(500))
    local c = conversation(list, 10000)
    local v = c:plan { summarizer_limit = 100000 }
    -- trigger 9000, room 8500, keep min(2000, 3400), summary min(2500, 2550), request carried or kept
    assert.same({ "compact", "trigger" }, { v.action, v.reason })
    assert.same({ 10500, 9000, 500 + 2500 + 2000 }, { v.used, v.trigger, v.target })
    assert.equal(82, v.keep_from) -- 20 messages of 100
    assert.same({ 2, 81, 2 }, { v.first, v.last, v.summarizer_from })
    assert.is_nil(v.request) -- it stands in the kept part
    assert.same({ 5000, 5500, 2500 }, { v.after, v.gain, v.summary })
    assert.equal(500 + 100 + 100 + 100, v.floor)
  end)

  it("keeps a request that stands before the cut", function()
    local list = { system(100), user(300) }
    for i = 1, 100 do
      list[#list + 1] = call("c" .. i)
      list[#list + 1] = result("c" .. i, 50)
    end
    local c = conversation(list, 10000)
    local v = c:plan()
    assert.equal("compact", v.action)
    assert.equal(2, v.request)
    assert.is_nil(v.item)
    assert.equal("assistant", list[v.keep_from].role)
    c:replace(v.keep_from, { role = "user", content = text(v.summary) }, v.request)
    assert.equal(v.after, c:used())
  end)

  it("cuts a request that is too large to be carried, and names it", function()
    local list = { user(5000) }
    for i = 1, 60 do
      list[#list + 1] = call("c" .. i)
      list[#list + 1] = result("c" .. i, 50)
    end
    local v = conversation(list, 10000):plan()
    assert.same({ "compact", 1, 1 }, { v.action, v.request, v.item })
    assert.equal(math.floor(0.15 * 9000) + 2000 + v.summary, v.after)
  end)

  it("waits for results", function()
    local list = turns(50, 100)
    list[#list + 1] = call "a"
    local c = conversation(list, 10000)
    assert.same({ "defer", "pending" }, { c:plan().action, c:plan().reason })
    assert.equal("defer", c:plan({ force = true }).action)
    c:append(result("a", 50))
    assert.equal("compact", c:plan().action)
  end)

  it("does not compact again before anybody said anything", function()
    local c = conversation(turns(50, 100), 10000)
    local v = c:plan()
    c:replace(v.keep_from, { role = "user", content = text(7300) })
    assert.equal(9300, c:used())
    assert.same({ "none", "paused" }, { c:plan().action, c:plan().reason })
    assert.equal("compact", c:plan({ force = "keep" }).action)
    c:append(result("late", 300))
    assert.same({ "none", "paused" }, { c:plan().action, c:plan().reason })
    c:append(result("late", 200)) -- 9,800: over 0.97 of the window
    assert.equal("compact", c:plan().action)
    c:truncate(#c - 1)
    c:append(assistant(5))
    assert.equal("compact", c:plan().action)
  end)

  it("knows a compaction from before the list was saved", function()
    local list = turns(10, 100)
    table.insert(list, 1, { role = "user", content = text(7500), compaction = { version = 1, kept = 20 } })
    assert.equal("paused", conversation(list, 10000):plan().reason)
    list[#list + 1] = user(100)
    assert.equal("compact", conversation(list, 10000):plan().action)
  end)

  it("leaves at least half of the window for input", function()
    local v = conversation({ user(6478) }, 32768):plan { reserve = 32768 }
    assert.same({ "none", math.floor(0.95 * 16384) }, { v.action, v.trigger })
  end)

  it("says that the overhead is too large", function()
    local list = turns(20, 100)
    table.insert(list, 1, system(8000))
    assert.same(
      { "stuck", "overhead" },
      { conversation(list, 10000):plan().action, conversation(list, 10000):plan().reason }
    )
  end)

  it("names one message that is too large", function()
    local c = conversation({ user(100), assistant(100), call "a", result("a", 9900) }, 10000)
    local v = c:plan()
    assert.same({ "stuck", "item", 4 }, { v.action, v.reason, v.item })
    assert.is_nil(v.keep_from)
  end)

  it("says that nothing can be gained", function()
    local list = { call "a" }
    for _ = 1, 30 do
      list[1].tool_calls[#list] = { id = "a" .. #list }
      list[#list + 1] = result("a" .. #list, 350)
    end
    local v = conversation(list, 10000):plan()
    assert.same({ "stuck", "no_gain" }, { v.action, v.reason })
  end)

  it("takes the smallest legal keep where that is over its budget", function()
    local v =
      conversation({ user(3000), assistant(4000), user(100), call "a", result("a", 3000) }, 10000):plan()
    assert.same({ "compact", 4 }, { v.action, v.keep_from })
    assert.truthy(v.after < v.trigger)
  end)

  it("keeps nothing only where somebody asked for it", function()
    local list = turns(9, 100)
    local c = conversation(list, 10000)
    local v = c:plan { force = true, summary = 500 }
    assert.same({ "compact", "forced", 19 }, { v.action, v.reason, v.keep_from })
    assert.same({ 17, 600 }, { v.request, v.after })
    v = c:plan { force = "keep", summary = 500 }
    assert.same({ "compact", "forced", 7 }, { v.action, v.reason, v.keep_from })
    -- a summary may be as long as what it replaces: then nothing is gained
    assert.equal("no_gain", c:plan({ force = true }).reason)
    -- the automatic case keeps the last exchange, even where all fits the budget to keep
    v = conversation({ user(100), assistant(9000), user(50) }, 10000):plan { keep = 10000 }
    assert.same({ "compact", 3 }, { v.action, v.keep_from })
  end)

  it("takes every number of the budget from the host", function()
    local c = conversation(turns(50, 100))
    local v = c:plan {
      limit = 8000,
      threshold = 0.5,
      reserve = 1000,
      keep = 700,
      summary = 300,
      min_gain = 10,
      summarizer_limit = 3000,
    }
    assert.same({ 8000, 4000, 1000 }, { v.limit, v.trigger, v.target })
    assert.same({ 94, 300, 1000 }, { v.keep_from, v.summary, v.after })
    assert.truthy(v.summarizer_from > v.first)
    assert.truthy(c:estimate(v.summarizer_from, v.last) < 3000)
    assert.equal("no_gain", c:plan({ limit = 8000, min_gain = 9900 }).reason)
  end)

  it("refuses what is wrong", function()
    local c = conversation(turns(5, 100), 1000)
    local function fails(message, ...)
      local ok, got = pcall(c.plan, c, ...)
      assert.is_false(ok)
      assert.equal(message, got)
    end
    fails("bad argument #1 to 'plan' (table expected, got number)", 5)
    fails("bad argument #1 to 'plan' (budget.keep: number expected, got string)", { keep = "1" })
    fails("bad argument #1 to 'plan' (budget.keep: tokens expected, got a negative number)", { keep = -1 })
    fails(
      "bad argument #1 to 'plan' (budget.force: boolean or \"keep\" expected, got string)",
      { force = "yes" }
    )
    fails(
      "bad argument #1 to 'plan' (unknown option 'keeps' (known: limit, threshold, reserve, keep, summary, min_gain, summarizer_limit, force))",
      { keeps = 1 }
    )
    for _, null in ipairs(nulls) do
      assert.equal(
        "compact",
        c:plan({ keep = null.value, force = null.value, threshold = null.value }).action
      )
    end
  end)
end)

--
-- The slow planner: every cut is tried
--

local function share(part, of)
  return of > 0 and math.floor(part * of) or 0
end

-- What the rules say of a conversation whose messages are given.
local function slow_plan(c, list, b, paused)
  local W, n = b.limit, #list
  local s = { used = c:used() }
  local reserve = math.min(b.reserve or 0, math.floor(W / 2))
  local front = 0
  while list[front + 1] and list[front + 1].role == "system" do
    front = front + 1
  end
  local base = c:calibration().fixed + c:estimate(1, front)
  s.trigger = math.min(math.floor((b.threshold or 0.9) * W), share(0.95, W - reserve))
  local room = s.trigger - base
  local keep = b.keep or math.min(20000, share(0.2, W), share(0.4, room))
  local summary = b.summary or math.min(16000, share(0.25, W), share(0.3, room))
  local min_gain = b.min_gain or math.min(share(0.05, W), share(0.2, room))
  local request
  for i = front + 1, n do
    local mark = list[i].compaction
    request = list[i].role == "user" and not (mark and mark.kept) and i or request
  end
  s.options = {} -- cuts that would do, oldest first
  local request_size = request and math.min(c:estimate(request, request), share(0.15, room)) or 0
  local range_all = c:estimate(front + 1, n)
  for k = front + 2, n + (b.force == true and 1 or 0) do
    if c:can_cut(k) then
      local kept = c:estimate(k, n)
      local rest = base + kept + (request and request < k and request_size or 0)
      local range = range_all - kept
      local length = math.max(math.min(summary, range, s.trigger - 1 - rest), 0)
      local enough = s.trigger - 1 - rest >= math.min(100, summary, range)
      local gain = s.used - rest - length
      if enough and gain >= math.max(b.force and 1 or min_gain, 1) then
        s.options[#s.options + 1] =
          { from = k, kept = kept, after = rest + length, gain = gain, summary = length }
      end
    end
  end
  if not b.force and s.used <= s.trigger then
    s.action = "none"
  elseif not b.force and paused and s.used <= share(0.97, W - reserve) then
    s.action = "none"
  elseif c:pending() > 0 then
    s.action = "defer"
  elseif room < math.floor(W / 8) then
    s.action, s.reason = "stuck", "overhead"
  else
    s.action = #s.options > 0 and "compact" or "stuck"
  end
  for k = #s.options, 1, -1 do -- the largest keep within the budget, or the smallest
    local o = s.options[k]
    if s.choice == nil or o.kept <= keep then
      s.choice = o
    end
  end
  if b.force == true and range_all <= keep then
    s.choice = s.options[#s.options]
  elseif b.force == true and s.choice and s.choice.from == n + 1 and #s.options > 1 then
    s.choice = s.options[#s.options - 1] -- nothing is kept only where nothing else will do
  end
  s.room, s.request = room, request
  return s
end

local function check(c, list, b, paused)
  local v, s = c:plan(b), slow_plan(c, list, b, paused)
  assert.equal(s.action, v.action)
  assert.equal(s.used, v.used)
  assert.equal(s.trigger, v.trigger)
  if s.reason then
    assert.equal(s.reason, v.reason)
  end
  if v.action == "compact" then
    assert.equal(s.choice.from, v.keep_from)
    assert.equal(s.choice.after, v.after)
    assert.equal(s.choice.gain, v.gain)
    assert.truthy(v.after < v.trigger)
    assert.equal(s.request and s.request < v.keep_from and s.request or nil, v.request)
  end
  return v
end

local WINDOWS = { 2048, 4096, 8192, 32768, 200000, 1000000, 2000000 }

local function random_history(random, window)
  local list, id = {}, 0
  if random(2) == 0 then
    list[1] = system(5 + random(math.floor(window * (random(10) / 10)) + 1))
  end
  local scale = math.floor(window / (5 + random(60))) + 20
  local size = function()
    return 20 + random(scale)
  end
  local total = 0
  while total < window * (0.6 + random(8) / 10) and #list < 400 do
    local kind = random(6)
    if kind == 0 or #list < 2 then
      list[#list + 1] = user(size())
    elseif kind <= 2 then
      list[#list + 1] = assistant(size())
    else
      local batch = call(nil)
      batch.tool_calls = {}
      list[#list + 1] = batch
      local results = random(4) + 1
      for k = 1, results do
        id = id + 1
        batch.tool_calls[k] = { id = "c" .. id }
        if random(30) > 0 then
          list[#list + 1] = result("c" .. id, random(40) == 0 and math.floor(window * 0.9) or size())
        end
      end
    end
    total = 0
    for _, message in ipairs(list) do
      total = total + #message.content
    end
  end
  return list
end

describe("plan, for any history", function()
  for _, window in ipairs(WINDOWS) do
    it(("agrees with a planner that tries every cut, window %d"):format(window), function()
      local random, seen = random_of(window), {}
      for _ = 1, 120 do
        local list = random_history(random, window)
        local b = { limit = window, force = ({ nil, true, "keep" })[random(4) + 1] }
        b.reserve = random(3) == 0 and random(window) or nil
        b.threshold = random(3) == 0 and (random(100) + 1) / 100 or nil
        b.keep = random(4) == 0 and random(window) or nil
        b.summary = random(4) == 0 and random(window) or nil
        b.min_gain = random(4) == 0 and random(window) or nil
        local c = conversation(list, window)
        local v = check(c, list, b, false)
        seen[v.action] = (seen[v.action] or 0) + 1
        if v.action == "compact" and not v.item then
          local after = { role = "user", content = text(math.max(v.summary, 5)) }
          c:replace(v.keep_from, after, v.request)
          assert.equal(math.max(v.after, v.after - v.summary + 5), c:used())
        end
      end
      assert.truthy(seen.none and seen.compact and seen.stuck)
    end)
  end

  it("is never stuck for the overhead with 0.7 of the window fixed", function()
    local random = random_of(11)
    for _ = 1, 300 do
      local window = 2048 + random(2000000 - 2048)
      local list = random_history(random, window)
      table.insert(list, 1, system(5 + random(math.floor(window * 0.1))))
      local c = conversation(list, window)
      c:set_fixed { system = ("x"):rep(math.floor(window * 0.7) - c:estimate(1, 2)) }
      if
        c:calibration().fixed + c:estimate(1, 1) + (list[2].role == "system" and c:estimate(2, 2) or 0)
        <= 0.7 * window
      then
        local v = c:plan { reserve = random(math.floor(window / 10)) }
        assert.is_not.equal("overhead", v.reason)
      end
    end
  end)

  it("agrees on recorded conversations, at every turn", function()
    for _, transcript in ipairs(transcripts.all()) do
      local list, limit = {}, 40000
      local c = compaction.conversation(nil, { limit = limit })
      for i, message in ipairs(transcript.messages) do
        c:append(message)
        list[i] = message
        if i % 7 == 0 then
          check(
            c,
            list,
            { limit = limit, reserve = 4000 },
            c:plan({ limit = limit, reserve = 4000 }).reason == "paused"
          )
        end
      end
    end
  end)
end)
