local compaction = require "compaction"
local agent = require "spec.support.agent"

local chats = require "spec.support.chat"
local LONG, call, chat_of = chats.LONG, chats.call, chats.chat_of

local function copy_of(list)
  local copy = {}
  for i, message in ipairs(list) do
    copy[i] = message
  end
  return copy
end

describe("a compactor", function()
  it("compacts: system messages, summary, the request, what was kept, by identity", function()
    local chat, events = chat_of()
    local before = copy_of(chat:messages())
    local verdict = chat:decide()
    assert.equal("compact", verdict.action)
    local ok, report = chat:compact()
    assert.is_true(ok)
    local messages = chat:messages()
    assert.equal(before[1], messages[1])
    assert.equal("user", messages[2].role)
    assert.equal(1, messages[2].compaction.version)
    assert.truthy(messages[2].content:find("All went well.", 1, true))
    assert.equal(before[#before], messages[#messages])
    assert.equal(before[#before - 1], messages[#messages - 1])
    assert.equal(#before - report.dropped + 1, #messages)
    assert.is_true(report.after < verdict.trigger)
    assert.equal(chat:used(), report.after)
    assert.same({ "planned", "chunk", "accepted", "applied" }, events)
  end)

  it("holds the facts beside the prose, from round to round", function()
    local chat = chat_of()
    for round = 1, 4 do
      assert.is_true(chat:compact { force = true })
      for i = 1, 8 do
        chat:append { role = "user", content = ("More %d.%d "):format(round, i) .. LONG }
        chat:append { role = "assistant", content = "Yes." }
      end
    end
    local content = chat:messages()[2].content
    assert.truthy(content:find("src/file1.lua", 1, true))
    assert.truthy(content:find("error: it broke", 1, true))
  end)

  it("sends the conversation as text, within the summariser's window, in chunks", function()
    local sizes, chunks = {}, nil
    local chat = chat_of({
      summarizer_limit = 4000,
      summarize = function(request)
        assert.equal(1, #request.messages)
        chunks = request.chunks
        sizes[#sizes + 1] = compaction.estimate_text_tokens(
          request.system .. request.messages[1].content .. request.user
        ) + request.max_tokens
        return "Summary " .. request.chunk
      end,
    }, 12)
    assert.is_true(chat:compact())
    assert.is_true(chunks > 1)
    assert.equal(chunks, #sizes)
    for _, size in ipairs(sizes) do
      assert.is_true(size <= 4000)
    end
  end)

  local REFUSED = {
    { "empty", { content = " \n" } },
    { "reasoning_only", { content = "", reasoning_content = "Hm." } },
    { "tool_call", { content = "x", tool_calls = { { id = "a" } } } },
    { "truncated", { content = "It was", finish_reason = "length" } },
    { "too_long", { content = LONG:rep(3) } },
    { "not_a_reply", 5 },
  }
  for _, case in ipairs(REFUSED) do
    it("refuses a reply that is " .. case[1], function()
      local chat = chat_of()
      local before = chat:messages()
      local job = assert(chat:prepare())
      local ok, reason = chat:apply(job, case[2])
      assert.is_nil(ok)
      assert.equal(case[1], reason)
      assert.same(before, chat:messages())
      assert.is_true(chat:apply(job, "It is done."))
    end)
  end

  it("refuses a summary with the older one in it", function()
    local earlier = ("The parser was mended in many places. "):rep(10)
    local chat = chat_of {
      summarize = function()
        return earlier
      end,
    }
    assert.is_true(chat:compact())
    for i = 1, 10 do
      chat:append { role = "user", content = "Again " .. i .. LONG }
      chat:append { role = "assistant", content = LONG }
    end
    local job = assert(chat:prepare())
    local ok, reason = chat:apply(job, "Now. " .. earlier)
    assert.is_nil(ok)
    assert.equal("nested", reason)
  end)

  it("knows when a job was overtaken", function()
    local chat = chat_of()
    local late = assert(chat:prepare())
    assert.is_true(chat:compact())
    local ok, reason = chat:apply(late, "Too late.")
    assert.is_nil(ok)
    assert.equal("changed", reason)
  end)

  it("keeps messages that are appended meanwhile, and counts done once", function()
    local done, outcomes = nil, {}
    local chat = chat_of {
      summarize = function(_, answer)
        done = answer
      end,
    }
    chat:compact(function(ok, outcome)
      outcomes[#outcomes + 1] = { ok, outcome }
    end)
    assert.is_true(chat:state().busy)
    local newer = { role = "assistant", content = "Meanwhile." }
    chat:append(newer)
    local ok, reason = chat:compact()
    assert.is_nil(ok)
    assert.equal("busy", reason)
    done "Done."
    done "Done twice."
    assert.equal(1, #outcomes)
    assert.is_true(outcomes[1][1])
    local messages = chat:messages()
    assert.equal(newer, messages[#messages])
    assert.is_false(chat:state().busy)
  end)

  it("waits for calls that are pending", function()
    local chat = chat_of()
    chat:append(call("late", "a.lua"))
    assert.equal("defer", chat:decide().action)
    local ok, reason = chat:compact()
    assert.is_nil(ok)
    assert.equal("pending", reason)
  end)

  it("needs no model: strictly smaller, with a reason", function()
    local chat = chat_of { summarize = "none" }
    local ok, report = chat:compact()
    assert.is_true(ok)
    assert.is_true(report.after < report.before)
    for _, step in ipairs(report.steps) do
      assert.is_true(step.after < step.before)
    end
    assert.truthy(chat:messages()[#chat:messages() - 2].content:find("Request 10", 1, true))
  end)

  it("cuts one item that is too large, and leaves the original alone", function()
    local chat = chat_of(nil, 1)
    local big = { role = "tool", tool_call_id = "big", content = LONG:rep(20) }
    chat:append(call("big", "big.txt"))
    chat:append(big)
    assert.same({ "stuck", "item" }, { chat:decide().action, chat:decide().reason })
    local ok, report = chat:compact()
    assert.is_true(ok)
    assert.equal("cap", report.steps[1].step)
    local messages = chat:messages()
    assert.is_true(#messages[#messages].content < #big.content)
    assert.truthy(messages[#messages].content:find("bytes left out", 1, true))
    assert.equal(#LONG * 20, #big.content)
    assert.is_true(report.first <= #messages)
    assert.is_true(report.behind > 0)
  end)

  it("says what to do about each kind of error", function()
    local cases = {
      { "prompt is too long: 21000 tokens > 19000 maximum", 400, "compact" },
      { "Rate limit reached, please try again in 20s", 429, "wait" },
      { "tool_use ids were found without tool_result blocks immediately after", 400, "repair" },
      { "connection refused", nil, "none" },
    }
    for _, case in ipairs(cases) do
      local chat = chat_of()
      local advice = chat:overflowed(case[1], case[2])
      assert.equal(case[3], advice.action, case[1])
    end
    local chat = chat_of()
    assert.equal(19000, chat:overflowed(cases[1][1], 400).limit)
    assert.equal(19000, chat:state().limit)
  end)

  it("reports a policy that fails or talks nonsense, and goes on", function()
    for _, policy in ipairs {
      function()
        error "no idea"
      end,
      function()
        return { action = "explode" }
      end,
      function(state)
        state.used = 0
      end,
    } do
      local chat, events = chat_of { policy = policy }
      local verdict = chat:decide()
      assert.equal("compact", verdict.action)
      assert.is_string(verdict.policy_error)
      assert.equal("policy_failed", events[1])
    end
  end)

  it("looks at a message when it comes, not at every one that follows", function()
    local reads = 0
    local said = { role = "user", content = "Hello." }
    local message = setmetatable({}, {
      __index = function(_, key)
        reads = reads + (key == "usage" and 1 or 0)
        return said[key]
      end,
    })
    local chat = compaction.compactor { limit = 200000 }
    chat:append(message)
    local once = reads
    for i = 1, 100 do
      chat:append { role = "user", content = "And " .. i }
      chat:decide()
    end
    assert.is_true(reads <= once + 1)
  end)

  it("names wrong arguments with their place", function()
    local function message_of(...)
      local ok, message = pcall(...)
      assert.is_false(ok)
      return message
    end
    assert.truthy(message_of(compaction.compactor, { limt = 5 }):find("unknown option 'limt'", 1, true))
    assert.truthy(message_of(compaction.compactor, { shape = "x" }):find("unknown shape 'x'", 1, true))
    local chat = chat_of()
    assert.truthy(message_of(chat.append, chat, 5):find("bad argument #1 to 'append'", 1, true))
    assert.truthy(message_of(chat.apply, chat, 5, "x"):find("job expected", 1, true))
    assert.truthy(message_of(chat.compact, chat, 5):find("function expected", 1, true))
  end)
end)

describe("an agent against a simulated provider", function()
  local EARLY = { clips = 5, no_usage = 1, smaller = 2, smaller_untold = 4 }
  local WIRES = { "openai", "responses", "anthropic", "gemini", "bedrock" }
  local faults = {}
  for fault in pairs(agent.FAULTS) do
    faults[#faults + 1] = fault
  end
  table.sort(faults)
  for k, fault in ipairs(faults) do
    it("keeps its conversation: " .. fault, function()
      local n = agent.run {
        window = 32768,
        ratio = 2 + k % 4,
        wire = WIRES[k % #WIRES + 1],
        fault = fault,
        turns = 150,
        seed = k,
      }
      assert.is_true(n.over <= (EARLY[fault] or 0), fault)
      for _, count in ipairs { "unrecovered", "broken", "lost", "idle", "no_gain" } do
        assert.equal(0, n[count], count)
      end
      assert.is_nil(n.dead)
    end)
  end
end)
