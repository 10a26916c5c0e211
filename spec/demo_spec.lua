-- The example program, run as a user runs it.
local interpreter = require "spec.support.interpreter"
local json = require "spec.support.json"

local function demo(arguments)
  local version = _VERSION:match "%d%.%d"
  local build = os.getenv "COMPACTION_BUILD" or "build"
  local pipe = assert(
    io.popen(
      ("LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='./%s/%s/?.so;;' %s doc/examples/demo.lua %s 2>&1"):format(
        build,
        version,
        interpreter,
        arguments
      )
    )
  )
  local text = pipe:read "*a"
  pipe:close()
  return text
end

describe("the demo", function()
  it("tells all that a host needs to know", function()
    local text = demo "doc/examples/session.json 50000"
    for _, wanted in ipairs {
      "assistant +%d+ +[%d,]+",
      "tool +%d+ +[%d,]+",
      "scale +1%.%d+, learned from 21 windows",
      "fixed part +[%d,]+ tokens",
      "next prompt +47,715 of 50,000 tokens %(95 %%%), from the provider's last count",
      "%[#+%-+%]",
      "compact%? +yes",
      "cut +before message %d+ %(assistant%), to keep at most 10,000 tokens",
      "summarise %d+ messages, [%d,]+ tokens; keep %d+ messages, [%d,]+ tokens",
    } do
      assert.matches(wanted, text)
    end
    assert.matches("compact%? +no", demo "doc/examples/session.json 200000")
  end)

  local function demo_of(text)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(text)
    file:close()
    local shown = demo(path .. " 1000")
    os.remove(path)
    return shown
  end

  it("reads a plain list, and nulls", function()
    local list = '[{"role":"user","content":null},{"role":"assistant","content":"x","usage":null}]'
    assert.matches("all estimated: the provider reported nothing", demo_of(list))
  end)

  it("says in one line what is wrong with a document", function()
    assert.matches("^demo: [^\n]+ holds no list of messages\n$", demo_of '{"messages":null}')
    assert.matches("^demo: [^\n]+ holds no list of messages\n$", demo_of '{"messages":"abc"}')
    assert.matches("^demo: [^\n]+ holds no list of messages\n$", demo_of '"abc"')
    assert.matches(
      "^demo: [^\n]*messages%[1%]%.role: string expected, got number%)\n$",
      demo_of '[{"role":5}]'
    )
  end)

  it("says in one line what is wrong", function()
    assert.equal("demo: usage: lua demo.lua TRANSCRIPT.json [LIMIT]\n", demo "")
    assert.matches("^demo: nowhere.json: No such file or directory\n$", demo "nowhere.json")
    assert.matches("^demo: README.md is not JSON: [^\n]+\n$", demo "README.md")
    assert.matches(
      "^demo: LIMIT must be a whole number of tokens, got x\n$",
      demo "doc/examples/session.json x"
    )
  end)

  it("comes with a session whose provider's counts grow", function()
    local document = json.decode(json.read "doc/examples/session.json")
    local last, calls, results = 0, 0, 0
    assert.is_true(#document.messages >= 40)
    for _, message in ipairs(document.messages) do
      local usage = message.usage
      if usage then
        local prompt = usage.input_tokens + usage.cached_input_tokens + usage.cached_write_tokens
        assert.is_true(prompt > last)
        last = prompt
      end
      calls = calls + #(message.tool_calls or {})
      results = results + (message.role == "tool" and 1 or 0)
    end
    assert.equal(calls, results)
  end)
end)
