-- What may stand in a message, what may not, and where an error says it was.
local compaction = require "compaction"
local nulls = require "spec.support.nulls"

local function message_error(message)
  local ok, text = pcall(compaction.estimate_message_tokens, message)
  assert.is_false(ok)
  return text
end

-- The third message of a list.
local function list_error(message)
  local user = { role = "user", content = "x" }
  local ok, text = pcall(compaction.split_index_for_keep, { user, user, message, user }, 10)
  assert.is_false(ok)
  return text
end

describe("an absent value", function()
  for _, null in ipairs(nulls) do
    it("may be " .. null.name .. ", in every field", function()
      local none = null.value
      local function size(message)
        return compaction.estimate_message_tokens(message)
      end
      assert.equal(
        5,
        size {
          role = none,
          content = none,
          multi_content = none,
          reasoning_content = none,
          tool_calls = none,
          function_call = none,
          tool_call_id = none,
          model = none,
          usage = none,
        }
      )
      local parts = {
        { type = "text", text = none, image_url = none, file = none, document = none },
        { document = { source = none } },
        { document = { source = { inline_text = none, inline_data = none } } },
      }
      assert.equal(5, size { role = "user", content = parts, multi_content = parts })
      assert.equal(
        5,
        size {
          role = "assistant",
          tool_calls = { { ["function"] = none }, { ["function"] = { name = none, arguments = none } } },
        }
      )
      assert.equal(5, size { role = "assistant", function_call = { name = none, arguments = none } })
      local counts = {
        input_tokens = none,
        cached_input_tokens = none,
        cached_write_tokens = none,
        output_tokens = none,
        reasoning_tokens = none,
      }
      assert.equal(7, size { role = "assistant", content = ("x"):rep(7), usage = counts })
      counts.output_tokens = 30
      assert.equal(35, size { role = "assistant", usage = counts })
      assert.is_true(compaction.should_compact(91, 0, 0, 100, none))
      local tool = { role = "tool", content = ("x"):rep(3500) }
      assert.equal(
        1.2,
        compaction
          .new_estimator({
            { role = "assistant", model = none, usage = { input_tokens = 110 } },
            tool,
            { role = "assistant", model = "m", usage = { input_tokens = 1316 } },
          })
          :scale()
      )
    end)

    it(null.name .. " is no message and no list", function()
      assert.matches("%(messages%[3%]: table expected, got ", list_error(null.value))
      assert.matches("%(table expected, got ", message_error(null.value))
      local ok, text = pcall(compaction.split_index_for_keep, null.value, 10)
      assert.is_false(ok)
      assert.matches("%(table expected, got ", text)
    end)
  end

  it("is not an empty table, or a table that writes itself and has keys", function()
    assert.equal(
      5,
      compaction.estimate_message_tokens { role = "user", content = {}, usage = {}, tool_calls = {} }
    )
    local writes = setmetatable({ { text = ("x"):rep(7) } }, { __tojson = function() end })
    assert.equal(7, compaction.estimate_message_tokens { role = "user", content = writes })
  end)

  it("is not any other userdata", function()
    assert.equal(
      "bad argument #1 to 'estimate_message_tokens' (message.content: string or list of parts expected, got userdata)",
      message_error { role = "user", content = io.stdout }
    )
  end)
end)

describe("an error", function()
  -- field by field: message, place, complaint
  local cases = {
    { { role = 1 }, "role", "string expected, got number" },
    { { role = {} }, "role", "string expected, got table" },
    { { role = true }, "role", "string expected, got boolean" },
    { { content = 12 }, "content", "string or list of parts expected, got number" },
    { { content = true }, "content", "string or list of parts expected, got boolean" },
    { { content = { "text" } }, "content[1]", "table expected, got string" },
    { { content = { { text = 1 } } }, "content[1].text", "string expected, got number" },
    {
      { content = { text = "x" } },
      "content",
      "list of parts expected, got a table with the key 'text'",
    },
    { { multi_content = "text" }, "multi_content", "table expected, got string" },
    { { multi_content = { {}, 7 } }, "multi_content[2]", "table expected, got number" },
    { { multi_content = { {}, { text = {} } } }, "multi_content[2].text", "string expected, got table" },
    {
      { multi_content = { { image_url = 1 } } },
      "multi_content[1].image_url",
      "table or string expected, got number",
    },
    {
      { multi_content = { { image_url = false } } },
      "multi_content[1].image_url",
      "table or string expected, got boolean",
    },
    {
      { multi_content = { { file = true } } },
      "multi_content[1].file",
      "table or string expected, got boolean",
    },
    { { multi_content = { { document = "d" } } }, "multi_content[1].document", "table expected, got string" },
    {
      { multi_content = { { document = { source = 1 } } } },
      "multi_content[1].document.source",
      "table expected, got number",
    },
    {
      { multi_content = { { document = { source = { inline_text = 1 } } } } },
      "multi_content[1].document.source.inline_text",
      "string expected, got number",
    },
    {
      { multi_content = { { document = { source = { inline_data = {} } } } } },
      "multi_content[1].document.source.inline_data",
      "string expected, got table",
    },
    { { reasoning_content = 3 }, "reasoning_content", "string expected, got number" },
    { { tool_calls = "x" }, "tool_calls", "table expected, got string" },
    { { tool_calls = { id = "c1" } }, "tool_calls", "list of calls expected, got a table with the key 'id'" },
    { { tool_calls = { "x" } }, "tool_calls[1]", "table expected, got string" },
    {
      { tool_calls = { {}, { ["function"] = "f" } } },
      "tool_calls[2].function",
      "table expected, got string",
    },
    {
      { tool_calls = { { ["function"] = { name = 1 } } } },
      "tool_calls[1].function.name",
      "string expected, got number",
    },
    {
      { tool_calls = { { ["function"] = { arguments = 1 } } } },
      "tool_calls[1].function.arguments",
      "string expected, got number",
    },
    { { function_call = "f" }, "function_call", "table expected, got string" },
    { { function_call = { name = {} } }, "function_call.name", "string expected, got table" },
    { { function_call = { arguments = false } }, "function_call.arguments", "string expected, got boolean" },
    { { model = 4 }, "model", "string expected, got number" },
    { { usage = 4 }, "usage", "table expected, got number" },
    { { usage = { input_tokens = "7" } }, "usage.input_tokens", "number expected, got string" },
    { { usage = { cached_input_tokens = {} } }, "usage.cached_input_tokens", "number expected, got table" },
    {
      { usage = { cached_write_tokens = true } },
      "usage.cached_write_tokens",
      "number expected, got boolean",
    },
    { { usage = { output_tokens = "many" } }, "usage.output_tokens", "number expected, got string" },
    { { usage = { reasoning_tokens = "0x10" } }, "usage.reasoning_tokens", "number expected, got string" },
    { { usage = { output_tokens = 1.5 } }, "usage.output_tokens", "integer within +-2^53 expected, got 1.5" },
  }
  for _, case in ipairs(cases) do
    local message, place, complaint = case[1], case[2], case[3]
    it("names " .. place .. ": " .. complaint, function()
      message.role = message.role or "user"
      assert.equal(
        ("bad argument #1 to 'estimate_message_tokens' (message.%s: %s)"):format(place, complaint),
        message_error(message)
      )
      assert.equal(
        ("bad argument #1 to 'split_index_for_keep' (messages[3].%s: %s)"):format(place, complaint),
        list_error(message)
      )
    end)
  end

  it("names the function and the argument, in each function", function()
    local bad = { { role = "user" }, { role = "user", content = 1 } }
    local where = "messages[2].content: string or list of parts expected, got number"
    local estimator = compaction.new_estimator {}
    local calls = {
      { compaction.split_index_for_keep, bad, 1, name = "split_index_for_keep" },
      { compaction.first_index_in_budget, bad, 1, name = "first_index_in_budget" },
      { compaction.new_estimator, bad, name = "new_estimator" },
      { compaction.new_slice_estimator, bad, name = "new_slice_estimator" },
      { compaction.new_estimator, ipairs(bad), name = "new_estimator" },
    }
    calls[5] = { compaction.new_estimator, next, bad, name = "new_estimator" }
    for _, call in ipairs(calls) do
      local ok, text = pcall(call[1], call[2], call[3])
      assert.is_false(ok)
      assert.equal(("bad argument #1 to '%s' (%s)"):format(call.name, where), text)
    end
    local ok, text = pcall(estimator.estimate_message_tokens, estimator, bad[2])
    assert.is_false(ok)
    assert.equal(
      "bad argument #1 to 'estimate_message_tokens' (message.content: string or list of parts expected, got number)",
      text
    )
  end)

  it("says where in the caller's file", function()
    local ok, text = pcall(function()
      local _ = compaction.estimate_message_tokens(1)
    end)
    assert.is_false(ok)
    assert.matches("message_spec%.lua:%d+: bad argument #1", text)
  end)

  it("says when a list was expected and one message came, and the other way round", function()
    local message = { role = "user", content = "x" }
    local expected = "bad argument #1 to '%s' (list of messages expected, got one message (it has a role))"
    for _, name in ipairs {
      "split_index_for_keep",
      "first_index_in_budget",
      "new_estimator",
      "new_slice_estimator",
    } do
      local ok, text = pcall(compaction[name], message, 10)
      assert.is_false(ok)
      assert.equal(expected:format(name), text)
    end
    assert.equal(
      "bad argument #1 to 'estimate_message_tokens' (one message expected, got a list)",
      message_error { message }
    )
    assert.equal(
      "bad argument #1 to 'split_index_for_keep' (messages[3]: one message expected, got a list)",
      list_error { message }
    )
  end)

  it("says when a table is no list", function()
    local ok, text = pcall(compaction.new_estimator, { messages = {} })
    assert.is_false(ok)
    assert.equal(
      "bad argument #1 to 'new_estimator' (list of messages expected, got a table with the key 'messages')",
      text
    )
  end)

  it("says what came instead of an argument", function()
    local function text(f, ...)
      return select(2, pcall(f, ...))
    end
    assert.equal(
      "bad argument #1 to 'split_index_for_keep' (table expected, got nil)",
      text(compaction.split_index_for_keep, nil, 1)
    )
    assert.equal(
      "bad argument #1 to 'split_index_for_keep' (table expected, got string)",
      text(compaction.split_index_for_keep, "x", 1)
    )
    assert.equal(
      "bad argument #2 to 'split_index_for_keep' (number expected, got no value)",
      text(compaction.split_index_for_keep, {})
    )
    assert.equal(
      "bad argument #2 to 'first_index_in_budget' (number expected, got string)",
      text(compaction.first_index_in_budget, {}, "1")
    )
    assert.equal(
      "bad argument #1 to 'estimate_message_tokens' (table expected, got no value)",
      text(compaction.estimate_message_tokens)
    )
    assert.equal(
      "bad argument #1 to 'new_estimator' (table or iterator expected, got no value)",
      text(compaction.new_estimator)
    )
    assert.equal(
      "bad argument #1 to 'new_slice_estimator' (table expected, got function)",
      text(compaction.new_slice_estimator, print)
    )
    assert.equal(
      "bad argument #1 to 'new_estimator' (messages[1]: table expected, got number)",
      text(compaction.new_estimator, ipairs { 5 })
    )
    assert.equal(
      "bad argument #3 to 'should_compact' (number expected, got nil)",
      text(compaction.should_compact, 1, 1, nil, 1)
    )
    assert.equal(
      "bad argument #1 to 'should_compact' (integer within +-2^53 expected, got 1.5)",
      text(compaction.should_compact, 1.5, 1, 1, 1)
    )
    assert.equal(
      "bad argument #4 to 'should_compact' (number expected, got string)",
      text(compaction.should_compact, 1, 1, 1, "1")
    )
    assert.equal(
      "bad argument #5 to 'should_compact' (number expected, got string)",
      text(compaction.should_compact, 1, 1, 1, 1, "0.9")
    )
  end)

  it("looks at cheap arguments first", function()
    local ok, text = pcall(compaction.split_index_for_keep, { 1 }, "x")
    assert.is_false(ok)
    assert.matches("#2", text)
  end)

  it("comes for an estimator's method without an estimator", function()
    local estimator = compaction.new_estimator {}
    for _, name in ipairs { "scale", "estimate_message_tokens" } do
      for _, self in ipairs { {}, 1, "x", io.stdout } do
        assert.is_false(pcall(estimator[name], self, { role = "user" }))
      end
      assert.is_false(pcall(estimator[name]))
    end
  end)
end)

describe("a list", function()
  it("without messages may carry fields of its own, or be a proxy", function()
    assert.equal(1, compaction.split_index_for_keep({ n = 0, title = "x" }, 10))
    local proxy = setmetatable({ _t = {} }, {
      __len = function(self)
        return #self._t
      end,
      __index = function(self, i)
        return self._t[i]
      end,
    })
    assert.equal(1, compaction.split_index_for_keep(proxy, 10))
    assert.equal(1, compaction.split_index_for_keep({ role = require("cjson").null }, 10))
  end)

  it("is not asked for fields that lists have not", function()
    local list = setmetatable({}, {
      __len = function()
        return 3
      end,
      __index = function(_, i)
        return { role = "user", content = ("x"):rep(i + 0) }
      end,
    })
    assert.equal(3, compaction.split_index_for_keep(list, 5))
  end)

  it("that answers like dkjson's null, but stands for another table, is no null", function()
    local inner = { { text = ("x"):rep(700) } }
    local proxy = setmetatable({}, {
      __tojson = function() end,
      __index = inner,
      __len = function()
        return 1
      end,
    })
    assert.equal(205, compaction.estimate_message_tokens { role = "user", content = proxy })
  end)

  local user = { role = "user", content = "x" }

  it("has no holes", function()
    local holed = { user, nil, user }
    assert(#holed == 3)
    local ok, text = pcall(compaction.split_index_for_keep, holed, 10)
    assert.is_false(ok)
    assert.equal("bad argument #1 to 'split_index_for_keep' (messages[2]: table expected, got nil)", text)
    local parts = { { text = "x" }, nil, { text = "x" } }
    assert.equal(
      "bad argument #1 to 'estimate_message_tokens' (message.content[2]: table expected, got nil)",
      message_error { role = "user", content = parts }
    )
  end)

  it("may carry fields of its own", function()
    assert.equal(2, compaction.split_index_for_keep({ user, n = 1, title = "x" }, 100))
  end)

  it("may change between two calls", function()
    local list = { user, { role = "user", content = ("x"):rep(350) } }
    assert.equal(3, compaction.split_index_for_keep(list, 100))
    list[2].content = "x"
    list[3] = { role = "user", content = ("x"):rep(350) }
    assert.equal(3, compaction.split_index_for_keep(list, 105))
    list[3].content = ("x"):rep(280)
    assert.equal(2, compaction.split_index_for_keep(list, 90))
  end)
end)

describe("__index and __len", function()
  -- A table that is empty itself and answers for another one, all the way down.
  local function proxy(value)
    if type(value) ~= "table" then
      return value
    end
    return setmetatable({}, {
      __index = function(_, key)
        return proxy(value[key])
      end,
      __len = function()
        return #value
      end,
    })
  end

  local messages = {
    {
      role = "user",
      content = ("x"):rep(70),
      multi_content = {
        { text = "ab" },
        { image_url = { url = "u" } },
        { document = { source = { inline_text = "abc", inline_data = "d" } } },
      },
    },
    {
      role = "assistant",
      reasoning_content = "why",
      tool_calls = { { ["function"] = { name = "f", arguments = "{}" } } },
      model = "m",
      usage = { input_tokens = 100, output_tokens = 10 },
    },
    { role = "tool", content = ("x"):rep(3500) },
    {
      role = "assistant",
      function_call = { name = "f", arguments = "{}" },
      model = "m",
      usage = { input_tokens = 1316, output_tokens = 10 },
    },
    { role = "user", content = { { text = ("x"):rep(70) } } },
  }

  it("are honoured at every depth, on every version", function()
    local through = proxy(messages)
    assert.equal(1.2, compaction.new_estimator(through):scale())
    for i, message in ipairs(messages) do
      assert.equal(
        compaction.estimate_message_tokens(message),
        compaction.estimate_message_tokens(proxy(message))
      )
      assert.equal(
        compaction.estimate_message_tokens(message),
        compaction.estimate_message_tokens(through[i])
      )
    end
    for budget = 0, 5000, 50 do
      assert.equal(
        compaction.split_index_for_keep(messages, budget),
        compaction.split_index_for_keep(through, budget)
      )
      assert.equal(
        compaction.first_index_in_budget(messages, budget),
        compaction.first_index_in_budget(through, budget)
      )
    end
  end)

  it("serve messages with defaults", function()
    local base = { role = "assistant", model = "m" }
    local message = setmetatable({ content = ("x"):rep(7) }, { __index = base })
    assert.equal(7, compaction.estimate_message_tokens(message))
    assert.equal(2, compaction.split_index_for_keep({ message, message }, 7))
    assert.has_error(function()
      compaction.split_index_for_keep(message, 7)
    end)
  end)

  it("read long lists", function()
    local long = {}
    for i = 1, 1000 do
      long[i] = messages[i % #messages + 1]
    end
    assert.equal(
      compaction.split_index_for_keep(long, 20000),
      compaction.split_index_for_keep(proxy(long), 20000)
    )
  end)

  it("let an error of theirs pass", function()
    local broken = setmetatable({}, {
      __index = function()
        error("mine", 0)
      end,
    })
    assert.has_error(function()
      compaction.estimate_message_tokens(broken)
    end, "mine")
    assert.has_error(function()
      compaction.split_index_for_keep({ { role = "user", content = "x" }, broken }, 1)
    end, "mine")
  end)

  it("refuse lengths that are none", function()
    local function length(n)
      return setmetatable({}, {
        __len = function()
          return n
        end,
      })
    end
    local ok, text = pcall(compaction.new_estimator, length(nil))
    assert.is_false(ok)
    assert.equal("bad argument #1 to 'new_estimator' (__len must return a length, got nil)", text)
    for _, n in ipairs { -1, 1.5, 0 / 0, 1 / 0, 2 ^ 53, "3" } do
      ok, text = pcall(compaction.new_estimator, length(n))
      assert.is_false(ok)
      assert.matches("^bad argument #1 to 'new_estimator'", text)
      assert.is_false(pcall(compaction.split_index_for_keep, length(n), 1))
    end
    -- a length without the messages costs nothing
    ok, text = pcall(compaction.split_index_for_keep, length(2 ^ 31 - 2), 1)
    assert.is_false(ok)
    assert.matches("messages%[1%]: table expected, got nil", text)
  end)
end)

describe("numbers", function()
  local function reported(n)
    return compaction.estimate_message_tokens { role = "assistant", usage = { output_tokens = n } }
  end

  it("may be floats with an integral value", function()
    assert.equal(17, reported(12.0))
    assert.equal(17, reported(tonumber "12.0"))
    assert.equal(2, compaction.split_index_for_keep({ { role = "user" }, { role = "user" } }, 5.0))
  end)

  it("reach to 2^53 either way", function()
    assert.equal(9007199254740992 + 5, reported(2 ^ 53))
    assert.equal(5, reported(-2 ^ 53))
    assert.equal(
      5,
      compaction.split_index_for_keep(
        { { role = "user" }, { role = "user" }, { role = "user" }, { role = "user" } },
        2 ^ 53
      )
    )
    for _, n in ipairs {
      2 ^ 53 + 2,
      -2 ^ 53 - 2,
      2 ^ 62,
      2 ^ 63,
      -2 ^ 63,
      2 ^ 64,
      1e308,
      -1e308,
      1 / 0,
      -1 / 0,
      0 / 0,
      0.5,
      -0.5,
      1e-300,
    } do
      local ok, text = pcall(reported, n)
      assert.is_false(ok)
      assert.matches("message%.usage%.output_tokens: integer within %+%-2%^53 expected, got ", text)
      assert.is_false(pcall(compaction.split_index_for_keep, {}, n))
      assert.is_false(pcall(compaction.should_compact, n, 0, 0, 1))
    end
    if math.maxinteger then
      assert.is_false(pcall(reported, math.maxinteger))
      assert.is_false(pcall(reported, math.mininteger))
      assert.is_false(pcall(reported, 9007199254740993))
    end
  end)

  it("are integers when handed back", function()
    if math.type then
      assert.equal("integer", math.type(reported(12.0)))
      assert.equal("integer", math.type(compaction.split_index_for_keep({}, 1.0)))
      assert.equal("integer", math.type(compaction.first_index_in_budget({}, 1.0)))
      assert.equal("float", math.type(compaction.new_estimator({}):scale()))
    end
    assert.equal("17", tostring(reported(12.0)))
  end)

  it("are not strings", function()
    assert.is_false(pcall(reported, "12"))
    assert.is_false(pcall(compaction.split_index_for_keep, {}, "12"))
  end)

  it("do not overflow in sums", function()
    local huge = 2 ^ 53
    local usage = {
      input_tokens = huge,
      cached_input_tokens = huge,
      cached_write_tokens = huge,
      output_tokens = huge,
      reasoning_tokens = -huge,
    }
    local list = {}
    for i = 1, 3000 do
      list[i] = { role = "assistant", usage = usage }
    end
    assert.equal(1, compaction.new_estimator(list):scale())
    assert.equal(3001, compaction.split_index_for_keep(list, huge))
    assert.equal(3001, compaction.first_index_in_budget(list, huge))
    assert.is_true(compaction.should_compact(huge, huge, huge, huge))
    assert.is_false(compaction.should_compact(-huge, -huge, -huge, huge))
    local falling = {
      role = "assistant",
      usage = {
        input_tokens = huge,
        cached_input_tokens = -huge,
        cached_write_tokens = 1,
        output_tokens = -huge,
      },
    }
    assert.equal(1, compaction.new_estimator({ falling, list[1], falling, list[1] }):scale())
  end)
end)

describe("nothing handed in", function()
  it("is changed or kept", function()
    local frozen = {}
    local function freeze(value)
      if type(value) ~= "table" then
        return value
      end
      local inner = {}
      for k, v in pairs(value) do
        inner[k] = freeze(v)
      end
      return setmetatable({}, {
        __index = inner,
        __len = function()
          return #inner
        end,
        __newindex = function()
          error "written to"
        end,
      })
    end
    frozen[1] = freeze { role = "user", content = { { text = "x" } }, usage = { output_tokens = 5.0 } }
    compaction.split_index_for_keep(frozen, 5)
    compaction.estimate_message_tokens(frozen[1])

    local weak = setmetatable({}, { __mode = "v" })
    local estimator
    do
      local list = { { role = "user", content = "x" } }
      weak[1], weak[2] = list, list[1]
      estimator = compaction.new_estimator(list)
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak[1])
    assert.is_nil(weak[2])
    assert.equal(1, estimator:scale())
  end)

  it("is turned from numbers into strings", function()
    local message = { [1] = 5, role = "assistant", [2.5] = 7, content = "x", [true] = 1 }
    message.tool_calls = { { id = 12 } }
    compaction.conversation { message }
    assert.equal("number", type(message.tool_calls[1].id))
    message.tool_calls = nil
    local seen = {}
    for k in pairs(message) do
      seen[type(k)] = (seen[type(k)] or 0) + 1
    end
    assert.same({ number = 2, string = 2, boolean = 1 }, seen)
  end)
end)

describe("hostile input", function()
  it("may hold itself", function()
    local cyclic = { role = "user", content = "x" }
    cyclic.self = cyclic
    cyclic.content = { cyclic, { text = "abcdefg", document = { source = cyclic } } }
    assert.equal(7, compaction.estimate_message_tokens(cyclic))
    cyclic.usage = cyclic
    assert.equal(7, compaction.estimate_message_tokens(cyclic))
    local list = {}
    list[1] = list
    assert.is_false(pcall(compaction.split_index_for_keep, list, 1))
  end)

  it("may be long", function()
    local list = {}
    for i = 1, 100000 do
      list[i] = { role = i % 3 == 0 and "user" or "tool", content = "abcdefg" } -- 7 tokens
    end
    assert.equal(99999, compaction.split_index_for_keep(list, 14))
    assert.equal(3, compaction.first_index_in_budget(list, 700000))
    assert.equal(100001, compaction.split_index_for_keep(list, 700000))
    assert.equal(6, compaction.split_index_for_keep(list, 700000 - 7 * 5))
    assert.equal(1, compaction.new_estimator(list):scale())
    list[100001] = 7
    assert.is_false(pcall(compaction.new_estimator, list))
  end)

  it("may have many parts, calls, and bytes", function()
    local parts, calls = {}, {}
    for i = 1, 20000 do
      parts[i] = { text = "abcdefg", image_url = {} }
      calls[i] = { ["function"] = { name = "abcdefg" } }
    end
    assert.equal(
      5 + 20000 * 1502 + 40000,
      compaction.estimate_message_tokens { role = "user", content = parts, tool_calls = calls }
    )
    assert.equal(
      5 + 9586980,
      compaction.estimate_message_tokens { role = "user", content = ("\0\255"):rep(2 ^ 24) }
    )
  end)

  it("may change under the reader", function()
    local list = {}
    for i = 1, 50 do
      list[i] = { role = "user", content = "x" }
    end
    list[10] = setmetatable({}, {
      __index = function(_, key)
        for i = 11, 50 do
          list[i] = nil
        end
        collectgarbage()
        return key == "role" and "user" or nil
      end,
    })
    assert.is_false(pcall(compaction.split_index_for_keep, list, 5))
  end)

  it("may come with a deep stack", function()
    local function deep(n)
      if n > 0 then
        return 1 + deep(n - 1)
      end
      return compaction.estimate_message_tokens {
        role = "user",
        content = { { document = { source = { inline_text = "abcdefg" } } } },
      }
    end
    assert.equal(157, deep(150))
  end)
end)
