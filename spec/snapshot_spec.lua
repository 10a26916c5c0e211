-- A conversation as a string, and strings that are none.
local compaction = require "compaction"
local generator = require "spec.support.random"

local function sample()
  local c = compaction.conversation(nil, { limit = 200000, model = "m" })
  c:set_fixed { system = "You are careful." }
  local prompt = 3000
  for i = 1, 12 do
    c:append { role = "user", content = ("x"):rep(i * 30) }
    c:append {
      role = "assistant",
      content = "y",
      model = i % 5 == 0 and "other" or "m",
      tool_calls = { { id = "c" .. i }, {} },
      usage = { input_tokens = prompt, output_tokens = 30, reasoning_tokens = 10 },
    }
    c:append { role = "tool", tool_call_id = "c" .. i, content = ("z"):rep(900) }
    prompt = prompt + (i == 7 and 9000 or 400)
  end
  c:replace(20, { role = "user", content = "summary" }, 4)
  c:append { role = "user", content = "go on" }
  c:observe { input_tokens = 5000 }
  return c
end

describe("a snapshot", function()
  local c = sample()
  local snapshot = c:snapshot()

  it("is small and the same each time", function()
    assert.equal(snapshot, c:snapshot())
    assert.equal("CPTC", snapshot:sub(1, 4))
    assert.is_true(#snapshot < 100 * #c)
  end)

  it("gives an equal conversation, that goes on as the first", function()
    local again = compaction.restore(snapshot)
    local function compare()
      assert.same({ c:used() }, { again:used() })
      assert.same(c:calibration(), again:calibration())
      assert.same(c:breakdown(), again:breakdown())
      assert.equal(c:pending(), again:pending())
      assert.equal(c:keep_from(900), again:keep_from(900))
      assert.equal(c:snapshot(), again:snapshot())
    end
    compare()
    for _, change in ipairs {
      function(x)
        x:append {
          role = "assistant",
          content = "z",
          usage = { input_tokens = 5100, output_tokens = 20 },
          tool_calls = { {} },
        }
      end,
      function(x)
        x:append { role = "tool", content = "r" }
      end,
      function(x)
        x:set(5, { role = "user", content = "another" })
      end,
      function(x)
        x:truncate(#x - 3)
      end,
      function(x)
        x:append { role = "assistant", content = "done" }
        x:replace(#x + 1, { role = "user", content = "short" })
      end,
    } do
      change(c)
      change(again)
      compare()
    end
  end)

  it("of an empty conversation is one too", function()
    assert.equal(0, #compaction.restore(compaction.conversation():snapshot()))
    assert.equal(
      "seed",
      compaction.restore(compaction.conversation(nil, { estimator = "seed" }):snapshot()) and "seed"
    )
  end)

  local function refused(text, reason)
    local ok, message = pcall(compaction.restore, text)
    assert.is_false(ok)
    assert.matches("^bad argument #1 to 'restore' %(" .. (reason or ""), message)
  end

  it("is refused when cut", function()
    for n = 0, #snapshot - 1 do
      refused(snapshot:sub(1, n))
    end
    refused(snapshot .. "\0", "the snapshot is damaged")
  end)

  it("is refused when altered, in any byte", function()
    local random = generator(11)
    for i = 1, #snapshot do
      local byte = (snapshot:byte(i) + 1 + random(255)) % 256
      refused(snapshot:sub(1, i - 1) .. string.char(byte) .. snapshot:sub(i + 1))
    end
  end)

  it("is refused when foreign", function()
    refused("", "not a snapshot of a conversation")
    refused("{}", "not a snapshot of a conversation")
    refused(("x"):rep(10000), "not a snapshot of a conversation")
    refused("CPTC\2" .. snapshot:sub(6), "the snapshot is of another version")
    refused("CPTC\1", "the snapshot is damaged")
    refused("CPTC\1" .. ("\255"):rep(500), "the snapshot is damaged")
  end)

  it("of random bytes behind the head is refused", function()
    local random = generator(23)
    for _ = 1, 500 do
      local bytes = {}
      for k = 1, random(200) do
        bytes[k] = string.char(random(256))
      end
      refused("CPTC\1" .. table.concat(bytes))
    end
  end)
end)
