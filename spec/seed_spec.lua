-- Each line of the rules that the seed functions promise, by name.
local compaction = require "compaction"
local estimate = compaction.estimate_message_tokens

local function text(bytes)
  return ("x"):rep(bytes)
end

local function message(role, bytes, extra)
  local m = { role = role, content = text(bytes or 0) }
  for k, v in pairs(extra or {}) do
    m[k] = v
  end
  return m
end

local function anchor(prompt, output, extra)
  local m = message("assistant", 0, extra)
  m.usage = { input_tokens = prompt, output_tokens = output }
  return m
end

describe("the heuristic size of a message", function()
  it("is 5 for an empty message", function()
    assert.equal(5, estimate { role = "user" })
    assert.equal(5, estimate { role = "user", content = "" })
    assert.equal(5, estimate {})
  end)

  it("cuts bytes / 3.5 towards zero", function()
    local sizes = { [0] = 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3 }
    for bytes = 0, #sizes do
      assert.equal(5 + sizes[bytes], estimate(message("user", bytes)))
    end
    assert.equal(5 + 285714, estimate(message("user", 1000000)))
  end)

  it("counts bytes, not characters", function()
    assert.equal(
      5 + 6,
      estimate {
        role = "user",
        content = "\208\180\208\176\208\189\208\189\209\139\208\181 \240\159\152\128\226\130\172\194\181",
      }
    )
    assert.equal(5 + 2, estimate { role = "user", content = "\0\255\0\254\0\253\0" })
  end)

  it("counts content, reasoning, texts and calls", function()
    assert.equal(5 + 10, estimate { role = "assistant", content = text(35) })
    assert.equal(5 + 10, estimate { role = "assistant", reasoning_content = text(35) })
    assert.equal(
      5 + 10,
      estimate { role = "user", multi_content = { { type = "text", text = text(30) }, { text = text(5) } } }
    )
    assert.equal(
      5 + 10,
      estimate {
        role = "user",
        multi_content = { { type = "document", document = { source = { inline_text = text(35) } } } },
      }
    )
    assert.equal(
      5 + 10,
      estimate {
        role = "assistant",
        tool_calls = {
          { id = text(99), ["function"] = { name = text(4), arguments = text(20) } },
          { ["function"] = { name = text(11) } },
        },
      }
    )
    assert.equal(
      5 + 10,
      estimate { role = "assistant", function_call = { name = text(14), arguments = text(21) } }
    )
  end)

  it("leaves a list's fields of other roles alone", function()
    assert.equal(7, estimate { role = "critic", content = text(7), {} })
    assert.equal(7, estimate { role = "user", content = text(7), {} })
  end)

  it("adds up all of them before it divides", function()
    assert.equal(
      5 + 4,
      estimate {
        role = "assistant",
        content = text(2),
        reasoning_content = text(2),
        multi_content = { { text = text(2) }, { document = { source = { inline_text = text(2) } } } },
        tool_calls = { { ["function"] = { name = text(2), arguments = text(2) } } },
        function_call = { name = text(2), arguments = text(2) },
      }
    )
  end)

  it("counts no other field", function()
    assert.equal(
      5,
      estimate {
        role = "tool",
        tool_call_id = text(99),
        name = text(99),
        id = text(99),
        arguments = text(99),
        text = text(99),
      }
    )
    assert.equal(
      5,
      estimate {
        role = "user",
        multi_content = {
          { type = text(99), detail = text(99), document = { name = text(99), mime_type = text(99) } },
        },
      }
    )
  end)

  it("adds 1500 for an image, a file, or a document's data", function()
    assert.equal(1505, estimate { role = "user", multi_content = { { image_url = { url = text(9999) } } } })
    assert.equal(
      1505,
      estimate { role = "user", multi_content = { { image_url = "https://example.org/a.png" } } }
    )
    assert.equal(1505, estimate { role = "user", multi_content = { { file = { path = "a.pdf" } } } })
    assert.equal(
      1505,
      estimate { role = "user", multi_content = { { document = { source = { inline_data = text(9999) } } } } }
    )
    assert.equal(
      5,
      estimate { role = "user", multi_content = { { document = { source = { inline_data = "" } } } } }
    )
  end)

  it("counts one attachment for a part with an image and a file, and its document beside it", function()
    assert.equal(1505, estimate { role = "user", multi_content = { { image_url = {}, file = {} } } })
    assert.equal(
      3005,
      estimate {
        role = "user",
        multi_content = { { image_url = {}, file = {}, document = { source = { inline_data = "x" } } } },
      }
    )
    assert.equal(3005, estimate { role = "user", multi_content = { { image_url = {} }, { file = {} } } })
  end)

  it("takes the text and the data of one document", function()
    assert.equal(
      1507,
      estimate {
        role = "user",
        multi_content = { { document = { source = { inline_text = text(7), inline_data = "x" } } } },
      }
    )
  end)

  it("reads content that is a list of parts as multi_content", function()
    local parts = { { type = "text", text = text(35) }, { type = "image_url", image_url = { url = "u" } } }
    assert.equal(1515, estimate { role = "user", content = parts })
    assert.equal(3025, estimate { role = "user", content = parts, multi_content = parts })
    assert.equal(5, estimate { role = "user", content = {} })
  end)
end)

describe("the reported size of a message", function()
  local function reported(usage, extra)
    local m = message("assistant", 350, extra)
    m.usage = usage
    return estimate(m)
  end

  it("is the output and 5", function()
    assert.equal(55, reported { output_tokens = 50 })
  end)

  it("leaves out reasoning that is not stored", function()
    assert.equal(35, reported { output_tokens = 50, reasoning_tokens = 20 })
    assert.equal(35, reported({ output_tokens = 50, reasoning_tokens = 20 }, { reasoning_content = "" }))
    assert.equal(55, reported({ output_tokens = 50, reasoning_tokens = 20 }, { reasoning_content = "r" }))
  end)

  it("gives way to the heuristic where nothing is left", function()
    assert.equal(105, reported { output_tokens = 0 })
    assert.equal(105, reported { output_tokens = 20, reasoning_tokens = 20 })
    assert.equal(105, reported { output_tokens = 20, reasoning_tokens = 21 })
    assert.equal(6, reported { output_tokens = 21, reasoning_tokens = 20 })
    assert.equal(105, reported { output_tokens = -7 })
    assert.equal(105, reported {})
  end)

  it("counts for every role", function()
    assert.equal(55, estimate { role = "tool", content = text(35), usage = { output_tokens = 50 } })
    assert.equal(55, estimate { role = "stranger", content = text(35), usage = { output_tokens = 50 } })
  end)

  it("is never scaled", function()
    local estimator = compaction.new_estimator { anchor(100, 10), message("tool", 3500), anchor(5000, 10) }
    assert.equal(2, estimator:scale())
    assert.equal(55, estimator:estimate_message_tokens { role = "assistant", usage = { output_tokens = 50 } })
    assert.equal(2 * 105, estimator:estimate_message_tokens(message("user", 350)))
  end)
end)

describe("calibration", function()
  local function scale(...)
    return compaction.new_estimator({ ... }):scale()
  end

  -- 3500 bytes: 1005 tokens by the heuristic
  local tool = message("tool", 3500)

  it("is 1 without a window", function()
    assert.equal(1, scale())
    assert.equal(1, scale(tool, tool))
    assert.equal(1, scale(anchor(100, 10), tool))
    assert.equal(1, scale(tool, anchor(5000, 10)))
  end)

  it("compares what was charged with what was guessed", function()
    assert.equal(1206 / 1005, scale(anchor(100, 10), tool, anchor(110 + 1206, 10)))
  end)

  it("takes every prompt count into the prompt of an anchor", function()
    local a = {
      role = "assistant",
      usage = { input_tokens = 40, cached_input_tokens = 50, cached_write_tokens = 10, output_tokens = 10 },
    }
    local b = {
      role = "assistant",
      usage = { input_tokens = 6, cached_input_tokens = 1000, cached_write_tokens = 310, output_tokens = 10 },
    }
    assert.equal(1206 / 1005, scale(a, tool, b))
  end)

  it("lets any role be an anchor, by its prompt alone", function()
    local a = { role = "other", usage = { cached_input_tokens = 110 } }
    local b = { role = "user", usage = { cached_write_tokens = 110 + 1206 } }
    assert.equal(1206 / 1005, scale(a, tool, b))
    assert.equal(1, scale({ role = "assistant", usage = { input_tokens = 0, output_tokens = 10 } }, tool, b))
  end)

  it("takes reasoning off the anchor, stored or not", function()
    local usage = { input_tokens = 100, output_tokens = 30, reasoning_tokens = 20 }
    local stored = { role = "assistant", reasoning_content = text(70), usage = usage }
    local dropped = { role = "assistant", usage = usage }
    assert.equal(1206 / 1005, scale(stored, tool, anchor(110 + 1206, 1)))
    assert.equal(1206 / 1005, scale(dropped, tool, anchor(110 + 1206, 1)))
  end)

  it("never takes an answer below nothing", function()
    local a =
      { role = "assistant", usage = { input_tokens = 110, output_tokens = 20, reasoning_tokens = 90 } }
    assert.equal(1206 / 1005, scale(a, tool, anchor(110 + 1206, 1)))
  end)

  it("takes messages with a reported size out of both sides", function()
    local told = { role = "assistant", content = text(7000), usage = { output_tokens = 195 } }
    assert.equal(1206 / 1005, scale(anchor(100, 10), told, tool, anchor(110 + 200 + 1206, 10)))
  end)

  it("adds windows up", function()
    assert.equal(
      (1206 + 1400) / 2010,
      scale(anchor(100, 10), tool, anchor(1316, 4), tool, anchor(1320 + 1400, 1))
    )
  end)

  it("discards windows in which nothing was charged", function()
    local good = { anchor(100, 10), tool, anchor(110 + 1206, 10) }
    assert.equal(1206 / 1005, scale(good[1], good[2], good[3], tool, anchor(1326, 10)))
    assert.equal(1206 / 1005, scale(good[1], good[2], good[3], tool, anchor(500, 10)))
    assert.equal(1, scale(anchor(100, 10), anchor(2000, 10), anchor(4000, 10)))
  end)

  it("goes on from the newer anchor after a discarded window", function()
    assert.equal(1206 / 1005, scale(anchor(9000, 10), tool, anchor(100, 10), tool, anchor(110 + 1206, 10)))
  end)

  it("discards windows between two models", function()
    local function named(prompt, model)
      return anchor(prompt, 10, { model = model })
    end
    assert.equal(1, scale(named(100, "a"), tool, named(1316, "b")))
    assert.equal(1206 / 1005, scale(named(100, "a"), tool, named(1316, "a")))
    assert.equal(1206 / 1005, scale(named(100, ""), tool, named(1316, "b")))
    assert.equal(1206 / 1005, scale(named(100, "a"), tool, named(1316, nil)))
    assert.equal(
      1,
      scale(named(100, "anthropic/claude-sonnet-4.5"), tool, named(1316, "anthropic/claude-sonnet-4.6"))
    )
  end)

  it("looks at the anchors' models only", function()
    local a = anchor(100, 10, { model = "a" })
    local b = anchor(1316, 10, { model = "a" })
    assert.equal(1206 / 1005, scale(a, message("tool", 3500, { model = "b" }), b))
  end)

  it("needs 512 guessed tokens", function()
    local below, enough = message("tool", 1771), message("tool", 1775) -- 511 and 512
    assert.equal(1, scale(anchor(100, 10), below, anchor(110 + 766, 10)))
    assert.equal(768 / 512, scale(anchor(100, 10), enough, anchor(110 + 768, 10)))
  end)

  it("stays between 0.75 and 2", function()
    assert.equal(0.75, scale(anchor(100, 10), tool, anchor(110 + 700, 10)))
    assert.equal(754 / 1005, scale(anchor(100, 10), tool, anchor(110 + 754, 10)))
    assert.equal(0.75, scale(anchor(100, 10), tool, anchor(110 + 753, 10)))
    assert.equal(2009 / 1005, scale(anchor(100, 10), tool, anchor(110 + 2009, 10)))
    assert.equal(2, scale(anchor(100, 10), tool, anchor(110 + 2011, 10)))
  end)

  it("cuts a scaled size towards zero", function()
    local estimator = compaction.new_estimator { anchor(100, 10), tool, anchor(110 + 1206, 10) }
    assert.equal(math.floor(105 * 1206 / 1005), estimator:estimate_message_tokens(message("user", 350)))
    assert.equal(math.floor(6 * 1.2), estimator:estimate_message_tokens(message("user", 4)))
  end)
end)

describe("new_estimator", function()
  local messages = { anchor(100, 10), message("tool", 3500), anchor(1316, 10) }

  it("takes a list, or an iterator as for does", function()
    local expected = compaction.new_slice_estimator(messages):scale()
    assert.equal(1.2, expected)
    assert.equal(expected, compaction.new_estimator(messages):scale())
    assert.equal(expected, compaction.new_estimator(ipairs(messages)):scale())
    assert.equal(expected, compaction.new_estimator(next, messages):scale())
    local i = 0
    assert.equal(
      expected,
      compaction
        .new_estimator(function()
          i = i + 1
          return messages[i]
        end)
        :scale()
    )
  end)

  it("stops at a nil control value, and not at false", function()
    local steps = 0
    compaction.new_estimator(function()
      steps = steps + 1
      if steps < 4 then
        return false, messages[steps]
      end
    end)
    assert.equal(4, steps)
  end)

  it("takes the second value for the message, and nothing else then", function()
    local ok, complaint = pcall(compaction.new_estimator, function()
      return messages[1], 5
    end)
    assert.is_false(ok)
    assert.equal("bad argument #1 to 'new_estimator' (messages[1]: table expected, got number)", complaint)
    assert.equal(1.2, compaction.new_estimator(next, messages, nil, "extra"):scale())
    assert.has_error(function()
      compaction.new_estimator(ipairs { { role = "user" }, 7 })
    end)
  end)

  it("keeps its scale exactly", function()
    local estimator = compaction.new_estimator(messages)
    assert.equal(
      math.floor((math.floor(10 ^ 7 / 3.5) + 5) * 1.2),
      estimator:estimate_message_tokens(message("user", 10 ^ 7))
    )
  end)

  it("hands state and control to the iterator", function()
    local seen = {}
    compaction.new_estimator(function(state, control)
      seen[#seen + 1] = { state, control }
      if control < 2 then
        return control + 1, messages[control + 1]
      end
    end, "state", 0)
    assert.same({ { "state", 0 }, { "state", 1 }, { "state", 2 } }, seen)
  end)

  it("lets an iterator's error pass", function()
    assert.has_error(function()
      compaction.new_estimator(function()
        error("mine", 0)
      end)
    end, "mine")
  end)

  it("is neutral for an empty list", function()
    assert.equal(1, compaction.new_estimator({}):scale())
    assert.equal(105, compaction.new_estimator({}):estimate_message_tokens(message("user", 350)))
  end)

  it("prints its scale", function()
    assert.equal("compaction.Estimator(scale 1.20)", tostring(compaction.new_estimator(messages)))
    assert.equal("compaction.Estimator(scale 1.00)", tostring(compaction.new_estimator {}))
    assert.equal(
      "compaction.Estimator(scale 0.75)",
      tostring(compaction.new_estimator { anchor(100, 10), message("tool", 3500), anchor(120, 10) })
    )
    assert.equal(
      "compaction.Estimator(scale 1.51)",
      tostring(compaction.new_estimator { anchor(100, 10), message("tool", 3500), anchor(110 + 1513, 10) })
    )
  end)

  it("keeps what it learned when the list changes", function()
    local list = { messages[1], messages[2], messages[3] }
    local estimator = compaction.new_estimator(list)
    list[3] = nil
    assert.equal(1.2, estimator:scale())
  end)
end)

describe("should_compact", function()
  local should = compaction.should_compact

  it("says yes above the threshold, not at it", function()
    assert.is_false(should(90000, 0, 0, 100000, 0.9))
    assert.is_true(should(90001, 0, 0, 100000, 0.9))
    assert.is_true(should(45000, 45000, 1, 100000, 0.9))
  end)

  it("cuts limit × threshold towards zero", function()
    assert.is_false(should(4, 0, 0, 9, 0.5))
    assert.is_true(should(5, 0, 0, 9, 0.5))
  end)

  it("uses 0.9 for thresholds outside (0, 1]", function()
    for _, threshold in ipairs { 0, -1, 1.0001, 5, 0 / 0, 1 / 0, -1 / 0 } do
      assert.is_false(should(90, 0, 0, 100, threshold))
      assert.is_true(should(91, 0, 0, 100, threshold))
    end
    assert.is_false(should(90, 0, 0, 100))
    assert.is_true(should(91, 0, 0, 100))
    assert.is_true(should(91, 0, 0, 100, nil))
    assert.equal(0.9, compaction.DEFAULT_THRESHOLD)
  end)

  it("takes a threshold of 1", function()
    assert.is_false(should(100, 0, 0, 100, 1))
    assert.is_true(should(101, 0, 0, 100, 1))
  end)

  it("says no without a limit", function()
    assert.is_false(should(1e9, 1e9, 1e9, 0, 0.9))
    assert.is_false(should(1e9, 1e9, 1e9, -5, 0.9))
  end)
end)

describe("split_index_for_keep", function()
  local split = compaction.split_index_for_keep
  local user, assistant, tool = message("user", 350), message("assistant", 350), message("tool", 350) -- 105 each

  it("keeps the longest suffix that fits", function()
    local list = { user, assistant, user, assistant }
    assert.equal(5, split(list, 104))
    assert.equal(4, split(list, 105))
    assert.equal(4, split(list, 209))
    assert.equal(3, split(list, 210))
    assert.equal(2, split(list, 419))
  end)

  it("keeps nothing when everything fits", function()
    assert.equal(5, split({ user, assistant, user, assistant }, 420))
    assert.equal(2, split({ user }, 105))
  end)

  it("never starts the kept part on a tool result", function()
    assert.equal(3, split({ user, tool, assistant }, 210))
    assert.equal(4, split({ user, tool, tool }, 210))
    assert.equal(3, split({ user, tool, user, tool }, 315))
  end)

  it("starts it on a user or assistant message alone", function()
    for _, role in ipairs { "system", "developer", "tool", "function", "User", "" } do
      assert.equal(4, split({ user, user, message(role, 350) }, 105))
    end
    assert.equal(3, split({ user, user, message("assistant", 350) }, 105))
  end)

  it("keeps nothing when the newest message is too large", function()
    assert.equal(3, split({ user, message("user", 3500) }, 500))
  end)

  it("answers 1 for an empty list", function()
    assert.equal(1, split({}, 100))
  end)

  it("takes any budget", function()
    assert.equal(3, split({ user, user }, 0))
    assert.equal(3, split({ user, user }, -5))
    assert.equal(3, split({ user, user }, 2 ^ 53))
  end)

  it("calibrates on the list", function()
    local list = { anchor(100, 10), message("tool", 3500), anchor(1316, 95), user }
    assert.equal(4, split(list, 126)) -- 105 × 1.2
    assert.equal(5, split(list, 125))
    assert.equal(3, split(list, 226))
    assert.equal(4, split(list, 225))
  end)
end)

describe("first_index_in_budget", function()
  local first = compaction.first_index_in_budget
  local user, tool = message("user", 350), message("tool", 350)

  it("answers as split_index_for_keep while something does not fit", function()
    assert.equal(3, first({ user, user, user }, 105))
    assert.equal(2, first({ user, user, user }, 314))
    assert.equal(4, first({ user, user, user }, 104))
  end)

  it("answers the earliest turn when everything fits", function()
    assert.equal(1, first({ user, user, user }, 315))
    assert.equal(3, first({ tool, tool, user, tool }, 1000))
  end)

  it("answers #messages + 1 without any turn", function()
    assert.equal(3, first({ tool, tool }, 1000))
    assert.equal(1, first({}, 1000))
  end)
end)
