-- Random lives of a conversation, against the pure functions and against a slow model that was
-- written apart from the sources (spec/support/model.lua).
local compaction = require "compaction"
local generator = require "spec.support.random"
local json = require "spec.support.json"
local model = require "spec.support.model"

local sample = ("Read src/import/reader.py, line 42: def rows(file): return csv.reader(file)\n"):rep(150)

local function words(random, bytes)
  local from = random(70) + 1
  return sample:sub(from, from + bytes - 1)
end

local function random_message(random, prompt)
  local function maybe(percent, value)
    if random(100) < percent then
      return value
    end
  end
  local roles = { "user", "assistant", "assistant", "tool", "tool", "system", "other" }
  local message = {
    role = roles[random(#roles) + 1],
    content = maybe(95, words(random, random(5) == 0 and random(9000) or random(400))),
    reasoning_content = maybe(10, ("r"):rep(random(500))),
    model = maybe(
      60,
      ({ "gpt-5", "claude-opus-4-8", "some-model", "" })[random(5) == 0 and random(4) + 1 or 1]
    ),
    tool_call_id = maybe(70, ({ "p", "q", "r", "" })[random(4) + 1]),
  }
  if message.role == "assistant" and random(2) == 0 then
    message.tool_calls = {}
    for k = 1, random(4) do
      message.tool_calls[k] =
        { id = maybe(80, ({ "p", "q", "r", "" })[random(4) + 1]), ["function"] = { arguments = "{}" } }
    end
  end
  if random(100) < 45 then
    message.usage = {
      input_tokens = maybe(90, prompt),
      cached_input_tokens = maybe(20, 40),
      output_tokens = maybe(90, random(4) == 0 and random(9) or random(600)),
      reasoning_tokens = maybe(30, random(300)),
    }
  end
  return message
end

-- A prompt as a real provider, or a broken one, would report it next.
local function next_prompt(random, conversation, last)
  local kind = random(20)
  if kind == 0 then
    return last -- clipped
  elseif kind == 1 then
    return conversation:used() * 6 -- summed
  elseif kind == 2 then
    return math.floor(conversation:used() / 3) -- pruned
  elseif kind == 3 then
    return 8193 -- half of the limit
  end
  return math.max(conversation:used() + random(200) - 60, 1)
end

-- A random life: calls step(conversation, list, random) after every change.
local function live(seed, options, step)
  local random = generator(seed * 7919)
  local conversation, list, last = compaction.conversation(nil, options), {}, 500
  for _ = 1, 60 do
    local action = random(12)
    if action < 8 then
      last = next_prompt(random, conversation, last)
      local message = random_message(random, last)
      list[#list + 1] = message
      conversation:append(message)
    elseif action == 8 then
      local more = {}
      for k = 1, random(6) do
        more[k] = random_message(random, last)
        list[#list + 1] = more[k]
      end
      conversation:append(more)
    elseif action == 9 then
      local n = random(3) == 0 and random(#list + 1) or math.max(#list - random(4), 0)
      conversation:truncate(n)
      for k = #list, n + 1, -1 do
        list[k] = nil
      end
    elseif action == 10 then
      local snapshot = conversation:snapshot()
      conversation = compaction.restore(snapshot)
      assert.equal(snapshot, conversation:snapshot())
    else
      pcall(
        conversation.append,
        conversation,
        { { role = "user", content = "x" }, { role = "user", content = 1 } }
      )
    end
    step(conversation, list, random)
  end
end

local function assert_like_pure(conversation, list, random)
  local estimator = compaction.new_estimator(list)
  assert.equal(#list, #conversation)
  assert.equal(estimator:scale(), conversation:scale())
  local sum = 0
  for i, message in ipairs(list) do
    local size = estimator:estimate_message_tokens(message)
    sum = sum + size
    assert.equal(size, conversation:estimate(i, i))
  end
  assert.equal(sum, conversation:estimate(1, #list))
  for _ = 1, 4 do
    local budget = random(random(2) == 0 and 400 or 20000)
    assert.equal(compaction.split_index_for_keep(list, budget), conversation:split_index_for_keep(budget))
    assert.equal(compaction.first_index_in_budget(list, budget), conversation:first_index_in_budget(budget))
  end
end

-- A model that knows the same messages.
local function model_of(estimator, list, limit)
  local m = model.new(estimator, limit)
  for _, message in ipairs(list) do
    m:append(message)
  end
  return m
end

describe("with estimator 'seed'", function()
  for seed = 1, 60 do
    it("life " .. seed .. " answers as the pure functions", function()
      live(seed, { estimator = "seed" }, function(conversation, list, random)
        assert_like_pure(conversation, list, random)
        local m = model_of("seed", list)
        assert.same({ m:seed_used() }, { conversation:used() })
      end)
    end)
  end

  it("every conformance conversation answers as the pure functions", function()
    local random = generator(5)
    for _, case in ipairs(json.decode(json.read "spec/conformance/conversations.json")) do
      local conversation, list = compaction.conversation(nil, { estimator = "seed" }), {}
      for i, message in ipairs(case.messages) do
        conversation:append(message)
        list[i] = message
        assert_like_pure(conversation, list, random)
      end
      for n = #list - 1, 0, -1 do
        conversation:truncate(n)
        list[n + 1] = nil
        assert_like_pure(conversation, list, random)
      end
    end
  end)
end)

describe("with estimator 'auto'", function()
  for seed = 1, 120 do
    it("life " .. seed .. " answers as the slow model", function()
      live(seed, { limit = 16384 }, function(conversation, list)
        local expected = model_of("auto", list, 16384):work()
        local used, source = conversation:used()
        assert.equal(expected.source, source)
        assert.near(expected.used, used, 3)
        assert.near(expected.scale, conversation:scale(), 1e-6)
        local learned = conversation:calibration()
        assert.same(expected.refused, learned.refused)
        assert.equal(expected.windows, learned.windows)
        local sum = 0
        for i = 1, #list do
          sum = sum + conversation:estimate(i, i)
          assert.near(expected.size(i), conversation:estimate(i, i), 1 + expected.size(i) * 1e-5)
        end
        assert.equal(sum, conversation:estimate(1, #list))
        local parts = 0
        for _, tokens in pairs(conversation:breakdown()) do
          assert.is_true(tokens >= 0)
          parts = parts + tokens
        end
        assert.equal(used, parts)
      end)
    end)
  end
end)

describe("every operation", function()
  -- What must hold whatever was done.
  local function assert_sound(conversation, list, random)
    local n = #list
    assert.equal(n, #conversation)
    local used = conversation:used()
    local parts, sizes = 0, 0
    for name, tokens in pairs(conversation:breakdown()) do
      assert.is_true(tokens >= 0, name)
      parts = parts + tokens
    end
    assert.equal(used, parts)
    for i = 1, n do
      sizes = sizes + conversation:estimate(i, i)
    end
    assert.equal(sizes, conversation:estimate(1, n))
    local learned = conversation:calibration()
    assert.is_true(learned.fixed >= 0 and learned.windows >= 0 and learned.mass >= 0)
    for fate, count in pairs(learned.refused) do
      assert.is_true(count >= 0, fate)
    end
    assert.is_true(conversation:scale() >= 0.4 and conversation:scale() <= 3)
    local max = random(3000)
    local keep = conversation:keep_from(max)
    if keep <= n then
      assert.is_true(conversation:can_cut(keep))
      assert.is_true(conversation:estimate(keep, n) <= max)
    end
  end

  local function front_of(list)
    local front = 0
    while list[front + 1] and (list[front + 1].role == "system" or list[front + 1].role == "developer") do
      front = front + 1
    end
    return front
  end

  -- A compaction at a random legal cut: kept messages keep their sizes, and used adds up.
  local function replace(conversation, list, random)
    local front, cuts = front_of(list), {}
    for i = front + 1, #list + 1 do
      if conversation:can_cut(i) then
        cuts[#cuts + 1] = i
      end
    end
    if #cuts == 0 then
      return list
    end
    local cut, request = cuts[random(#cuts) + 1], nil
    if random(3) == 0 and cut > front + 1 then
      request = front + 1 + random(cut - front - 1)
    elseif random(3) == 0 then
      request = random_message(random, 700)
    end
    local summary =
      { role = "user", content = words(random, 300), usage = { input_tokens = 99999, output_tokens = 70 } }
    local kept, before = {}, conversation:calibration()
    for i = cut, #list do
      kept[#kept + 1] = conversation:estimate(i, i)
    end
    local at, n = conversation:replace(cut, summary, request)
    local new = {}
    for i = 1, front do
      new[i] = list[i]
    end
    new[at] = summary
    new[#new + 1] = type(request) == "number" and list[request] or request
    for i = cut, #list do
      new[#new + 1] = list[i]
      assert.equal(kept[i - cut + 1], conversation:estimate(#new, #new))
    end
    assert.equal(#new, n)
    local after = conversation:calibration()
    assert.equal(before.fixed, after.fixed)
    assert.equal(before.scale, after.scale)
    local used, source = conversation:used()
    assert.equal("estimate", source)
    assert.near(after.fixed + conversation:estimate(1, n), used, n + 1)
    return new
  end

  for seed = 1, 100 do
    it("leaves a sound conversation, life " .. seed, function()
      local random = generator(seed * 6007)
      local options =
        { limit = random(2) == 0 and 16384 or nil, estimator = seed % 4 == 0 and "seed" or "auto" }
      local conversation, list = compaction.conversation(nil, options), {}
      for _ = 1, 40 do
        local action = random(16)
        if action < 7 then
          list[#list + 1] = random_message(random, next_prompt(random, conversation, 500))
          conversation:append(list[#list])
        elseif action < 9 then
          local n = random(3) == 0 and random(#list + 1) or math.max(#list - random(4), 0)
          conversation:truncate(n)
          for k = #list, n + 1, -1 do
            list[k] = nil
          end
        elseif action == 9 and #list > 0 then
          local i = random(#list) + 1
          list[i] = random(2) == 0 and list[i] or random_message(random, conversation:used() + 1)
          conversation:set(i, list[i])
        elseif action == 10 or action == 11 then
          list = replace(conversation, list, random)
        elseif action == 12 then
          conversation:observe(
            { input_tokens = conversation:used() + random(50) },
            ({ "gpt-5", "x" })[random(3) + 1]
          )
        elseif action == 13 then
          conversation:set_model(({ "gpt-5", "claude-opus-4-8" })[random(3) + 1])
        elseif action == 14 then
          conversation:set_fixed { system = words(random, random(2000)) }
        else
          local snapshot = conversation:snapshot()
          conversation = compaction.restore(snapshot)
          assert.equal(snapshot, conversation:snapshot())
        end
        assert_sound(conversation, list, random)
      end
    end)
  end
end)

describe("units", function()
  -- Batches of calls and results with every damage that was met.
  local function random_list(random)
    local list, ids = {}, { "a", "b", "c", "d", "e", "f" }
    for _ = 1, 6 do
      if random(3) > 0 then
        list[#list + 1] = { role = "user", content = "x" }
      end
      local calls, results = {}, {}
      for k = 1, random(5) do
        local id = random(10) == 0 and "" or random(8) == 0 and ids[1] or ids[random(#ids) + 1]
        calls[k] = { id = random(8) > 0 and id or nil }
        if random(6) > 0 then -- else it is abandoned
          results[#results + 1] =
            { role = "tool", content = "r", tool_call_id = random(10) > 0 and calls[k].id or nil }
        end
      end
      list[#list + 1] = { role = "assistant", content = "", tool_calls = calls }
      while #results > 0 do
        if random(8) == 0 then
          list[#list + 1] = { role = "user", content = "meanwhile" }
        end
        list[#list + 1] = table.remove(results, random(#results) + 1)
      end
      if random(4) == 0 then -- late, twice, or of nobody
        list[#list + 1] = { role = "tool", content = "late", tool_call_id = ids[random(#ids) + 1] }
      end
    end
    return list
  end

  for seed = 1, 150 do
    it("batches " .. seed .. " are cut as the slow model says", function()
      local random = generator(seed * 104729)
      local list = random_list(random)
      local conversation = compaction.conversation()
      local known = model.new "auto"
      for _, message in ipairs(list) do
        conversation:append(message)
        known:append(message)
        local _, pending = known:paired()
        assert.equal(pending, conversation:pending())
        for i = 1, #known.list + 1 do
          assert.equal(known:can_cut(i), conversation:can_cut(i), "cut " .. i)
        end
      end
      for n = #list, 0, -1 do
        conversation:truncate(n)
        known:truncate(n)
        local _, pending = known:paired()
        assert.equal(pending, conversation:pending())
        for _, max in ipairs { 0, 20, 60, 200 } do
          local expected, sum = n + 1, 0
          for i = n, 1, -1 do
            sum = sum + conversation:estimate(i, i)
            if sum <= max and known:can_cut(i) then
              expected = i
            end
          end
          assert.equal(expected, conversation:keep_from(max))
        end
      end
    end)
  end
end)
