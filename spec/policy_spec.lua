local compaction = require "compaction"
local policy = compaction.policy

local LONG = ("one two three "):rep(300)

local function chat_of(given, turns)
  local chat = compaction.compactor {
    limit = 20000,
    summarizer_limit = 100000,
    policy = given,
    summarize = function()
      return "All went well."
    end,
  }
  for i = 1, turns do
    chat:append { role = "user", content = "Request " .. i }
    chat:append {
      role = "assistant",
      tool_calls = {
        { id = "c" .. i, ["function"] = { name = i % 2 == 0 and "even" or "odd", arguments = "{}" } },
      },
    }
    chat:append { role = "tool", tool_call_id = "c" .. i, content = LONG }
  end
  return chat
end

local function contents(chat)
  local list = {}
  for i, message in ipairs(chat:messages()) do
    list[i] = message.content or ""
  end
  return list
end

describe("a policy", function()
  it("of threshold compacts beyond a share of the window", function()
    assert.equal("none", chat_of(policy.threshold, 10):decide().action)
    local verdict = chat_of(policy.threshold { threshold = 0.3 }, 10):decide()
    assert.same({ "compact", "threshold" }, { verdict.action, verdict.reason })
  end)

  it("of turns compacts beyond so many", function()
    assert.equal("none", chat_of(policy.turns, 10):decide().action)
    assert.equal("turns", chat_of(policy.turns { turns = 9 }, 10):decide().reason)
  end)

  it("prunes old results but for protected tools, and twice changes nothing", function()
    local chat = chat_of(policy.prune_tool_results { keep = 2, protect = { "even" } }, 10)
    assert.equal("prune", chat:decide().action)
    local ok, report = chat:compact()
    assert.is_true(ok)
    assert.equal(3, report.first)
    local once = contents(chat)
    for i = 1, 10 do
      local whole = i % 2 == 0 or i > 8
      assert.equal(whole, once[3 * i] == LONG)
    end
    assert.equal("none", chat:decide().action)
    chat:compact()
    assert.same(once, contents(chat))
  end)

  it("of bytes replaces attachments, oldest first, and twice changes nothing", function()
    local chat = compaction.compactor { limit = 200000, policy = policy.bytes { bytes = 50000, keep = 2 } }
    local image = "data:image/png;base64," .. ("A"):rep(10000)
    for i = 1, 8 do
      chat:append {
        role = "user",
        content = {
          { type = "text", text = "Look " .. i },
          { type = "image_url", image_url = { url = image } },
        },
      }
      chat:append { role = "assistant", content = "Seen." }
    end
    local verdict = chat:decide()
    assert.same({ "prune", "bytes" }, { verdict.action, verdict.reason })
    local ok, report = chat:compact()
    assert.is_true(ok)
    assert.equal(1, report.first)
    local kept = {}
    for i, message in ipairs(chat:messages()) do
      for _, part in ipairs(type(message.content) == "table" and message.content or {}) do
        kept[#kept + 1] = part.type == "image_url" and i or nil
      end
    end
    assert.same({ 11, 13, 15 }, kept)
    assert.equal("none", chat:decide().action)
  end)

  it("of bytes compacts where attachments are not what is large", function()
    local chat = chat_of(policy.bytes { bytes = 1000 }, 10)
    local verdict = chat:decide()
    assert.same({ "compact", "bytes" }, { verdict.action, verdict.reason })
    assert.is_true(chat:compact())
  end)

  it("may prune too little: the plan goes on in the same call", function()
    local events = {}
    local chat = chat_of(function()
      return { action = "prune", indexes = { 3 } }
    end, 20)
    chat.on_event = function(event)
      events[#events + 1] = event.type == "planned" and event.verdict.action or event.type
    end
    assert.is_true(chat:compact())
    assert.same({ "prune", "applied", "compact", "chunk", "accepted", "applied" }, events)
    assert.is_true(chat:used() < 15000)
  end)

  it("can be swapped while the conversation lives", function()
    local chat = chat_of(policy.threshold, 10)
    assert.equal("none", chat:decide().action)
    chat:set_policy(policy.turns { turns = 5 })
    assert.equal("turns", chat:decide().reason)
    chat:set_policy(nil)
    assert.equal("none", chat:decide().action)
  end)

  it("that fails is named by its place", function()
    local chat = chat_of(function()
      error "no idea"
    end, 3)
    local wrong = chat:decide().policy_error
    assert.truthy(wrong:find "policy_spec.lua:%d+%) failed: .*no idea", wrong)
  end)

  it("by default prunes where that is cheap, else compacts", function()
    assert.equal("none", chat_of(policy.default, 5):decide().action)
    assert.equal("prune", chat_of(policy.default, 20):decide().action)
    assert.equal("compact", chat_of(policy.default { keep = 100 }, 20):decide().action)
  end)

  it("is the first opinion of several", function()
    local asked = {}
    local function opinion(name, decision)
      return function()
        asked[#asked + 1] = name
        return decision
      end
    end
    local chat = chat_of(
      policy.first { opinion "a", opinion("b", { action = "compact", reason = "b" }), opinion "c" },
      10
    )
    assert.equal("b", chat:decide().reason)
    assert.same({ "a", "b" }, asked)
  end)

  it("can be tried on a recorded conversation, which stays as it is", function()
    local messages = {}
    for i = 1, 40 do
      messages[2 * i - 1] = { role = "user", content = "Request " .. i .. LONG }
      messages[2 * i] = { role = "assistant", content = "Yes." }
    end
    local decisions = policy.simulate(policy.threshold { threshold = 0.5 }, messages, { limit = 20000 })
    assert.equal(40, #decisions)
    local compactions = 0
    for i, decision in ipairs(decisions) do
      assert.equal(2 * i, decision.index)
      if decision.action == "compact" then
        compactions = compactions + 1
        assert.is_true(decision.after < decision.used)
      else
        assert.equal(decision.used, decision.after)
      end
    end
    assert.is_true(compactions >= 2)
    assert.equal(80, #messages)
    assert.is_nil(messages[1].compaction)
  end)

  it("names wrong options", function()
    local ok, message = pcall(policy.turns, { trns = 5 })
    assert.is_false(ok)
    assert.truthy(message:find("bad argument #1 to 'turns' (unknown option 'trns'", 1, true))
  end)
end)
