-- The native conversation: what it answers, what it refuses to believe, what it forgets.
local compaction = require "compaction"

-- Sizes are easy to see here: one byte is one token, by a counter of the host's own, and each
-- message has an envelope of 5, a tool result of 12.
local function one_a_byte(text)
  return #text
end

local function text(tokens, envelope)
  return ("x"):rep(tokens - (envelope or 5))
end

local function user(tokens)
  return { role = "user", content = text(tokens or 100) }
end

local function tool(tokens, id)
  return { role = "tool", tool_call_id = id, content = text(tokens or 100, 12) }
end

local function answer(prompt, output, extra)
  local m = {
    role = "assistant",
    content = text(output + 5),
    usage = { input_tokens = prompt, output_tokens = output },
  }
  for k, v in pairs(extra or {}) do
    m[k] = v
  end
  return m
end

local function conversation(messages, options)
  options = options or {}
  options.estimator = options.estimator or one_a_byte
  return compaction.conversation(messages, options)
end

describe("a conversation", function()
  it("starts empty", function()
    for _, c in ipairs {
      conversation(),
      conversation {},
      conversation(nil, nil),
      conversation({}, { estimator = "seed" }),
    } do
      assert.equal(0, #c)
      assert.equal(0, c:len())
      assert.same({ 0, "estimate" }, { c:used() })
      assert.equal(1, c:scale())
      assert.equal(1, c:split_index_for_keep(100))
      assert.equal(1, c:first_index_in_budget(100))
      assert.equal(1, c:keep_from(100))
      assert.equal(0, c:pending())
      assert.is_true(c:can_cut(1))
      assert.equal(0, c:estimate(1, 0))
    end
  end)

  it("grows by one message or by a list", function()
    local c = conversation { user() }
    assert.equal(2, c:append(user()))
    assert.equal(4, c:append { user(), user() })
    assert.equal(4, c:append {})
    assert.equal(4, #c)
  end)

  it("prints its size", function()
    assert.equal("compaction.Conversation(2 messages, 200 tokens)", tostring(conversation { user(), user() }))
  end)

  it("says where its size comes from", function()
    local c = conversation { user(100) }
    assert.same({ 100, "estimate" }, { c:used() })
    c:append(answer(5000, 50))
    assert.same({ 5050, "anchor" }, { c:used() })
    c:append(user(100))
    assert.same({ 5150, "anchor" }, { c:used() })
    c:truncate(1)
    assert.same({ 100, "estimate" }, { c:used() })
  end)

  it("appends a list whole or not at all", function()
    local c = conversation { user() }
    local list =
      { user(), answer(500, 10), user(), user(), user(), user(), { role = "user", content = 1 }, user() }
    local before = c:snapshot()
    local ok, message = pcall(c.append, c, list)
    assert.is_false(ok)
    assert.matches(
      "bad argument #1 to 'append' %(messages%[7%]%.content: string or list of parts expected",
      message
    )
    assert.equal(before, c:snapshot())
  end)

  it("forgets by truncate as if nothing had come", function()
    local messages = { user(300) }
    for i = 1, 30 do
      messages[#messages + 1] = answer(3000 + i * 700, 40, {
        model = i % 7 == 0 and "other" or "m",
        usage = {
          input_tokens = 3000 + i * (i % 5 == 0 and -100 or 700),
          output_tokens = i % 4 == 0 and 1 or 40,
          reasoning_tokens = i % 3,
        },
      })
      messages[#messages + 1] = tool(400)
      messages[#messages + 1] = user(100)
    end
    local c = conversation(messages)
    for n = #messages, 0, -1 do
      c:truncate(n)
      local fresh = conversation()
      for i = 1, n do
        fresh:append(messages[i])
      end
      assert.same({ fresh:used() }, { c:used() })
      assert.equal(fresh:scale(), c:scale())
      assert.same(fresh:calibration(), c:calibration())
      assert.same(fresh:breakdown(), c:breakdown())
    end
  end)

  it("is closed once", function()
    local c = conversation { user() }
    local close = getmetatable(c).__gc
    close(c)
    close(c)
    assert.has_error(function()
      c:used()
    end, "the conversation is closed")
    assert.equal("compaction.Conversation(closed)", tostring(c))
  end)

  if _VERSION == "Lua 5.4" then
    it("closes at the end of a block", function()
      local c
      load [[
        local make = ...
        local c <close> = make()
        return c
      ]](function()
        c = conversation { user() }
        return c
      end)
      assert.equal("compaction.Conversation(closed)", tostring(c))
    end)
  end

  it("holds no reference to what it was given", function()
    local weak = setmetatable({}, { __mode = "v" })
    local c = conversation()
    do
      weak[1] = user()
      c:append(weak[1])
      weak[2] = { user() }
      c:append(weak[2])
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
    assert.is_nil(weak[2])
    assert.equal(2, #c)
  end)
end)

describe("wrong arguments of a conversation", function()
  local c = conversation { user(), answer(1000, 10), user() }
  local function message_of(f, ...)
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    return message
  end

  it("are named, and change nothing", function()
    local before = c:snapshot()
    local cases = {
      { "append", { 5 }, "bad argument #1 to 'append' (table expected, got number)" },
      { "append", {}, "bad argument #1 to 'append' (table expected, got nil)" },
      {
        "append",
        { { role = "user", content = 7 } },
        "bad argument #1 to 'append' (message.content: string or list of parts expected, got number)",
      },
      {
        "append",
        { { role = "tool", tool_call_id = {} } },
        "bad argument #1 to 'append' (message.tool_call_id: string expected, got table)",
      },
      {
        "append",
        { { role = "assistant", tool_calls = { { id = true } } } },
        "bad argument #1 to 'append' (message.tool_calls[1].id: string expected, got boolean)",
      },
      {
        "append",
        { { role = "user", compaction = 7 } },
        "bad argument #1 to 'append' (message.compaction: table expected, got number)",
      },
      {
        "append",
        { { role = "user", compaction = { version = 1, kept = "3" } } },
        "bad argument #1 to 'append' (message.compaction.kept: number expected, got string)",
      },
      {
        "append",
        { { role = "user", compaction = { version = 1, kept = -3 } } },
        "bad argument #1 to 'append' (message.compaction.kept: a count is never negative)",
      },
      { "truncate", { 4 }, "bad argument #1 to 'truncate' (index from 0 to 3 expected, got 4)" },
      { "truncate", { -1 }, "bad argument #1 to 'truncate' (index from 0 to 3 expected, got -1)" },
      { "truncate", { 1.5 }, "bad argument #1 to 'truncate' (integer within +-2^53 expected, got 1.5)" },
      { "set", { 4, user() }, "bad argument #1 to 'set' (index from 1 to 3 expected, got 4)" },
      { "set", { 0, user() }, "bad argument #1 to 'set' (index from 1 to 3 expected, got 0)" },
      { "set", { 1, { user() } }, "bad argument #2 to 'set' (one message expected, got a list)" },
      {
        "set",
        { 1, { role = "user", usage = { output_tokens = "x" } } },
        "bad argument #2 to 'set' (message.usage.output_tokens: number expected, got string)",
      },
      { "estimate", { 0, 1 }, "bad argument #1 to 'estimate' (index from 1 to 4 expected, got 0)" },
      { "estimate", { 2, 4 }, "bad argument #2 to 'estimate' (index from 1 to 3 expected, got 4)" },
      { "can_cut", { 5 }, "bad argument #1 to 'can_cut' (index from 1 to 4 expected, got 5)" },
      { "keep_from", { "x" }, "bad argument #1 to 'keep_from' (number expected, got string)" },
      { "split_index_for_keep", {}, "bad argument #1 to 'split_index_for_keep' (number expected, got nil)" },
      { "observe", { 5 }, "bad argument #1 to 'observe' (table expected, got number)" },
      {
        "observe",
        { { input_tokens = {} } },
        "bad argument #1 to 'observe' (usage.input_tokens: number expected, got table)",
      },
      { "observe", { {}, 5 }, "bad argument #2 to 'observe' (string expected, got number)" },
      { "set_limit", { -1 }, "bad argument #1 to 'set_limit' (a limit is never negative)" },
      { "set_limit", { "x" }, "bad argument #1 to 'set_limit' (number expected, got string)" },
      { "set_model", { 5 }, "bad argument #1 to 'set_model' (string expected, got number)" },
      { "set_fixed", { "5" }, "bad argument #1 to 'set_fixed' (table expected, got string)" },
      {
        "set_fixed",
        { { sytem = "x" } },
        "bad argument #1 to 'set_fixed' (unknown option 'sytem' (known: system, tools))",
      },
      { "set_fixed", { { tools = { 0 / 0 } } }, nil },
      { "replace", { 5, user() }, "bad argument #1 to 'replace' (index from 1 to 4 expected, got 5)" },
      { "replace", { 2 }, "bad argument #2 to 'replace' (table expected, got nil)" },
      { "replace", { 3, user(), 3 }, "bad argument #3 to 'replace' (index from 1 to 2 expected, got 3)" },
      { "replace", { 3, user(), "x" }, "bad argument #3 to 'replace' (number expected, got string)" },
    }
    for _, case in ipairs(cases) do
      local message = message_of(c[case[1]], c, case[2][1], case[2][2], case[2][3])
      if case[3] then
        assert.equal(case[3], message)
      end
      assert.equal(before, c:snapshot())
    end
  end)

  it("come with options too", function()
    assert.equal(
      "bad argument #2 to 'conversation' (unknown option 'estimater' (known: estimator, families, limit, model))",
      message_of(compaction.conversation, nil, { estimater = "seed" })
    )
    assert.equal(
      "bad argument #2 to 'conversation' (options.estimator: 'auto', 'seed', a family or a function expected, got 'best')",
      message_of(compaction.conversation, nil, { estimator = "best" })
    )
    assert.is_false(pcall(conversation, nil, { limit = "x" }))
    assert.is_false(pcall(conversation, nil, 5))
    assert.is_false(pcall(conversation, user()))
    assert.is_false(pcall(compaction.restore))
    assert.is_false(pcall(compaction.restore, 5))
  end)

  it("come as another self", function()
    for _, name in ipairs { "append", "used", "len", "replace", "snapshot" } do
      assert.is_false(pcall(c[name], {}, {}))
      assert.is_false(pcall(c[name], compaction.new_estimator {}, {}))
      assert.is_false(pcall(c[name]))
    end
  end)

  it("may close the conversation while they are read, to no harm", function()
    local victim = conversation { user() }
    local hostile = setmetatable({}, {
      __index = function(_, key)
        getmetatable(victim).__gc(victim)
        return key == "role" and "user" or nil
      end,
    })
    assert.has_error(function()
      victim:append(hostile)
    end, "the conversation is closed")
    local other = conversation { user(), user() }
    local shortens = setmetatable({}, {
      __index = function(_, key)
        other:truncate(0)
        return key == "role" and "user" or nil
      end,
    })
    assert.is_false(pcall(other.set, other, 2, shortens))
    assert.equal(0, #other)
  end)
end)

describe("usage that cannot be taken at its word", function()
  -- A conversation whose next prompt is expected to be about `tokens`.
  local function expecting(tokens, options)
    local c = conversation(nil, options)
    c:append { user(1000), answer(3000, 50) }
    c:append(tool(math.floor(tokens / 2) - 3000))
    c:append(answer(math.floor(tokens / 2), 50))
    c:append(tool(tokens - math.floor(tokens / 2) - 50))
    return c
  end

  it("is refused where a server clipped at half its window, plus 2", function()
    local c = expecting(50000, { limit = 32768 })
    local before = c:used()
    assert.near(50000, before, 100)
    c:append(answer(16386, 200))
    assert.equal(before + 200, c:used())
    assert.equal(1, c:calibration().refused.clipped)
  end)

  it("is refused while the same count comes again and the list grows", function()
    local c = expecting(190000)
    c:append(answer(196608, 100))
    local first = c:used()
    local grown = 0
    for i = 1, 5 do
      c:append(user(300))
      grown = grown + c:estimate(#c, #c)
      c:append(answer(196608, 100))
      grown = grown + 100
      assert.near(first + grown, c:used(), 2)
      assert.equal(i, c:calibration().refused.clipped)
    end
  end)

  it("is refused where counts of several requests were summed", function()
    local c = expecting(164000)
    local before = c:used()
    c:append(answer(931132, 100))
    assert.equal(before + 100, c:used())
    assert.equal(1, c:calibration().refused.aggregated)
    c:truncate(#c - 1)
    assert.equal(before, c:used())
    assert.equal(0, c:calibration().refused.aggregated)
  end)

  it("is refused twice when the first of two equal counts had shrunk", function()
    local c = expecting(50000)
    local before = c:used()
    c:append(answer(16386, 100))
    assert.equal(16486, c:used()) -- a new base, as after pruning
    assert.equal(1, c:calibration().refused.shrunk)
    c:append(user(200))
    c:append(answer(16386, 100))
    assert.near(before + 100 + 200 + 100, c:used(), 5)
    assert.equal(1, c:calibration().refused.clipped)
    c:truncate(#c - 1)
    assert.near(16486 + 200, c:used(), 2)
  end)

  it("is the new base at once where a host pruned behind our back", function()
    local c = expecting(185000)
    c:append(answer(185014, 100))
    c:append(user(50))
    c:append(answer(28617, 100))
    assert.same({ 28717, "anchor" }, { c:used() })
    assert.equal(1, c:calibration().refused.shrunk)
    assert.near(1, c:scale(), 0.1)
  end)

  it("is believed after all when the next count grows from it", function()
    local c = expecting(20000)
    local before = c:used()
    c:append(answer(150000, 100))
    assert.equal(1, c:calibration().refused.aggregated)
    assert.equal(before + 100, c:used())
    c:append(user(400))
    c:append(answer(150500, 100))
    assert.equal(0, c:calibration().refused.aggregated)
    assert.equal(150600, c:used())
    c:truncate(#c - 1)
    assert.equal(1, c:calibration().refused.aggregated)
  end)

  it("is never refused as the first", function()
    local c = conversation { user(23), answer(20737, 10) }
    assert.same({ 20747, "anchor" }, { c:used() })
    assert.near(20714, c:calibration().fixed, 1)
    assert.equal(0, c:calibration().refused.aggregated)
  end)

  it("has an output replaced that is a placeholder", function()
    local c = conversation {
      user(100),
      { role = "assistant", content = ("x"):rep(257), usage = { input_tokens = 1000, output_tokens = 1 } },
    }
    assert.near(1000 + 257, c:used(), 10)
    assert.equal(1, c:calibration().refused.placeholder)
    local short = conversation {
      user(100),
      { role = "assistant", content = "ok", usage = { input_tokens = 1000, output_tokens = 1 } },
    }
    assert.equal(1001, short:used())
    assert.equal(0, short:calibration().refused.placeholder)
  end)

  it("of another model is a new base and teaches nothing", function()
    local c = conversation { user(100) }
    local prompt = 2000
    for i = 1, 10 do -- model a: 1.5 tokens for each that we guess
      c:append(answer(prompt, 20, { model = "a" }))
      c:append(tool(1000))
      prompt = prompt + 20 + 1500
      assert.is_true(c:scale() < 1.5 and i > 0)
    end
    local learned = c:scale()
    assert.near(1.5, learned, 0.04)
    c:append(answer(14000, 20, { model = "b" }))
    assert.equal(1, c:calibration().refused.model)
    assert.equal(14020, c:used())
    assert.equal(1, c:scale()) -- nothing known of b
    c:append(tool(1000))
    c:append(answer(14000 + 20 + 800, 20, { model = "b" }))
    assert.is_true(c:scale() < 1)
    c:append(tool(1000))
    c:append(answer(18000, 20, { model = "a" }))
    assert.equal(learned, c:scale()) -- back to what was known of a
    assert.equal(2, c:calibration().refused.model)
    c:set_model "b"
    assert.is_true(c:scale() < 1)
    c:set_model "a"
    assert.equal(learned, c:scale())
  end)
end)

describe("the fixed part", function()
  it("of tool definitions does not spoil the scale", function()
    local c = conversation { user(5000) }
    local prompt = 8000 + 5000
    while prompt < 108000 do
      c:append(answer(prompt, 100))
      c:append(tool(2000))
      prompt = prompt + 100 + 2000
    end
    assert.near(1, c:scale(), 0.01)
    assert.near(8000, c:calibration().fixed, 50)
  end)

  it("is what was said until an anchor knows", function()
    local c = conversation { user(100) }
    c:set_fixed { system = ("x"):rep(100), tools = { { name = "read", parameters = { type = "object" } } } }
    local json = #'[{"name":"read","parameters":{"type":"object"}}]'
    assert.equal(100 + 100 + json + 5, (c:used()))
    c:append(answer(3000, 10))
    assert.near(2900, c:calibration().fixed, 1)
  end)

  it("is never negative", function()
    assert.equal(0, conversation({ user(5000), answer(3000, 10) }):calibration().fixed)
  end)
end)

describe("shares", function()
  it("size messages by what was charged for them, between two anchors", function()
    local c = conversation { user(100), answer(1000, 50), tool(300), user(100), answer(1000 + 50 + 600, 50) }
    assert.equal(50, c:estimate(2, 2)) -- exactly what its prompt grew by, no envelope
    assert.equal(450, c:estimate(3, 3))
    assert.equal(150, c:estimate(4, 4))
    assert.equal(650, c:estimate(2, 4))
    c:truncate(4)
    assert.equal(300, c:estimate(3, 3))
  end)
end)

describe("reasoning", function()
  -- A provider that resends reasoning within a turn and drops it at the next user message.
  local function turns(resends, count)
    local c, base, kept = conversation(), 2000, 0
    c:append(user(200))
    local errors = {}
    for i = 1, count do
      local new_turn = i % 4 == 0
      local prompt = base + (resends and kept or 0)
      if i > 1 then
        errors[i] = c:used() - prompt
      end
      c:append {
        role = "assistant",
        content = text(105),
        usage = { input_tokens = prompt, output_tokens = 500, reasoning_tokens = 400 },
      }
      kept = kept + 400
      base = base + 100
      if new_turn then
        c:append(user(300))
        base, kept = base + 300, 0
      else
        c:append(tool(300))
        base = base + 300
      end
    end
    return errors
  end

  it("that is dropped at once is forecast so", function()
    local errors = turns(false, 30)
    for i = 2, 30 do
      assert.near(0, errors[i], 5)
    end
  end)

  it("that is sent again within its turn is learned", function()
    local errors = turns(true, 40)
    for i = 20, 40 do
      assert.near(0, errors[i], 100) -- 400 without
    end
  end)
end)

describe("set", function()
  it("corrects the anchors behind a pruned message", function()
    local c = conversation {
      user(4000),
      answer(10000, 50),
      tool(3000),
      answer(13050, 50),
      tool(1000),
      answer(14100, 50),
      user(100),
    }
    assert.equal(14250, c:used())
    c:set(3, tool(50))
    assert.near(14250 - 2950, c:used(), 5)
    assert.equal(7, #c)
  end)

  it("takes late usage", function()
    local c = conversation { user(100), { role = "assistant", content = text(100) } }
    c:set(2, answer(5000, 80))
    assert.same({ 5080, "anchor" }, { c:used() })
  end)

  it("changes calls", function()
    local c = conversation { user(), { role = "assistant", content = "" } }
    assert.equal(0, c:pending())
    c:set(2, { role = "assistant", content = "", tool_calls = { { id = "a" }, { id = "b" } } })
    assert.equal(2, c:pending())
    c:append(tool(10, "b"))
    assert.equal(1, c:pending())
    c:set(3, tool(5, "b"))
    assert.equal(1, c:pending())
    c:set(1, user(7))
    assert.equal(1, c:pending())
    assert.is_false(c:can_cut(3))
  end)

  it("is as if the message had come so", function()
    local messages = { user(300), answer(1000, 30), tool(200), answer(1300, 40), user(50) }
    local c = conversation(messages)
    for i = 1, 5 do
      c:set(i, messages[i])
      assert.same({ conversation(messages):used() }, { c:used() })
      assert.equal(conversation(messages):scale(), c:scale())
    end
  end)
end)

describe("observe", function()
  it("is a prompt count for all messages", function()
    local c = conversation { user(100), user(100) }
    c:observe { input_tokens = 900, output_tokens = 77 }
    assert.same({ 900, "anchor" }, { c:used() })
    assert.equal(700, c:calibration().fixed)
    c:append(user(50))
    assert.equal(950, (c:used()))
    c:truncate(2)
    assert.equal(900, (c:used()))
    c:truncate(1)
    assert.same({ 100, "estimate" }, { c:used() })
  end)

  it("without a prompt says nothing", function()
    local c = conversation { user(100) }
    c:observe { output_tokens = 50 }
    assert.same({ 100, "estimate" }, { c:used() })
  end)
end)

describe("replace", function()
  local function long()
    local messages, prompt = { { role = "system", content = text(500) }, user(200) }, 8000 + 700
    for _ = 1, 20 do
      messages[#messages + 1] = answer(prompt, 100, { tool_calls = { { id = "c" } } })
      messages[#messages + 1] = tool(1000, "c")
      prompt = prompt + 100 + 1300
    end
    messages[#messages + 1] = answer(prompt, 100)
    messages[#messages + 1] = user(100)
    return conversation(messages), prompt + 200
  end

  it("puts a message for the old ones and knows the next prompt", function()
    local c = long()
    local kept = c:estimate(33, #c)
    local at, n = c:replace(33, user(900))
    assert.same({ 2, 44 - 33 + 1 + 2 }, { at, n })
    assert.equal(n, #c)
    local used, source = c:used()
    assert.equal("estimate", source)
    assert.near(8000 + 500 + 900 * c:scale() + kept, used, 300)
    assert.near(1.3, c:scale(), 0.02)
    assert.equal(kept, c:estimate(3, #c))
  end)

  it("carries a request over, as it is or cut", function()
    local c = long()
    local size = c:estimate(2, 2)
    c:replace(33, user(900), 2)
    assert.equal(44 - 33 + 1 + 3, #c)
    assert.equal(size, c:estimate(3, 3))
    local d = long()
    d:replace(33, user(900), user(50))
    assert.near(50 * d:scale(), d:estimate(3, 3), 1)
  end)

  it("goes on from the next anchor", function()
    local c = long()
    c:replace(33, user(900))
    local used = c:used()
    c:append(answer(used + 30, 100))
    assert.same({ used + 130, "anchor" }, { c:used() })
    assert.equal(0, c:calibration().refused.shrunk)
    c:truncate(#c - 1)
    assert.same({ used, "estimate" }, { c:used() })
  end)

  it("keeps what was learned, which truncate does not touch", function()
    local c = long()
    local before = c:calibration()
    c:replace(33, user(900))
    assert.same(before.scale, c:calibration().scale)
    assert.same(before.windows, c:calibration().windows)
    assert.near(before.fixed, c:calibration().fixed, 1)
    c:truncate(2)
    assert.same(before.scale, c:calibration().scale)
    assert.near(before.fixed + 500 * 1.3 + 900 * 1.3, c:used(), 400)
  end)

  it("refuses an illegal cut and changes nothing", function()
    local c = long()
    local before = c:snapshot()
    for _, i in ipairs { 1, 4, 6 } do -- the front, results
      local ok, message = pcall(c.replace, c, i, user(10))
      assert.is_false(ok)
      assert.matches("bad argument #1 to 'replace'", message)
    end
    assert.equal(before, c:snapshot())
  end)

  it("is no anchor, whatever usage the summary carries", function()
    local c = long()
    c:replace(
      33,
      { role = "user", content = text(900), usage = { input_tokens = 99999, output_tokens = 700 } }
    )
    assert.same("estimate", select(2, c:used()))
    assert.equal(705, c:estimate(2, 2))
  end)

  it("may keep nothing, and may come again", function()
    local c = long()
    c:replace(#c + 1, user(500))
    assert.equal(2, #c)
    c:append(user(100))
    c:replace(3, user(300))
    assert.equal(3, #c)
    assert.equal("estimate", select(2, c:used()))
  end)

  it("is read back from a saved list by its mark, which text cannot forge", function()
    local messages, prompt = { user(200) }, 9000
    for i = 1, 10 do
      messages[#messages + 1] = answer(prompt + i * 500, 100)
      messages[#messages + 1] = user(400)
    end
    local fresh = conversation(messages)
    assert.equal("anchor", select(2, fresh:used()))
    table.insert(
      messages,
      1,
      { role = "user", content = text(300), compaction = { version = 1, kept = #messages, fixed = 7000 } }
    )
    local c = conversation(messages)
    local used, source = c:used()
    assert.equal("estimate", source)
    assert.near(7000 + 300 + 200 + 10 * 500, used, 400)
    assert.is_true(c:calibration().windows > 5) -- dead anchors still teach
    c:append(answer(used, 100))
    assert.same({ used + 100, "anchor" }, { c:used() })
    for _, other in ipairs { { version = 2, kept = 5 }, { kept = 5 }, { version = 1, placeholder = true }, {} } do
      messages[1].compaction = other
      assert.equal("anchor", select(2, conversation(messages):used()))
    end
    messages[1].compaction = nil
    messages[1].content = '"compaction": {"version": 1, "kept": 21}'
    assert.equal("anchor", select(2, conversation(messages):used()))
  end)
end)

-- Each of these was wrong once.
describe("a long life", function()
  local function restored(c)
    return compaction.restore(c:snapshot())
  end

  it("restores what was replaced behind a refusal taken back, and behind two refused", function()
    local back = conversation {
      user(1000),
      answer(3000, 50),
      tool(8500),
      answer(11550, 50),
      tool(8400),
      answer(150000, 100),
      user(400),
      answer(150500, 100),
      user(50),
    }
    back:replace(7, user(300))
    assert.equal(back:snapshot(), restored(back):snapshot())
    local both = conversation {
      user(1000),
      answer(25000, 10),
      tool(25000),
      answer(16386, 10),
      user(200),
      answer(16386, 10),
      user(10),
    }
    both:replace(5, user(300))
    assert.equal(both:snapshot(), restored(both):snapshot())
  end)

  -- Ten windows in which 1.5 tokens are charged for each that is guessed.
  local function taught(options, model)
    local c, prompt = conversation({ user(100) }, options), 2000
    for _ = 1, 10 do
      c:append { answer(prompt, 20, { model = model }), tool(1000) }
      prompt = prompt + 20 + 1500
    end
    return c
  end

  it("learns from messages without a model under the model that the host named", function()
    local expected = taught():scale()
    assert.near(1.47, expected, 0.02)
    assert.equal(expected, taught({ model = "mine" }):scale())
    local c = taught()
    c:set_model "small"
    assert.equal(1, c:scale())
    for i = 1, 6 do
      c:append { answer(20000 + i * 1520, 20), tool(1000) }
    end
    assert.is_true(c:scale() > 1.3 and c:calibration().windows == 6)
  end)

  it("remembers through a compaction which model the host named", function()
    local c = taught(nil, "a")
    local prompt = 20000
    for _ = 1, 10 do
      c:append { answer(prompt, 20, { model = "b" }), tool(1000) }
      prompt = prompt + 820
    end
    local b = c:scale()
    c:set_model "a"
    local a = c:scale()
    assert.is_true(a > 1.3 and b < 1)
    c:replace(34, user(100))
    assert.equal(a, c:scale())
    c:set_model "b"
    assert.equal(b, c:scale())
    c:observe({ input_tokens = c:used() }, "a")
    c:set_model "b"
    assert.equal(b, c:scale())
  end)

  it("does not take the prompts of kept or carried messages for new ones", function()
    local c = taught()
    c:replace(#c - 3, user(100))
    local used = c:used()
    c:set(2, answer(17000, 20)) -- the kept anchor, read again
    assert.same("estimate", select(2, c:used()))
    assert.near(used, c:used(), 5)
    local d = taught()
    local kept = d:estimate(#d - 3, #d)
    d:replace(#d - 3, user(100), answer(90000, 30))
    assert.same("estimate", select(2, d:used()))
    assert.equal(kept, d:estimate(3, #d))
  end)

  it("keeps corrections of earlier sets", function()
    local c = conversation {
      user(4000),
      answer(10000, 50),
      tool(3000),
      answer(13050, 50),
      tool(1000),
      answer(14100, 50),
      user(100),
    }
    c:set(3, tool(50))
    local used = c:used()
    c:set(6, answer(14100, 50))
    assert.equal(used, (c:used()))
    c:set(4, answer(13050, 50))
    assert.equal(used, (c:used()))
  end)

  it("knows the sizes of the kept part when a message before it is read again", function()
    local c = taught()
    c:replace(#c - 5, user(300))
    local used, kept = c:used(), c:estimate(2, #c)
    c:set(1, user(900))
    assert.near(used + 600 * c:scale(), c:used(), 3)
    assert.equal(kept, c:estimate(2, #c))
    assert.near(c:calibration().fixed + c:estimate(1, #c), c:used(), 3)
  end)

  it("divides by the same window that it measured", function()
    local c = conversation {
      user(10),
      answer(1000, 50),
      tool(3000),
      answer(4050, 50),
      tool(1000),
      answer(5100, 50),
      tool(1000),
    }
    c:set(3, tool(50))
    c:append(answer(c:used(), 50))
    assert.near(1, c:scale(), 0.01)
    assert.near(1000, c:estimate(7, 7), 10)
  end)

  it("lets an anchor correct what a mark or the host said of the fixed part", function()
    local c = conversation {
      { role = "user", content = text(300), compaction = { version = 1, kept = 1, fixed = 9000 } },
      user(500),
    }
    assert.equal(9800, (c:used()))
    c:append(answer(1800, 10))
    assert.equal(1000, c:calibration().fixed)
    c:replace(3, user(300))
    c:set_fixed { system = "short" }
    assert.equal(1000, c:calibration().fixed)
  end)

  it("calls a count that comes twice with nothing between no fate", function()
    local c = conversation { user(100) }
    c:observe { input_tokens = 900 }
    c:append(answer(900, 20))
    assert.equal(0, c:calibration().refused.shrunk)
  end)

  it("compacts again inside the kept part", function()
    local c = taught()
    c:replace(#c - 9, user(300))
    local sizes = {}
    for i = 3, #c do
      sizes[i] = c:estimate(i, i)
    end
    c:replace(2, user(200))
    for i = 3, #c do
      assert.equal(sizes[i], c:estimate(i, i))
    end
  end)

  it("knows the newest message that a mark speaks of, and the first that it does not", function()
    local function loaded(kept)
      local list = { { role = "user", content = text(300), compaction = { version = 1, kept = kept } } }
      list[2], list[3] = user(100), answer(5000, 10)
      return select(2, conversation(list):used())
    end
    assert.equal("estimate", loaded(2))
    assert.equal("anchor", loaded(1))
  end)

  it("takes a mark of another version for none", function()
    local list = {
      { role = "user", content = text(300), compaction = { version = 2, kept = 5, fixed = 7 } },
      answer(5000, 10),
    }
    assert.equal("anchor", select(2, conversation(list):used()))
  end)

  it("gives up an anchor that corrections have made the larger guess", function()
    local c = conversation { user(100), answer(1000, 50), tool(3000), answer(4050, 50), user(100) }
    assert.equal("anchor", select(2, c:used()))
    c:set(3, tool(50)) -- 2,950 of correction against 100 unmeasured tokens: the first anchor stands
    assert.near(1000 + 50 + 50 + 50 + 100, c:used(), 2)
    assert.near(900, c:calibration().fixed, 1)
    c:set(1, user(2000)) -- and now no anchor is left, but what the first one taught is
    assert.equal("estimate", select(2, c:used()))
    assert.near(900, c:calibration().fixed, 1)
    assert.near(900 + 2000 + 50 + 50 + 50 + 100, c:used(), 5)
  end)

  it("keeps the fixed part of the least mass through a compaction", function()
    local c = conversation { user(100), answer(5000, 50), user(100) }
    c:replace(3, user(3000))
    assert.equal(4900, c:calibration().fixed)
    c:append(answer(9500, 10)) -- more stands before it: it knows less
    assert.equal(4900, c:calibration().fixed)
  end)

  it("measures nothing with the seed's rule across a compaction", function()
    local c = compaction.conversation(
      { user(350), answer(1000, 50), user(700), answer(5000, 50), user(3500) },
      { estimator = "seed" }
    )
    c:replace(3, user(350))
    local scale = c:scale()
    c:append(answer(9000, 50))
    assert.equal(scale, c:scale())
  end)

  it("opens calls again whose results are taken back", function()
    local c = conversation {
      user(),
      { role = "assistant", tool_calls = { { id = "a" }, { id = "b" } } },
      tool(20, "a"),
      tool(20, "b"),
    }
    assert.equal(0, c:pending())
    c:truncate(2)
    assert.equal(2, c:pending())
    c:append(tool(20, "a"))
    assert.equal(1, c:pending())
  end)

  it("costs no more for refusals, large batches and orphans than their number", function()
    local c = conversation { user(100), answer(1000, 10) }
    for _ = 1, 20000 do
      c:append(answer(1000, 100))
    end
    c:truncate(2)
    local calls, results = {}, {}
    for i = 1, 20000 do
      calls[i] = { id = "c" .. i }
      results[i] = { role = "tool", content = "", tool_call_id = "c" .. i }
    end
    c:append { role = "assistant", tool_calls = calls }
    c:append(results)
    assert.equal(0, c:pending())
    c:append(results) -- orphans
    assert.equal(40003, #c)
  end)
end)

describe("breakdown", function()
  local function sum(parts)
    local total = 0
    for _, tokens in pairs(parts) do
      assert.is_true(tokens >= 0)
      total = total + tokens
    end
    return total
  end

  it("adds up to used, part by part", function()
    local c = conversation {
      { role = "system", content = text(100) },
      user(200),
      {
        role = "assistant",
        content = text(105),
        reasoning_content = ("r"):rep(100),
        tool_calls = { { id = "a", ["function"] = { name = "f", arguments = ("a"):rep(99) } } },
      },
      tool(300, "a"),
      { role = "user", content = { { image_url = "u" } } },
    }
    local parts = c:breakdown()
    assert.equal((c:used()), sum(parts))
    assert.equal(100, parts.system)
    assert.near(205, parts.user, 10)
    assert.near(105, parts.assistant, 10)
    assert.near(100, parts.reasoning, 5)
    assert.near(100, parts.tool_calls, 5)
    assert.equal(300, parts.tool_results)
    assert.near(1505, parts.attachments, 10)
    assert.equal(0, parts.summary)
    assert.equal(0, parts.fixed)
  end)

  it("shows the fixed part and the summary", function()
    local c = conversation { user(100), answer(5000, 50), user(100) }
    assert.equal(5000 - 100, c:breakdown().fixed)
    c:replace(3, user(300))
    assert.equal(300, c:breakdown().summary)
    assert.equal((c:used()), sum(c:breakdown()))
  end)

  it("takes parts down where they exceed the prompt", function()
    local c = conversation { user(5000), answer(3000, 50), tool(100) }
    local parts = c:breakdown()
    assert.equal((c:used()), sum(parts))
    assert.equal(0, parts.fixed)
  end)
end)

describe("table arguments of a call", function()
  local function bytes_of(arguments)
    local c =
      conversation { { role = "assistant", tool_calls = { { ["function"] = { arguments = arguments } } } } }
    return c:estimate(1, 1)
  end

  it("count as their JSON", function()
    for _, case in ipairs {
      { {}, "{}" },
      { { path = "src/a.c", line = 12 }, '{"path":"src/a.c","line":12}' },
      { { 1, 2.5, true, false, "x" }, '[1,2.5,true,false,"x"]' },
      { { false, false, false, false }, "[false,false,false,false]" },
      { { text = 'a"b\\c\n\t\1' }, [[{"text":"a\"b\\c\n\t\u0001"}]] },
      { { { { {} } } }, "[[[{}]]]" },
      { { a = require("cjson").null }, '{"a":null}' },
    } do
      assert.equal(#case[2] + 5, bytes_of(case[1]))
      assert.equal(
        math.floor(#case[2] / 3.5) + 5,
        compaction.estimate_message_tokens {
          role = "assistant",
          tool_calls = { { ["function"] = { arguments = case[1] } } },
        }
      )
    end
  end)

  it("are refused where JSON has no word for them, with the place", function()
    local cyclic = {}
    cyclic.again = cyclic
    for _, case in ipairs {
      {
        { a = { b = 0 / 0 } },
        "message%.tool_calls%[1%]%.function%.arguments%.a%.b: a number that JSON can hold",
      },
      {
        { io.stdout },
        "message%.tool_calls%[1%]%.function%.arguments%[1%]: JSON value expected, got userdata",
      },
      { { [{}] = 1 }, "arguments: string as a key expected, got table" },
      { cyclic, "message%.tool_calls%[1%]%.function%.arguments: nested too deeply" },
    } do
      local ok, message = pcall(
        compaction.estimate_message_tokens,
        { role = "assistant", tool_calls = { { ["function"] = { arguments = case[1] } } } }
      )
      assert.is_false(ok)
      assert.matches(case[2], message)
    end
  end)
end)
