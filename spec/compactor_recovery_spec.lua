-- What the compactor does when a request was refused, a summary can not be had, or nothing helps.
local compaction = require "compaction"
local chats = require "spec.support.chat"
local LONG, call, chat_of = chats.LONG, chats.call, chats.chat_of

local function long_text(words)
  return (words .. " "):rep(600)
end

describe("a refusal", function()
  it("lowers the output where that alone is too much", function()
    local chat = compaction.compactor { limit = 32768 }
    chat:append { role = "user", content = ("word "):rep(6000) }
    local advice = chat:overflowed(
      "This model's maximum context length is 32768 tokens. However, you requested 39246 tokens "
        .. "(6478 in the messages, 32768 in the completion). Please reduce the length of the messages or completion.",
      400
    )
    assert.equal("lower_output", advice.action)
    assert.equal(32768 - 6478, advice.output)
    assert.equal("none", chat:decide().action)
  end)

  it("with numbers is what was sent: used, limit, and a compaction", function()
    local chat = chat_of { limit = 200000 }
    local advice = chat:overflowed("prompt is too long: 21000 tokens > 20000 maximum", 400)
    assert.same({ "compact", 20000, 21000 }, { advice.action, advice.limit, advice.actual })
    assert.equal(21000, chat:used())
    assert.equal("compact", chat:decide().action)
    assert.is_true(chat:compact())
    assert.is_true(chat:used() < 20000)
  end)

  it("without numbers is believed to be of a window a little smaller", function()
    local chat = chat_of { limit = 200000 }
    local used = chat:used()
    chat:overflowed("Input is too long for requested model.", 400)
    assert.equal(math.floor(0.97 * used), chat:state().limit)
    assert.is_true(chat:compact())
  end)

  it("never lets the same request go out again, even if nothing can be summarised", function()
    local chat = compaction.compactor { limit = 100000 }
    chat:append { role = "user", content = LONG }
    local before = chat:messages()[1].content
    local advice = chat:overflowed("prompt is too long: 9000 tokens > 1000 maximum", 400)
    assert.is_true(advice.action == "compact" or advice.action == "shrink_item")
    assert.is_true(chat:compact())
    assert.is_true(#chat:messages()[1].content < #before)
  end)

  for _, words in ipairs {
    "prompt is too long: 9000 tokens > 150000 maximum", -- which it is not
    "prompt is too long: the maximum is 150000 tokens",
    "Input is too long for requested model.",
  } do
    it("is followed by a smaller request, whatever its numbers are: " .. words, function()
      local chat = compaction.compactor { limit = 200000 }
      chat:append { role = "user", content = LONG:rep(3) }
      local before = chat:used()
      chat:overflowed(words, 400)
      assert.is_true(chat:compact())
      assert.is_true(chat:used() < 0.97 * math.max(before, 9000))
    end)
  end

  for _, words in ipairs {
    "prompt is too long: 99999999999999999999 tokens > 1 maximum",
    "prompt is too long: 0 tokens > 0 maximum",
    "prompt is too long: 5 tokens > 200000 maximum",
    "prompt is too long: 1e999 tokens > nan maximum",
  } do
    it("with numbers that can not be is one without: " .. words, function()
      local chat = chat_of { limit = 200000 }
      local used = chat:used()
      assert.equal("compact", chat:overflowed(words, 400).action)
      assert.equal(math.floor(0.97 * used), chat:state().limit)
      assert.is_true(chat:compact())
    end)
  end

  it("of a body names the media that can go", function()
    local chat = compaction.compactor { limit = 100000 }
    chat:append {
      { role = "user", content = "Look." },
      {
        role = "user",
        content = { { type = "image_url", image_url = { url = "data:image/png;base64,AAAA" } } },
      },
      { role = "assistant", content = "A cat." },
    }
    local advice =
      chat:overflowed("messages.1.content.0.image.source.base64: image exceeds 5 MB maximum", 400)
    assert.same({ "shrink_item", 2 }, { advice.action, advice.item })
  end)

  it("of the order of messages is mended by repair", function()
    local chat = chat_of()
    chat:append { role = "tool", tool_call_id = "nobody", content = "?" }
    assert.equal(
      "repair",
      chat:overflowed("tool_use ids were found without tool_result blocks immediately after", 400).action
    )
    local report = chat:repair()
    local moved = 0
    for _, n in pairs(report) do
      moved = moved + n
    end
    assert.is_true(moved > 0)
    for _, message in ipairs(chat:messages()) do
      assert.not_equal("nobody", message.tool_call_id)
    end
    assert.equal(#chat:messages(), chat:state().count)
  end)

  it("is of one model: the other keeps its window", function()
    local chat = chat_of { limit = 200000, model = "claude-opus-4-8" }
    chat:overflowed("prompt is too long: 21000 tokens > 20000 maximum", 400)
    assert.equal(20000, chat:state().limit)
    chat:set_model("gpt-5", 400000)
    assert.equal(400000, chat:state().limit)
    assert.equal("gpt-5", chat:state().model)
    assert.equal(400000, chat.history.conversation:calibration().limit)
    chat:set_model "claude-opus-4-8"
    assert.equal(20000, chat:state().limit)
    chat:set_model("claude-opus-4-8", 200000) -- what was refused is not made true by saying it again
    assert.equal(20000, chat:state().limit)
  end)
end)

describe("without a summary", function()
  it("nothing changes while the next request fits", function()
    local chat = chat_of({
      limit = 200000,
      summarize = function()
        return nil, "connection lost"
      end,
    }, 10)
    local before = chat:messages()
    local ok, reason = chat:compact { force = true }
    assert.is_nil(ok)
    assert.equal("connection lost", reason)
    assert.same(before, chat:messages())
  end)

  it("the range is replaced by what is known of it where the next request would not fit", function()
    local chat, events = chat_of {
      summarize = function()
        return { content = "Cut", finish_reason = "length" }
      end,
    }
    local ok, report = chat:compact()
    assert.is_true(ok)
    assert.equal("truncated", report.reason)
    assert.is_true(report.after < report.before)
    local content = chat:messages()[2].content
    assert.truthy(content:find("Request 1.", 1, true))
    assert.same({ "planned", "chunk", "refused", "applied" }, events)
  end)

  it("the newest request is in what is sent, whatever happens", function()
    for _, turns in ipairs { 1, 3, 30 } do
      local chat = chat_of({ limit = 6000, summarize = "none" }, turns)
      chat:compact()
      local found = false
      for _, message in ipairs(chat:messages()) do
        found = found
          or message.role == "user" and (message.content:find("Request " .. turns, 1, true) ~= nil)
      end
      assert.is_true(found)
    end
  end)
end)

describe("two compactions that free nothing", function()
  it("are followed by no third one, until the conversation changes", function()
    local chat, events = chat_of({}, 0)
    chat:append { role = "user", content = "Hello." }
    -- a provider that reports what would have been sent without any compaction
    local prompt = 20
    local function exchange()
      chat:append {
        role = "assistant",
        content = "Well.",
        usage = { input_tokens = prompt, output_tokens = 2 },
      }
      chat:append { role = "user", content = LONG }
      local verdict = chat:decide()
      prompt = verdict.used
      return verdict
    end
    local compactions = 0
    local verdict
    for _ = 1, 20 do
      verdict = exchange()
      if verdict.action == "stuck" then
        break
      end
      compactions = compactions + (chat:compact() and 1 or 0)
    end
    assert.same({ "stuck", "no_progress", 2 }, { verdict.action, verdict.reason, compactions })
    local ok, reason = chat:compact()
    if reason ~= "no_progress" then -- the ladder's, where the next request would not fit
      assert.is_true(ok)
      assert.is_nil(reason.summary)
    end
    assert.equal("applied", events[#events])
    chat:append { role = "assistant", content = "So." }
    chat:append { role = "user", content = LONG:rep(4) }
    assert.not_equal("no_progress", chat:decide().reason)
  end)
end)

describe("a huge message that was never counted", function()
  it("leaves room beside the summary", function()
    local chat = chat_of({ limit = 20000 }, 10)
    chat:append(call("big", "big.txt"))
    chat:append { role = "tool", tool_call_id = "big", content = long_text "alpha beta gamma" .. LONG:rep(5) }
    assert.is_true(chat:compact())
    local messages = chat:messages()
    assert.truthy(messages[#messages].content:find("bytes left out", 1, true))
    assert.is_true(chat:used() < 0.8 * 20000)
  end)

  it("makes a prompt too risky to send where sizes were off before", function()
    local chat = compaction.compactor { limit = 20000 }
    local function exchange(i, result, prompt)
      chat:append(call("c" .. i, "x"))
      chat:append { role = "tool", tool_call_id = "c" .. i, content = result }
      chat:append {
        role = "assistant",
        content = "Seen.",
        usage = { input_tokens = prompt, output_tokens = 5 },
      }
    end
    chat:append { role = "user", content = "Read them." }
    chat:append { role = "assistant", content = "Yes.", usage = { input_tokens = 1000, output_tokens = 5 } }
    local size = compaction.estimate_text_tokens(LONG)
    exchange(1, LONG, 1000 + 2 * size) -- twice of what it looks like
    local before = chat:used()
    chat:append(call("next", "y"))
    chat:append { role = "tool", tool_call_id = "next", content = LONG:rep(3) }
    assert.is_true(before < chat:used() and chat:used() < 0.9 * 20000)
    assert.not_equal("none", chat:decide().action)
    assert.is_true(chat:compact())
    assert.equal("none", chat:decide().action)
  end)
end)

describe("a window that a server clips in silence", function()
  local function with_prompts(prompts)
    local chat = compaction.compactor { limit = 50000 }
    chat:append { role = "user", content = "Begin." }
    for _, prompt in ipairs(prompts) do
      chat:append { role = "assistant", content = "Yes.", usage = { input_tokens = prompt, output_tokens = 5 } }
      chat:append { role = "user", content = LONG }
    end
    return chat:state().limit
  end

  it("is learned from three equal prompts, not from two", function()
    assert.equal(50000, with_prompts { 30000, 32768, 32768, 36000 })
    assert.equal(32768, with_prompts { 30000, 32768, 32768, 32768 })
  end)
end)
