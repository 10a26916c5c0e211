-- Damaged lists, and lists that must fit without a model.
local compaction = require "compaction"
local nulls = require "spec.support.nulls"
local random_of = require "spec.support.random"
local transcripts = require "spec.support.transcripts"

local repair, fit = compaction.repair, compaction.fit

local function user(text)
  return { role = "user", content = text }
end
local function system(text)
  return { role = "system", content = text }
end
local function result(id, text, name)
  return { role = "tool", tool_call_id = id, content = text or "result", name = name }
end
-- An assistant message that calls; each call is an id, or { id, name }.
local function calls(...)
  local message = { role = "assistant", content = "", tool_calls = {} }
  for i = 1, select("#", ...) do
    local call = select(i, ...)
    local id, name = call, "tool"
    if type(call) == "table" then
      id, name = call[1], call[2]
    end
    message.tool_calls[i] = { id = id, ["function"] = { name = name, arguments = "{}" } }
  end
  return message
end

local NONE = { dropped = 0, duplicates = 0, placeholders = 0, moved = 0, empty = 0, added = 0 }
local function counts(changed)
  local all = {}
  for key, value in pairs(NONE) do
    all[key] = changed[key] or value
  end
  return all
end

-- The output must be these very tables; "placeholder" stands for one that was made.
local function check(want, report, messages, options)
  local out, got = repair(messages, options)
  assert.same(counts(report), got)
  assert.equal(#want, #out)
  for i, message in ipairs(want) do
    if message == "placeholder" then
      assert.is_true(out[i].compaction.placeholder)
      assert.equal(1, out[i].compaction.version)
    else
      assert.is_true(rawequal(message, out[i]))
    end
  end
  local again, nothing = repair(out, options)
  assert.same(counts {}, nothing)
  for i = 1, math.max(#out, #again) do
    assert.is_true(rawequal(out[i], again[i]))
  end
  return out
end

describe("repair", function()
  it("leaves a sound list as it is", function()
    local list =
      { system "s", user "u", calls("a", "b"), result "a", result "b", { role = "assistant", content = "x" } }
    check(list, {}, list)
  end)

  it("pairs by id, each result to the newest open call", function()
    local first, second = calls "x", calls "x"
    local one, two = result("x", "1"), result("x", "2")
    check({ first, two, second, one }, { moved = 1 }, { first, second, one, two })
  end)

  it("pairs the rest by name and in order, in the batch before", function()
    local batch = calls({ nil, "read" }, { nil, "list" }, { nil, "read" })
    local list, read1, read2 = result(nil, "l", "list"), result(nil, "1", "read"), result(nil, "2", "read")
    check({ batch, list, read1, read2 }, {}, { batch, list, read1, read2 })
    check(
      { batch, read1, list, "placeholder" },
      { placeholders = 1, dropped = 1 },
      { batch, read1, list, result(nil, "?", "other") }
    )
    local nameless = { result(nil, "1"), result(nil, "2"), result(nil, "3"), result(nil, "4") }
    check(
      { batch, nameless[1], nameless[2], nameless[3] },
      { dropped = 1 },
      { batch, nameless[1], nameless[2], nameless[3], nameless[4] }
    )
  end)

  it("gives a result with an unknown id only to a call without one", function()
    local open, named = calls { nil, "f" }, calls "a"
    local stray = result "zz"
    check({ open, stray }, {}, { open, stray })
    check({ named, "placeholder" }, { placeholders = 1, dropped = 1 }, { named, stray })
  end)

  it("moves results behind their call and keeps their order", function()
    local batch = calls("a", "b")
    local b, a, u = result "b", result "a", user "meanwhile"
    check({ batch, b, a, u }, { moved = 2 }, { batch, u, b, a })
    check({ batch, b, a, u }, { moved = 1 }, { batch, b, u, a })
  end)

  it("drops results without an earlier call, and second ones", function()
    local batch, a = calls "a", result "a"
    check({ batch, a }, { dropped = 1, duplicates = 1 }, { result "a", batch, a, result "a" })
  end)

  it("puts a placeholder for a missing result", function()
    local batch = calls({ "a", "read" }, { 7, "write" })
    local out = check({ batch, "placeholder", "placeholder" }, { placeholders = 2 }, { batch })
    assert.same({ "tool", "a", "read" }, { out[2].role, out[2].tool_call_id, out[2].name })
    assert.equal(7, out[3].tool_call_id)
    assert.truthy(#out[2].content > 0)
    assert.equal(0, compaction.conversation(out):pending())
  end)

  it("drops calls without a result where that is wanted", function()
    local batch, a = calls("a", "b"), result "a"
    local out, report = repair({ user "u", batch, a }, { calls = "drop" })
    assert.same(counts { dropped = 1 }, report)
    assert.equal(1, #out[2].tool_calls)
    assert.equal(batch.tool_calls[1], out[2].tool_calls[1])
    assert.equal(2, #batch.tool_calls)
    out, report = repair({ user "u", calls "a" }, { calls = "drop" })
    assert.same(counts { dropped = 1, empty = 1 }, report)
    assert.equal(1, #out)
  end)

  it("removes empty assistant messages, and no others", function()
    local kept = {
      { role = "assistant", reasoning_content = "hm" },
      { role = "assistant", content = { { type = "text", text = "x" } } },
      { role = "assistant", function_call = { name = "f", arguments = "" } },
      user "",
      { role = "function", name = "f", content = "" },
      { role = "assistant", content = "x" },
    }
    local list = { { role = "assistant" }, { role = "assistant", content = " \n", tool_calls = {} } }
    for _, message in ipairs(kept) do
      list[#list + 1] = message
    end
    list[#list + 1] = { role = "assistant", content = "", multi_content = {} }
    check(kept, { empty = 3 }, list)
  end)

  it("is never empty", function()
    for _, list in ipairs { {}, { result "a" }, { { role = "assistant", content = "" } } } do
      local out, report = repair(list)
      assert.equal(1, #out)
      assert.equal(1, report.added)
      assert.equal("user", out[1].role)
      assert.is_true(out[1].compaction.placeholder)
      assert.same({ out, counts {} }, { repair(out) })
    end
    local s = system "s"
    check({ s, "placeholder" }, { added = 1 }, { s })
  end)

  it("prefers calls without an id for results without one, and those for ids that no call has", function()
    local batch = calls("p", { nil, "f" }, "p")
    local one, two = result(nil, "1"), result("zz", "2")
    check(
      { batch, one, "placeholder", "placeholder" },
      { placeholders = 2, dropped = 1 },
      { batch, one, two }
    )
    local bare, b = calls { nil, "f" }, calls "b"
    local real, late = result(nil, "real"), result("b", "late")
    check({ bare, real, b, late }, { dropped = 1 }, { bare, result("b", "early"), real, b, late })
  end)

  it('tells numbers and long numbers apart as ids, and takes 5 for "5"', function()
    local batch = calls(1234567890123456, 1234567890123457)
    local second = result(1234567890123457)
    local out = check({ batch, second, "placeholder" }, { placeholders = 1 }, { batch, second })
    assert.equal(1234567890123456, out[3].tool_call_id)
    local five, answer = calls(5), result "5"
    check({ five, answer }, {}, { five, answer })
  end)

  it("takes an empty name for none", function()
    local batch, r = calls { nil, "f" }, result(nil, "r", "")
    check({ batch, r }, {}, { batch, r })
  end)

  it("drops calls of tables with metatables, which stay as they are", function()
    local inner = calls("a", "b")
    inner.native = { "native" }
    local proxy = setmetatable({}, { __index = inner, __newindex = inner })
    local out, report = repair({ user "u", proxy }, { calls = "drop" })
    assert.equal(1, #out)
    assert.same(counts { dropped = 2, empty = 1 }, report)
    out = repair({ user "u", proxy, result "a" }, { calls = "drop" })
    assert.equal(1, #out[2].tool_calls)
    assert.truthy(not out[2].native)
    assert.equal(2, #inner.tool_calls)
    assert.same({ "native" }, inner.native)
    local array = { __array = true }
    local batch = calls("a", "b")
    setmetatable(batch.tool_calls, array)
    batch.native = "native"
    setmetatable(batch, array)
    out = repair({ batch, result "a" }, { calls = "drop" })
    assert.equal(array, getmetatable(out[1].tool_calls))
    assert.equal(array, getmetatable(out[1]))
    assert.is_nil(out[1].native)
    local locked = setmetatable(calls "a", { __metatable = false })
    assert.equal(1, #repair({ user "u", locked }, { calls = "drop" }))
  end)

  it("honours __len of the lists in a message", function()
    local inner = calls "a"
    local list = inner.tool_calls
    inner.tool_calls = setmetatable({}, {
      __index = list,
      __len = function()
        return 1
      end,
    })
    local r = result "a"
    check({ inner, r }, {}, { inner, r })
  end)

  it("takes null for nothing", function()
    for _, null in ipairs(nulls) do
      local n = null.value
      local batch = { role = "assistant", content = n, tool_calls = { { id = n, ["function"] = n } } }
      local answer = { role = "tool", tool_call_id = n, name = n, content = "x" }
      check({ batch, answer }, {}, { batch, answer })
      check(
        { batch, answer },
        { empty = 1 },
        { batch, answer, { role = "assistant", content = n, tool_calls = n, reasoning_content = n } }
      )
      assert.equal(1, #repair({ user "u" }, n))
    end
  end)

  it("refuses what is wrong", function()
    local function fails(message, ...)
      local ok, text = pcall(repair, ...)
      assert.is_false(ok)
      assert.equal(message, text)
    end
    fails "bad argument #1 to 'repair' (table expected, got nil)"
    fails(
      "bad argument #1 to 'repair' (list of messages expected, got one message (it has a role))",
      user "u"
    )
    fails("bad argument #1 to 'repair' (messages[2]: table expected, got string)", { user "u", "x" })
    fails(
      "bad argument #1 to 'repair' (messages[1].tool_calls: table expected, got string)",
      { { role = "assistant", tool_calls = "x" } }
    )
    fails(
      "bad argument #1 to 'repair' (messages[1].tool_calls[1]: table expected, got string)",
      { { role = "assistant", tool_calls = { "x" } } }
    )
    fails(
      "bad argument #2 to 'repair' (options.calls: 'placeholder' or 'drop' expected, got 'keep')",
      {},
      { calls = "keep" }
    )
    fails("bad argument #2 to 'repair' (unknown option 'call' (known: calls))", {}, { call = "drop" })
  end)
end)

--
-- Random damage, against a checker that looks at structure alone
--

local IDS = { "a", "b", "c", "", false, 5, "5", "zz" }

local function random_id(random)
  local id = IDS[random(#IDS) + 1]
  return id ~= false and id or nil
end

local function random_list(random)
  local list = {}
  for i = 1, random(14) do
    local kind = random(9)
    if kind == 0 then
      list[i] = system "s"
    elseif kind <= 2 then
      list[i] = user("u" .. i)
    elseif kind <= 4 then
      local batch = { role = "assistant", content = random(2) == 0 and "x" or "", tool_calls = {} }
      for k = 1, random(3) do
        batch.tool_calls[k] =
          { id = random_id(random), ["function"] = { name = ("fg"):sub(random(2) + 1, 2), arguments = "{}" } }
      end
      list[i] = batch
    elseif kind <= 7 then
      list[i] = result(random_id(random), "r" .. i, random(3) == 0 and ("fg"):sub(random(2) + 1, 2) or nil)
    else
      list[i] = { role = random(2) == 0 and "function" or "other", content = "o" .. i }
    end
  end
  return list
end

local function snapshot(list)
  local rows = {}
  for i, message in ipairs(list) do
    local row = {}
    for key, value in pairs(message) do
      row[key] = value
    end
    rows[i] = { message, row, #(message.tool_calls or {}) }
  end
  return rows
end

local function is_usable(id)
  return id ~= nil and id ~= ""
end

-- Does an id'd call come before message i of the list?
local function has_earlier_call(list, i)
  for k = 1, i - 1 do
    for _, call in ipairs(list[k].role == "assistant" and list[k].tool_calls or {}) do
      if tostring(call.id) == tostring(list[i].tool_call_id) then
        return true
      end
    end
  end
  return false
end

describe("repair, for any damage", function()
  for seed = 1, 20 do
    it("gives a sound list and loses nothing, #" .. seed, function()
      local random = random_of(seed)
      for _ = 1, 150 do
        local list = random_list(random)
        local before = snapshot(list)
        local out, report = repair(list)

        -- nothing handed in is changed
        for i, row in ipairs(before) do
          assert.is_true(rawequal(row[1], list[i]))
          assert.equal(row[3], #(list[i].tool_calls or {}))
          for key, value in pairs(row[2]) do
            assert.is_true(rawequal(value, list[i][key]))
          end
        end

        -- results stand directly behind a message with as many calls, ids agree where both are there
        local i = 1
        while i <= #out do
          assert.is_not.equal("tool", out[i].role)
          local n = out[i].role == "assistant" and #(out[i].tool_calls or {}) or 0
          local ids = {}
          for _, call in ipairs(out[i].tool_calls or {}) do
            local id = is_usable(call.id) and tostring(call.id) or "none"
            ids[id] = (ids[id] or 0) + 1
          end
          for k = 1, n do
            local answer = out[i + k]
            assert.equal("tool", answer and answer.role)
            local id = is_usable(answer.tool_call_id) and tostring(answer.tool_call_id) or "none"
            if ids[id] then
              ids[id] = ids[id] - 1
              assert.truthy(ids[id] >= 0 or id == "none")
            end
          end
          assert.is_not.equal("tool", out[i + n + 1] and out[i + n + 1].role)
          i = i + n + 1
        end

        -- everything but results and empty messages is there once, in order
        local at, kept, made, seen = 1, 0, 0, {}
        for _, message in ipairs(out) do
          if message.compaction then
            made = made + 1
          else
            assert.is_nil(seen[message])
            seen[message] = true
            kept = kept + 1
          end
        end
        for _, message in ipairs(list) do
          local empty = message.role == "assistant"
            and message.content == ""
            and #(message.tool_calls or {}) == 0
          if message.role ~= "tool" and not empty then
            while out[at] and not rawequal(out[at], message) do
              at = at + 1
            end
            assert.truthy(out[at])
          end
        end
        local claimed = {}
        for k, message in ipairs(list) do
          if message.role == "tool" and is_usable(message.tool_call_id) and has_earlier_call(list, k) then
            local id = tostring(message.tool_call_id)
            claimed[id] = (claimed[id] or 0) + (seen[message] and 1 or 0)
            -- one that is missing had its call answered by another
            assert.truthy(seen[message] or claimed[id] > 0)
          end
        end
        assert.equal(#list - kept, report.dropped + report.duplicates + report.empty)
        assert.equal(made, report.placeholders + report.added)

        -- a second time, nothing
        local again, nothing = repair(out)
        assert.same(counts {}, nothing)
        assert.equal(#out, #again)
        for k = 1, #out do
          assert.is_true(rawequal(out[k], again[k]))
        end
      end
    end)
  end
end)

--
-- fit
--

-- Sizes that are easy: a message costs its bytes and 5, a result its bytes and 12.
local function bytes(text)
  return #text
end

local function size(list)
  return compaction.conversation(list, { estimator = bytes }):estimate(1, #list)
end

describe("fit", function()
  local s, old, ask = system(("s"):rep(95)), user(("o"):rep(95)), user(("q"):rep(95))
  local answer = { role = "assistant", content = ("a"):rep(95) }

  it("returns a list that fits as it is", function()
    local list = { s, old, answer, ask }
    local out, report = fit(list, 400, { estimator = bytes })
    assert.same(list, out)
    assert.same({ 400, 400, 400, 4, 0, 1 }, {
      report.before,
      report.after,
      report.limit,
      report.kept,
      report.dropped,
      report.keep_from,
    })
    assert.same(counts {}, report.repaired)
  end)

  it("drops oldest units and says so in one message", function()
    local list = { s, old, answer, ask }
    local out, report = fit(list, 399, { estimator = bytes, gap = ("g"):rep(20) })
    assert.equal(4, #out)
    assert.equal(s, out[1])
    assert.same({ role = "user", content = ("g"):rep(20), compaction = { version = 1, kept = 2 } }, out[2])
    assert.equal(answer, out[3])
    assert.equal(ask, out[4])
    assert.same(
      { 400, 325, 3, 1, 3 },
      { report.before, report.after, report.kept, report.dropped, report.keep_from }
    )
    out, report = fit(list, 399, { estimator = bytes, gap = false })
    assert.same({ s, answer, ask }, out)
    assert.equal(300, report.after)
    assert.is_string(fit(list, 399, { estimator = bytes })[2].content)
  end)

  it("leaves room for the reserve and the fixed part", function()
    local list = { s, old, answer, ask }
    assert.equal(4, #fit(list, 450, { estimator = bytes, reserve = 30, fixed = 20, gap = false }))
    assert.equal(3, #fit(list, 450, { estimator = bytes, reserve = 30, fixed = 21, gap = false }))
  end)

  it("carries the request over a chain of tool calls", function()
    local list = { s, old, ask }
    for i = 1, 20 do
      list[#list + 1] = calls("c" .. i)
      list[#list + 1] = result("c" .. i, ("r"):rep(80))
    end
    local out = fit(list, 700, { estimator = bytes, gap = false })
    assert.equal(s, out[1])
    assert.equal(ask, out[2])
    assert.equal("assistant", out[3].role)
    assert.truthy(size(out) <= 700 and size(out) > 590)
    assert.equal(list[#list], out[#out])
  end)

  it("fits to the token, and tells the limit as a whole number", function()
    local list = { { role = "developer", content = ("s"):rep(95) }, old, answer, ask }
    local out, report = fit(list, 300.0, { estimator = bytes, gap = false })
    assert.equal(3, #out)
    assert.equal(300, report.after)
    assert.equal("300", tostring(report.limit))
    assert.equal(2, #fit(list, 299, { estimator = bytes, gap = false }))
    assert.is_string(fit(list, 380, { estimator = bytes, gap = true })[2].content)
    assert.equal(3, #fit(list, 380, { estimator = bytes, gap = "" }))
  end)

  it("sizes by the model and the families that it is given", function()
    local text = ("naïve 漢字 "):rep(300)
    local list = { user(text), user(text), user "?" }
    local sizes = {}
    for _, options in ipairs {
      { model = "gpt-5" },
      { model = "claude-opus-4-8" },
      { model = "m", families = { m = "gpt-5" and "qwen" } },
    } do
      local _, report = fit(list, 1000000, options)
      assert.equal(compaction.conversation(list, options):estimate(1, 3), report.before)
      sizes[#sizes + 1] = report.before
    end
    assert.truthy(sizes[1] ~= sizes[2] and sizes[2] ~= sizes[3])
  end)

  it("cuts also where another role comes first", function()
    local critic = { role = "critic", content = ("n"):rep(391) }
    local list = { critic, user(("q"):rep(831)) }
    for i = 1, 3 do
      local usage = ({
        { input_tokens = 765, output_tokens = 221 },
        { input_tokens = 1867, output_tokens = 116 },
        { input_tokens = 2918, output_tokens = 311 },
      })[i]
      list[#list + 1] = { role = "assistant", content = ("a"):rep(623), usage = usage }
      list[#list + 1] = user(("b"):rep(859))
    end
    local out = fit(list, 2795, { estimator = "openai", gap = "g" })
    assert.truthy(#out > 3)
  end)

  it("is not misled by a null for native", function()
    for _, null in ipairs(nulls) do
      local list = {}
      for i = 1, 6 do
        list[i] = { role = "user", content = ("u"):rep(95), native = null.value }
      end
      assert.equal(2, #fit(list, 200, { estimator = bytes, gap = false }))
    end
  end)

  it("names the place in the caller's list and the function that was called", function()
    local ok, text = pcall(fit, { result "x", user "u", { role = "assistant", content = 5 } }, 100)
    assert.is_false(ok)
    assert.equal(
      "bad argument #1 to 'fit' (messages[3].content: string or list of parts expected, got number)",
      text
    )
  end)

  it("names the largest of what must stay", function()
    local list = { s, old, user(("q"):rep(500)), calls "c", result("c", ("r"):rep(300)) }
    assert.same({ "item", 3 }, { select(2, fit(list, 800, { estimator = bytes })) })
    list[5] = result("c", ("r"):rep(600))
    local out, reason, index = fit(list, 800, { estimator = bytes })
    assert.same({ nil, "item", 5 }, { out, reason, index })
    assert.same(
      { "item", 1 },
      { select(2, fit({ system(("s"):rep(900)), ask }, 800, { estimator = bytes })) }
    )
  end)

  it("repairs first, and speaks of the caller's list", function()
    local batch = calls("a", "b")
    local list = { result "x", old, batch, result("b", "bb"), ask, result("a", "aa") }
    local out, report = fit(list, 1000, { estimator = bytes })
    assert.same(counts { dropped = 1, moved = 1 }, report.repaired)
    assert.equal(5, #out)
    out, report = fit(list, 120, { estimator = bytes, gap = false })
    assert.equal(ask, out[1])
    assert.equal(5, report.keep_from)
    assert.equal(1, #out)
  end)

  it("does not take a message of an earlier compaction for the request", function()
    local gap = { role = "user", content = "gap", compaction = { version = 1, kept = 2 } }
    local list = { gap, { role = "assistant", content = ("a"):rep(300) }, answer }
    local out = fit(list, 150, { estimator = bytes, gap = "g" })
    assert.equal(2, #out)
    assert.equal(answer, out[2])
    -- and once more: the gap is replaced, not piled up
    out[#out + 1] = ask
    out[#out + 1] = { role = "assistant", content = ("b"):rep(95) }
    out = fit(out, 250, { estimator = bytes, gap = "g" })
    assert.equal(3, #out)
    assert.equal("g", out[1].content)
    assert.equal(ask, out[2])
  end)

  it("keeps messages of one native table together", function()
    local native = {
      { role = "user", content = "ask" },
      { role = "assistant", content = { { type = "tool_use", id = "c", name = "f", input = {} } } },
      {
        role = "user",
        content = {
          { type = "tool_result", tool_use_id = "c", content = ("r"):rep(300) },
          { type = "text", text = "And now?" },
        },
      },
    }
    local list = compaction.adapter.anthropic.to_messages(native)
    local out, reason, index = fit(list, 100, { estimator = bytes })
    assert.same({ nil, "item", 3 }, { out, reason, index })
  end)

  it("refuses what is wrong", function()
    local function fails(message, ...)
      local ok, text = pcall(fit, ...)
      assert.is_false(ok)
      assert.equal(message, text)
    end
    fails "bad argument #1 to 'fit' (table expected, got nil)"
    fails("bad argument #2 to 'fit' (tokens (a whole number) expected, got nil)", {})
    fails("bad argument #2 to 'fit' (tokens (a whole number) expected, got 1.5)", {}, 1.5)
    fails(
      "bad argument #3 to 'fit' (options.reserve: tokens (a whole number) expected, got -1)",
      {},
      100,
      { reserve = -1 }
    )
    fails(
      "bad argument #3 to 'fit' (unknown option 'keep' (known: estimator, families, fixed, gap, model, reserve))",
      {},
      100,
      { keep = 1 }
    )
    assert.has_error(function()
      fit({ { role = "user", content = 5 } }, 100)
    end)
  end)

  local function check_fit(damaged, limit, options)
    local list = repair(damaged) -- placeholders are then the same tables in each call
    local sizing = { estimator = options.estimator }
    local before = {}
    for i, message in ipairs(list) do
      before[i] = message
    end
    local out, report = fit(list, limit, options)
    assert.same(before, list)
    if not out then
      return false
    end
    local room = limit - (options.reserve or 0) - (options.fixed or 0)
    local c = compaction.conversation(out, sizing)
    local after = c:estimate(1, #out)
    assert.truthy(after <= room)
    assert.equal(after, report.after)
    local _, sound = repair(out)
    assert.same(counts {}, sound)
    -- the last request is there, once
    local whole = repair(list)
    local request
    for _, message in ipairs(whole) do
      request = message.role == "user" and not message.compaction and message or request
    end
    local n = 0
    for _, message in ipairs(out) do
      n = n + (rawequal(message, request) and 1 or 0)
    end
    assert.equal(request and 1 or 0, n)
    assert.is_true(whole[#whole].compaction ~= nil or rawequal(whole[#whole], out[#out]))
    -- one unit more would not fit
    local tail = 0
    while tail < #out and rawequal(out[#out - tail], whole[#whole - tail]) do
      tail = tail + 1
    end
    if report.dropped > 0 then
      local k = #whole - tail
      while k > 1 and whole[k].role ~= "user" and whole[k].role ~= "assistant" do
        k = k - 1
      end
      local more, front = {}, 0
      while
        whole[front + 1] and (whole[front + 1].role == "system" or whole[front + 1].role == "developer")
      do
        front = front + 1
        more[front] = whole[front]
      end
      if k > front + 1 then
        local carried = request
        for i = k, #whole do
          carried = not rawequal(whole[i], request) and carried or nil
        end
        local mark = out[front + 1]
        more[#more + 1] = mark.compaction
            and {
              role = "user",
              content = mark.content,
              compaction = { version = 1, kept = #whole - k + 1 + (carried and 1 or 0) },
            }
          or nil
        more[#more + 1] = carried
        for i = k, #whole do
          more[#more + 1] = whole[i]
        end
        assert.truthy(compaction.conversation(more, sizing):estimate(1, #more) > room)
      end
    end
    return true
  end

  it("keeps no less than it could, for random lists", function()
    local random, fitted = random_of(3), 0
    for _ = 1, 400 do
      local list = random_list(random)
      for _, message in ipairs(list) do
        message.content = ("w"):rep(random(200) + 1)
      end
      local options = {
        estimator = bytes,
        reserve = random(50),
        fixed = random(50),
        gap = random(2) == 0 and "gap" or false,
      }
      fitted = fitted + (check_fit(list, random(1500), options) and 1 or 0)
    end
    assert.truthy(fitted > 150)
  end)

  it("keeps no less than it could, for recorded conversations", function()
    for _, transcript in ipairs(transcripts.all()) do
      local all = compaction.conversation(transcript.messages):estimate(1, #transcript.messages)
      for _, share in ipairs { 0.2, 0.5, 0.9, 1.1 } do
        check_fit(transcript.messages, math.floor(all * share), {})
      end
    end
  end)
end)

describe("a summary in a list to fit", function()
  it("is no request: it is not carried over", function()
    local filler = ("word "):rep(200)
    local list = { { role = "user", content = "What was before.", compaction = { version = 1, kept = 4 } } }
    for i = 2, 6 do
      list[i] = { role = "assistant", content = filler .. i }
    end
    local out = assert(compaction.fit(list, 600, { gap = false }))
    assert.equal(list[#list], out[#out])
    for _, message in ipairs(out) do
      assert.are_not.equal(list[1], message)
    end
  end)
end)
