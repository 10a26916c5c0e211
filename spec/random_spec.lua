-- Random conversations against the same functions written in plain Lua (spec/bench/plain.lua),
-- which share no code with the sources.
local compaction = require "compaction"
local generator = require "spec.support.random"
local plain = require "spec.bench.plain"

local function conversation(random)
  local function text()
    return ("x"):rep(random(4) == 0 and random(6000) or random(60))
  end
  local function maybe(chance, value)
    if random(100) < chance then
      return value
    end
  end
  local roles = { "user", "assistant", "tool", "system", "developer", "other" }
  local messages, prompt = {}, 200
  for i = 1, random(40) do
    local message = {
      role = roles[random(#roles) + 1],
      content = maybe(90, text()),
      reasoning_content = maybe(15, text()),
      model = maybe(40, ({ "a", "b", "" })[random(3) + 1]),
      tool_calls = maybe(20, { { ["function"] = { name = "f", arguments = text() } }, {} }),
      function_call = maybe(5, { name = "g", arguments = text() }),
      multi_content = maybe(10, {
        { text = text() },
        { image_url = maybe(50, {}), file = maybe(50, {}) },
        { document = { source = { inline_text = text(), inline_data = maybe(50, "x") } } },
      }),
    }
    prompt = prompt + random(2000) - 200
    message.usage = maybe(50, {
      input_tokens = maybe(80, prompt),
      cached_input_tokens = maybe(50, random(50)),
      cached_write_tokens = maybe(30, random(50)),
      output_tokens = maybe(80, random(400) - 20),
      reasoning_tokens = maybe(40, random(200)),
    })
    messages[i] = message
  end
  return messages
end

describe("random conversations", function()
  for seed = 1, 400 do
    it("seed " .. seed, function()
      local random = generator(seed * 7919)
      local messages = conversation(random)
      local estimator = compaction.new_estimator(messages)
      assert.equal(plain.scale(messages), estimator:scale())
      for _, message in ipairs(messages) do
        assert.equal(plain.estimate_message_tokens(message), compaction.estimate_message_tokens(message))
      end
      for _ = 1, 10 do
        local budget = random(random(2) == 0 and 500 or 20000) - 5
        assert.equal(
          plain.split_index_for_keep(messages, budget),
          compaction.split_index_for_keep(messages, budget)
        )
        assert.equal(
          plain.first_index_in_budget(messages, budget),
          compaction.first_index_in_budget(messages, budget)
        )
      end
    end)
  end
end)
