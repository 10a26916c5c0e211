-- The text estimator: a weight for each pair of bytes, from the committed tables.
local compaction = require "compaction"
local generator = require "spec.support.random"
local model = require "spec.support.model"

local files = {
  openai = "o200k",
  ["openai-legacy"] = "cl100k",
  ["claude-4"] = "claude4",
  ["claude-5"] = "claude5",
  gemini = "gemma3",
  deepseek = "dsv3",
  llama = "llama3",
  qwen = "qwen3",
}

local estimate = compaction.estimate_text_tokens

local function by_table(text, family)
  if family == "unknown" then
    return math.max(by_table(text, "openai"), by_table(text, "claude-4"))
  end
  return math.floor((model.text_weight(text, files[family]) + 50) / 100)
end

describe("estimate_text_tokens", function()
  it("is the sum of the table, for each family and any bytes", function()
    local random = generator(3)
    for _ = 1, 60 do
      local bytes = {}
      local range = random(3) == 0 and 256 or 128
      for i = 1, random(random(4) == 0 and 9000 or 40) do
        bytes[i] = string.char(random(range))
      end
      local text = table.concat(bytes)
      for _, family in ipairs(compaction.FAMILIES) do
        assert.equal(by_table(text, family), estimate(text, family))
      end
    end
  end)

  it("knows tokens that anybody can count", function()
    assert.equal(0, estimate("", "openai"))
    assert.equal(1, estimate("a", "openai"))
    assert.near(10, estimate("The quick brown fox jumps over the lazy dog.", "openai"), 1)
    assert.near(200, estimate(("hello world "):rep(100), "openai"), 40)
  end)

  it("is for an unknown family the larger of two", function()
    for _, text in ipairs { "The quick brown fox", "Привет, мир", ("\0\255"):rep(40), '{"a":1}' } do
      local larger = math.max(estimate(text, "openai"), estimate(text, "claude-4"))
      assert.equal(larger, estimate(text, "unknown"))
      assert.equal(larger, estimate(text))
      assert.equal(larger, estimate(text, nil))
    end
  end)

  it("is never more than a token a byte, never less than one for a text", function()
    local random = generator(17)
    for _, family in ipairs(compaction.FAMILIES) do
      assert.equal(0, estimate("", family))
      for byte = 0, 255 do
        assert.equal(1, estimate(string.char(byte), family))
      end
      for _ = 1, 50 do
        local text = string.char(random(256)):rep(random(50) + 1)
        assert.is_true(estimate(text, family) <= #text and estimate(text, family) >= 1)
      end
    end
  end)

  it("never falls when text is appended", function()
    local random = generator(29)
    for _, family in ipairs(compaction.FAMILIES) do
      local text, last = "", 0
      for _ = 1, 300 do
        text = text .. string.char(random(256))
        local tokens = estimate(text, family)
        assert.is_true(tokens >= last)
        last = tokens
      end
    end
  end)

  it("takes long texts", function()
    local once = estimate(("local x = 1\n"):rep(1000), "openai")
    assert.near(1000 * once, estimate(("local x = 1\n"):rep(1000000), "openai"), once)
  end)

  it("refuses other arguments by name", function()
    local function complaint(...)
      local ok, text = pcall(estimate, ...)
      assert.is_false(ok)
      return text
    end
    assert.equal("bad argument #1 to 'estimate_text_tokens' (string expected, got number)", complaint(5))
    assert.equal("bad argument #1 to 'estimate_text_tokens' (string expected, got no value)", complaint())
    assert.equal(
      "bad argument #2 to 'estimate_text_tokens' (name of a family expected, got number)",
      complaint("x", 5)
    )
    assert.equal(
      "bad argument #2 to 'estimate_text_tokens' (unknown family 'gpt' (known: unknown, openai, openai-legacy, "
        .. "claude-4, claude-5, gemini, deepseek, llama, qwen))",
      complaint("x", "gpt")
    )
  end)
end)

describe("family_of", function()
  local names = {
    openai = "gpt-4o|gpt-4o-mini-2024-07-18|openai/gpt-4o|gpt-4.1-nano|gpt-4.5-preview|GPT-5|gpt-5.2-codex|chatgpt-4o-latest|"
      .. "azure/gpt-5-mini|openrouter/openai/gpt-5|o1|o1-preview|o3-mini|openai/o4-mini-2025-04-16|codex-mini-latest|"
      .. "gpt-oss-120b|meta-llama/llama-4-maverick-17b|llama4:scout|copilot/gpt-5",
    ["openai-legacy"] = "gpt-4|gpt-4-0613|gpt-4-turbo-2024-04-09|openai/gpt-4-32k|gpt-3.5-turbo|gpt-35-turbo|azure/gpt-35-turbo-16k",
    ["claude-4"] = "claude-3-opus-20240229|claude-3-5-sonnet-latest|claude-3.7-sonnet|claude-sonnet-4-20250514|claude-opus-4-1|"
      .. "anthropic/claude-sonnet-4.5|claude-opus-4-6|us.anthropic.claude-sonnet-4-5-20250929-v1:0|claude-haiku-4-5@20251001|"
      .. "anthropic.claude-3-haiku-20240307-v1:0|claude-2.1|claude-instant-1.2|sonnet|opus-4-5",
    ["claude-5"] = "claude-opus-4-7|claude-opus-4.8|anthropic/claude-sonnet-4.7|claude-sonnet-5|claude-opus-5-20260301|claude-fable-5|"
      .. "anthropic/fable-5|us.anthropic.claude-opus-4-8-20260101-v1:0|claude-5-haiku",
    gemini = "gemini-1.5-pro|google/gemini-2.5-flash|models/gemini-3-pro-preview|gemini-3-flash|vertex_ai/gemini-2.0-flash-001|gemma-3-27b-it",
    deepseek = "deepseek-chat|deepseek/deepseek-r1|deepseek-ai/DeepSeek-V3.1|deepseek-reasoner|accounts/fireworks/models/deepseek-v3",
    llama = "llama-3.1-70b-instruct|meta-llama/Llama-3.3-70B|llama3:8b|deepseek-r1-distill-llama-70b|codellama-34b",
    qwen = "qwen3-coder|Qwen/Qwen2.5-72B-Instruct|qwen-max|qwq-32b|deepseek-r1-distill-qwen-32b",
    unknown = "|mistral-large|grok-4|kimi-k2|glm-4.6|my-model|command-r|claud|proto3|video1",
  }
  for family, models in pairs(names) do
    it("knows " .. family, function()
      for name in (models .. "|"):gmatch "([^|]*)|" do
        assert.equal(family, compaction.family_of(name), name)
      end
    end)
  end

  it("is unknown for no model", function()
    assert.equal("unknown", compaction.family_of(nil))
    assert.equal("unknown", compaction.family_of(require("cjson").null))
    assert.equal("unknown", compaction.family_of(("x"):rep(100000)))
    assert.equal("unknown", compaction.family_of "\0\255")
  end)

  it("takes the host's own names first, the longest pattern of those that fit", function()
    local families =
      { ["my-proxy/*"] = "openai", ["my-proxy/*-zh"] = "qwen", ["*"] = "gemini", exact = "llama" }
    assert.equal("openai", compaction.family_of("my-proxy/claude-3", families))
    assert.equal("qwen", compaction.family_of("my-proxy/big-zh", families))
    assert.equal("gemini", compaction.family_of("gpt-5", families))
    assert.equal("llama", compaction.family_of("exact", families))
    assert.equal("gemini", compaction.family_of("exactly", families))
    assert.equal("openai", compaction.family_of("gpt-5", { ["x*"] = "qwen" }))
    assert.equal("qwen", compaction.family_of("aXbXc", { ["a*b*c"] = "qwen" }))
    assert.equal("unknown", compaction.family_of("aXbX", { ["a*b*c"] = "qwen" }))
  end)

  it("is quick about hostile patterns", function()
    assert.equal("unknown", compaction.family_of(("a"):rep(2000), { [("*a"):rep(500) .. "b"] = "qwen" }))
  end)

  it("refuses other arguments by name", function()
    local function complaint(...)
      local ok, text = pcall(compaction.family_of, ...)
      assert.is_false(ok)
      return text
    end
    assert.equal("bad argument #1 to 'family_of' (string expected, got number)", complaint(5))
    assert.equal("bad argument #2 to 'family_of' (table expected, got string)", complaint("x", "y"))
    assert.equal(
      "bad argument #2 to 'family_of' (pattern of model names as a key expected, got number)",
      complaint("x", { "openai" })
    )
    assert.matches(
      "bad argument #2 to 'family_of' %(families%.x: unknown family 'gpt' %(known: ",
      complaint("x", { x = "gpt" })
    )
  end)
end)

describe("FAMILIES", function()
  it("are these", function()
    assert.same(
      { "openai", "openai-legacy", "claude-4", "claude-5", "gemini", "deepseek", "llama", "qwen", "unknown" },
      compaction.FAMILIES
    )
  end)
end)

describe("a conversation's estimator", function()
  local text = ("The function reads the file in pieces.\n"):rep(20)

  local function size(options, message)
    return compaction.conversation({ message or { role = "user", content = text } }, options):estimate(1, 1)
  end

  it("may be a family", function()
    for _, family in ipairs(compaction.FAMILIES) do
      assert.equal(estimate(text, family) + 5, size { estimator = family })
    end
  end)

  it("is told by the model option", function()
    assert.equal(estimate(text, "gemini") + 5, size { model = "gemini-3-flash" })
    assert.equal(estimate(text, "qwen") + 5, size { model = "p/x", families = { ["p/*"] = "qwen" } })
    assert.equal(estimate(text, "unknown") + 5, size {})
  end)

  it("follows the newest assistant message that names its model", function()
    local c = compaction.conversation(nil, { families = { mine = "llama" } })
    local user = { role = "user", content = text }
    local function newest()
      c:append(user)
      return c:estimate(#c, #c) - 5
    end
    assert.equal(estimate(text, "unknown"), newest())
    c:append { role = "assistant", content = text, model = "gpt-5" }
    assert.equal(estimate(text, "openai") + 5, c:estimate(#c, #c)) -- its own model already
    assert.equal(estimate(text, "openai"), newest())
    c:append { role = "user", content = "x", model = "qwen3" } -- no assistant message
    assert.equal(estimate(text, "openai"), newest())
    c:append { { role = "assistant", content = "x", model = "mine" }, user }
    assert.equal(estimate(text, "llama") + 5, c:estimate(#c, #c))
    assert.equal("llama", c:calibration().family)
    c:truncate(3)
    assert.equal("openai", c:calibration().family)
    c:truncate(1)
    assert.equal(estimate(text, "unknown"), newest())
    c:set_model "claude-opus-4-8"
    assert.equal(estimate(text, "claude-5"), newest())
    c:set_model(nil)
    assert.equal(estimate(text, "unknown"), newest())
  end)

  it("weighs each text of a message by itself", function()
    local message = {
      role = "assistant",
      model = "gpt-5",
      content = {
        { type = "text", text = text },
        { document = { source = { inline_text = "abc" } } },
        { image_url = "u" },
      },
      reasoning_content = "Why?",
      tool_calls = { { ["function"] = { name = "read", arguments = '{"a":1}' } } },
      function_call = { name = "f", arguments = "{}" },
    }
    local sum = 0
    for _, each in ipairs { text, "abc", "Why?", "read", '{"a":1}', "f", "{}" } do
      sum = sum + model.text_weight(each, "o200k")
    end
    assert.equal(math.floor((sum + 50) / 100) + 1500 + 5, size({}, message))
  end)

  it("weighs table arguments as their JSON, keys in order", function()
    local json = '{"10":null,"a":[1,2.5,"x\\n\\u0001"],"b":{"c":true,"d":{}}}'
    local arguments = { b = { d = {}, c = true }, a = { 1, 2.5, "x\n\1" }, [10] = require("cjson").null }
    local function call(a)
      return { role = "assistant", tool_calls = { { ["function"] = { arguments = a } } } }
    end
    for _, family in ipairs(compaction.FAMILIES) do
      assert.equal(size({ estimator = family }, call(json)), size({ estimator = family }, call(arguments)))
    end
    local seen
    size({
      estimator = function(t)
        seen = t
        return 1
      end,
    }, call(arguments))
    assert.equal(json, seen)
  end)

  it("sizes what is sent outside the list", function()
    local c = compaction.conversation(nil, { model = "gpt-5" })
    c:set_fixed { system = text, tools = { { name = "read" } } }
    local sum = model.text_weight(text, "o200k") + model.text_weight('[{"name":"read"}]', "o200k")
    assert.equal(math.floor((sum + 50) / 100) + 5, (c:used()))
  end)

  it("charges what each family's providers wrap around a tool result", function()
    local tool = { role = "tool", content = text }
    for family, envelope in pairs {
      openai = 10,
      gemini = 10,
      deepseek = 13,
      llama = 9,
      ["claude-4"] = 14,
      unknown = 12,
    } do
      assert.equal(estimate(text, family) + envelope, size({ estimator = family }, tool))
    end
  end)

  it("starts with more trust in a known family", function()
    local function scale_of(name)
      local c = compaction.conversation { { role = "user", content = "x" } }
      c:append {
        role = "assistant",
        content = "",
        model = name,
        usage = { input_tokens = 100, output_tokens = 10 },
      }
      c:append { role = "tool", content = text }
      local guess = c:estimate(3, 3)
      c:append {
        role = "assistant",
        model = name,
        usage = { input_tokens = 110 + 5 * guess, output_tokens = 10 },
      }
      return c:scale(), guess
    end
    local scale, guess = scale_of "gpt-5"
    assert.near((4096 + 2 * guess) / (4096 + guess), scale, 0.001) -- held at 2
    scale, guess = scale_of "some-model"
    assert.near((512 + 3 * guess) / (512 + guess), scale, 0.005) -- held at 3
  end)
end)

describe("new_estimator with options", function()
  local text = ("The function reads the file in pieces.\n"):rep(20)
  local message = { role = "user", content = text }

  local function size(list, options)
    return compaction.new_estimator(list, options):estimate_message_tokens(message)
  end

  it("sizes texts as a conversation does", function()
    assert.equal(estimate(text, "unknown") + 5, size({}, {}))
    assert.equal(estimate(text, "gemini") + 5, size({}, { estimator = "gemini" }))
    assert.equal(estimate(text, "openai") + 5, size({}, { model = "gpt-5" }))
    assert.equal(estimate(text, "qwen") + 5, size({}, { model = "mine", families = { mine = "qwen" } }))
    assert.equal(math.floor(#text / 3.5) + 5, size({}, { estimator = "seed" }))
    assert.equal(math.floor(#text / 3.5) + 5, size {})
    assert.equal(
      #text + 5,
      size({}, {
        estimator = function(t)
          return #t
        end,
      })
    )
  end)

  it("follows the models that messages name", function()
    local list = { { role = "assistant", content = "x", model = "gpt-5" }, message }
    assert.equal(estimate(text, "openai") + 5, size(list, { estimator = "auto" }))
    local f, s, control = ipairs(list)
    local estimator = compaction.new_estimator(f, s, control, { estimator = "auto" })
    assert.equal(estimate(text, "openai") + 5, estimator:estimate_message_tokens(message))
    collectgarbage()
    assert.equal(estimate(text, "openai") + 5, estimator:estimate_message_tokens(message))
  end)

  it("learns the ratio to these sizes", function()
    local guess = estimate(text:rep(5), "openai") + 10
    local list = {
      { role = "assistant", model = "gpt-5", usage = { input_tokens = 100, output_tokens = 10 } },
      { role = "tool", content = text:rep(5) },
      { role = "assistant", model = "gpt-5", usage = { input_tokens = 110 + 2 * guess, output_tokens = 10 } },
    }
    assert.equal(2, compaction.new_estimator(list, {}):scale())
    list[3].usage.input_tokens = 110 + guess
    assert.equal(1, compaction.new_estimator(list, {}):scale())
  end)

  it("refuses what is none, by name", function()
    local ok, complaint = pcall(compaction.new_estimator, {}, { limit = 5 })
    assert.is_false(ok)
    assert.equal(
      "bad argument #2 to 'new_estimator' (unknown option 'limit' (known: estimator, families, model))",
      complaint
    )
    ok, complaint = pcall(compaction.new_estimator, {}, { estimator = "best" })
    assert.is_false(ok)
    assert.equal(
      "bad argument #2 to 'new_estimator' (options.estimator: 'auto', 'seed', a family or a function expected, got 'best')",
      complaint
    )
  end)
end)

describe("a counter of the host's own", function()
  local calls
  local function counter(text)
    calls[#calls + 1] = text
    return #text
  end
  before_each(function()
    calls = {}
  end)

  it("is called once for each text, when it is appended", function()
    local c = compaction.conversation({
      { role = "user", content = "abc" },
      {
        role = "assistant",
        content = { { text = "de" }, { text = "" } },
        reasoning_content = "f",
        tool_calls = { { ["function"] = { name = "g", arguments = "hi" } } },
      },
    }, { estimator = counter })
    assert.same({ "abc", "de", "f", "g", "hi" }, calls)
    c:used()
    c:estimate(1, 2)
    c:keep_from(100)
    c:breakdown()
    c:truncate(1)
    assert.equal(5, #calls)
    assert.equal(3 + 5, c:estimate(1, 1))
    c:set(1, { role = "user", content = "abcd" })
    c:set_fixed { system = "s", tools = { 1 } }
    assert.same({ "abcd", "s", "[1]" }, { calls[6], calls[7], calls[8] })
  end)

  it("that fails or answers nonsense is named, and changes nothing", function()
    local answer
    local c = compaction.conversation(nil, {
      estimator = function()
        return answer()
      end,
    })
    local before = c:snapshot()
    local function complaint(f)
      answer = f
      local ok, text =
        pcall(c.append, c, { { role = "user", content = "a" }, { role = "user", content = "b" } })
      assert.is_false(ok)
      assert.equal(before, c:snapshot())
      return text
    end
    assert.matches(
      "^bad argument #1 to 'append' %(messages%[1%]%.content: the estimator function failed: .*oops",
      complaint(function()
        error "oops"
      end)
    )
    assert.equal(
      "bad argument #1 to 'append' (messages[1].content: the estimator function must return tokens, got string)",
      complaint(function()
        return "3"
      end)
    )
    assert.equal(
      "bad argument #1 to 'append' (messages[1].content: the estimator function must return tokens, got a negative number)",
      complaint(function()
        return -1
      end)
    )
    assert.matches(
      "integer within",
      complaint(function()
        return 0 / 0
      end)
    )
    assert.matches(
      "integer within",
      complaint(function()
        return 1.5
      end)
    )
  end)

  it("and the names of models stay the host's", function()
    local families = { mine = "qwen" }
    local options = { estimator = counter, families = families }
    local c = compaction.conversation(nil, options)
    families.mine = "openai"
    options.estimator = nil
    c:append { role = "assistant", content = "ab", model = "mine" }
    assert.equal("qwen", c:calibration().family)
    assert.same({ "ab" }, calls)
    collectgarbage()
    c:append { role = "user", content = "c" }
    assert.equal(2, #calls)
  end)

  it("may close or change the conversation, to no harm", function()
    local c
    c = compaction.conversation({ { role = "user", content = "x" } }, {
      estimator = function()
        if c then
          getmetatable(c).__gc(c)
        end
        return 1
      end,
    })
    assert.has_error(function()
      c:append { role = "user", content = "y" }
    end, "the conversation is closed")
  end)
end)
