-- Native messages of nine shapes into ours, and back.
local compaction = require "compaction"
local nulls = require "spec.support.nulls"

local adapter = compaction.adapter
local IMAGE = ("iVBORw0KGgo"):rep(400)
local URL = "data:image/png;base64," .. IMAGE

-- One conversation, written in each shape; `null` stands where a field may be empty.
local system = "You are careful."
local ask = "Why does the import lose rows? Look at the screenshot, too."
local thought = "I should read both files."
local first_answer = "I will look."
local file = ("def rows(file):\n"):rep(40)
local second_answer = "It splits at every newline."
local thanks = "Then mend it."

local shapes = {}

function shapes.openai(null)
  return {
    { role = "system", content = system },
    { role = "user", content = ask, name = null },
    {
      role = "assistant",
      content = first_answer,
      reasoning_content = thought,
      refusal = null,
      tool_calls = {
        {
          id = "c1",
          type = "function",
          ["function"] = { name = "read", arguments = '{"n":1,"path":"a.py"}' },
        },
        { id = "c2", type = "function", ["function"] = { name = "shot", arguments = "{}" } },
      },
      function_call = null,
      model = "gpt-5",
      usage = {
        prompt_tokens = 1200,
        completion_tokens = 60,
        total_tokens = 1260,
        prompt_tokens_details = { cached_tokens = 1000, audio_tokens = null },
        completion_tokens_details = { reasoning_tokens = 20 },
      },
    },
    { role = "tool", tool_call_id = "c1", content = file },
    {
      role = "tool",
      tool_call_id = "c2",
      content = { { type = "text", text = "the screen" }, { type = "image_url", image_url = { url = URL } } },
    },
    { role = "assistant", content = second_answer, tool_calls = null, usage = null },
    { role = "user", content = thanks },
  }
end

function shapes.responses(null)
  return {
    { type = "message", role = "system", content = system },
    { role = "user", content = { { type = "input_text", text = ask } } },
    {
      type = "reasoning",
      id = "r1",
      summary = { { type = "summary_text", text = thought } },
      content = null,
      encrypted_content = ("x"):rep(5000),
    },
    {
      type = "message",
      role = "assistant",
      id = "m1",
      content = { { type = "output_text", text = first_answer, annotations = {} } },
    },
    {
      type = "function_call",
      id = "f1",
      call_id = "c1",
      name = "read",
      arguments = '{"n":1,"path":"a.py"}',
      status = null,
    },
    {
      type = "function_call",
      id = "f2",
      call_id = "c2",
      name = "shot",
      arguments = "{}",
      model = "gpt-5",
      usage = {
        input_tokens = 1200,
        output_tokens = 60,
        total_tokens = 1260,
        input_tokens_details = { cached_tokens = 1000 },
        output_tokens_details = { reasoning_tokens = 20 },
      },
    },
    { type = "function_call_output", call_id = "c1", id = null, output = file },
    {
      type = "function_call_output",
      call_id = "c2",
      output = { { type = "input_text", text = "the screen" }, { type = "input_image", image_url = URL } },
    },
    {
      type = "message",
      role = "assistant",
      content = { { type = "output_text", text = second_answer } },
      usage = null,
    },
    { role = "user", content = thanks },
  }
end

local anthropic_usage = {
  input_tokens = 200,
  cache_read_input_tokens = 1000,
  cache_creation_input_tokens = 0,
  output_tokens = 60,
  output_tokens_details = { thinking_tokens = 20 },
}
local picture = { type = "image", source = { type = "base64", media_type = "image/png", data = IMAGE } }

function shapes.anthropic(null)
  return {
    { role = "system", content = system },
    { role = "user", content = { { type = "text", text = ask, cache_control = null } } },
    {
      role = "assistant",
      content = {
        { type = "thinking", thinking = thought, signature = ("s"):rep(3000) },
        { type = "redacted_thinking", data = ("s"):rep(3000) },
        { type = "text", text = first_answer },
        { type = "tool_use", id = "c1", name = "read", input = { path = "a.py", n = 1 } },
        { type = "tool_use", id = "c2", name = "shot", input = {} },
      },
      stop_reason = null,
      model = "gpt-5",
      usage = anthropic_usage,
    },
    {
      role = "user",
      content = {
        { type = "tool_result", tool_use_id = "c1", content = file, is_error = null },
        {
          type = "tool_result",
          tool_use_id = "c2",
          content = { { type = "text", text = "the screen" }, picture },
        },
      },
    },
    { role = "assistant", content = second_answer, usage = null },
    { role = "user", content = thanks },
  }
end

function shapes.gemini(null)
  return {
    { role = "system", parts = { { text = system } } },
    { role = "user", parts = { { text = ask } } },
    {
      role = "model",
      parts = {
        { text = thought, thought = true },
        { text = first_answer, thoughtSignature = null },
        {
          functionCall = { name = "read", args = { path = "a.py", n = 1 } },
          thoughtSignature = ("s"):rep(3000),
        },
        { functionCall = { name = "shot", args = {} } },
      },
      modelVersion = "gpt-5",
      usageMetadata = {
        promptTokenCount = 1200,
        cachedContentTokenCount = 1000,
        candidatesTokenCount = 40,
        thoughtsTokenCount = 20,
        totalTokenCount = 1260,
        toolUsePromptTokenCount = null,
      },
    },
    {
      role = "function",
      parts = {
        { functionResponse = { name = "read", response = { output = file } } },
        { functionResponse = { name = "shot", response = { result = "the screen" } } },
        { inlineData = { mimeType = "image/png", data = IMAGE } },
      },
    },
    { role = "model", parts = { { text = second_answer } }, usageMetadata = null },
    { role = "user", parts = { { text = thanks } } },
  }
end

function shapes.bedrock(null)
  return {
    { role = "system", content = { { text = system } } },
    { role = "user", content = { { text = ask }, { cachePoint = { type = "default" } } } },
    {
      role = "assistant",
      content = {
        { reasoningContent = { reasoningText = { text = thought, signature = ("s"):rep(3000) } } },
        { text = first_answer },
        { toolUse = { toolUseId = "c1", name = "read", input = { path = "a.py", n = 1 } } },
        { toolUse = { toolUseId = "c2", name = "shot", input = {} } },
      },
      modelId = "gpt-5",
      usage = {
        inputTokens = 200,
        outputTokens = 60,
        totalTokens = 1260,
        cacheReadInputTokens = 1000,
        cacheWriteInputTokens = null,
      },
    },
    {
      role = "user",
      content = {
        { toolResult = { toolUseId = "c1", content = { { text = file } }, status = null } },
        {
          toolResult = {
            toolUseId = "c2",
            content = { { text = "the screen" }, { image = { format = "png", source = { bytes = IMAGE } } } },
          },
        },
      },
    },
    { role = "assistant", content = { { text = second_answer } }, usage = null },
    { role = "user", content = { { text = thanks } } },
  }
end

function shapes.ollama(null)
  return {
    { role = "system", content = system },
    { role = "user", content = ask, images = null },
    {
      message = {
        role = "assistant",
        content = first_answer,
        thinking = thought,
        tool_calls = {
          { ["function"] = { name = "read", arguments = { path = "a.py", n = 1 } } },
          { ["function"] = { name = "shot", arguments = {} } },
        },
      },
      model = "gpt-5",
      done = true,
      prompt_eval_count = 1200,
      eval_count = 60,
    },
    { role = "tool", tool_name = "read", content = file },
    { role = "tool", tool_name = "shot", content = "the screen", images = { IMAGE } },
    { role = "assistant", content = second_answer, tool_calls = null },
    { role = "user", content = thanks },
  }
end

function shapes.codecompanion(null)
  return {
    { role = "system", content = system },
    { role = "user", content = ask, _meta = { tag = null } },
    {
      role = "llm",
      content = first_answer,
      reasoning = { content = thought, encrypted_content = ("s"):rep(3000) },
      tools = {
        calls = {
          {
            id = "x1",
            call_id = "c1",
            ["function"] = { name = "read", arguments = { path = "a.py", n = 1 } },
          },
          { id = "x2", call_id = "c2", ["function"] = { name = "shot", arguments = "{}" } },
        },
      },
      model = "gpt-5",
      usage = { prompt_tokens = 1200, completion_tokens = 60 },
    },
    { role = "tool", tools = { call_id = "c1", name = null }, content = file },
    {
      role = "tool",
      tools = { call_id = "c2" },
      content = { { type = "text", text = "the screen" }, picture },
    },
    { role = "llm", content = second_answer, tools = null },
    { role = "user", content = thanks },
  }
end

function shapes.avante(null)
  return {
    { message = { role = "system", content = system }, uuid = "u0" },
    { message = { role = "user", content = { ask } }, uuid = "u1", state = null },
    { message = { role = "user", content = "not sent" }, uuid = "u2", just_for_display = true },
    {
      message = {
        role = "assistant",
        content = {
          { type = "thinking", thinking = thought, signature = "s" },
          first_answer,
          { type = "tool_use", id = "c1", name = "read", input = { path = "a.py", n = 1 } },
          { type = "tool_use", id = "c2", name = "shot", input = {} },
        },
        model = "gpt-5",
      },
      usage = { prompt_tokens = 1200, completion_tokens = 60 },
      uuid = "u3",
    },
    {
      message = {
        role = "user",
        content = {
          { type = "tool_result", tool_use_id = "c1", content = file },
          { type = "tool_result", tool_use_id = "c2", content = "the screen" },
          picture,
        },
      },
      uuid = "u4",
    },
    { message = { role = "assistant", content = second_answer }, uuid = "u5" },
    { message = { role = "user", content = thanks }, uuid = "u6" },
  }
end

function shapes.copilotchat(null)
  return {
    { role = "system", content = system },
    { role = "user", content = ask },
    {
      role = "assistant",
      content = first_answer,
      reasoning = thought,
      tool_calls = {
        { id = "c1", index = 1, name = "read", arguments = '{"n":1,"path":"a.py"}' },
        { id = "c2", index = 2, name = "shot", arguments = "{}" },
      },
      model = "gpt-5",
      usage = { prompt_tokens = 1200, completion_tokens = 60, total_tokens = 1260 },
    },
    { role = "tool", tool_call_id = "c1", content = file },
    { role = "tool", tool_call_id = "c2", content = { { type = "text", text = "the screen" }, picture } },
    { role = "assistant", content = second_answer, reasoning = null },
    { role = "user", content = thanks },
  }
end

local NAMES = {
  "openai",
  "responses",
  "anthropic",
  "gemini",
  "bedrock",
  "ollama",
  "codecompanion",
  "avante",
  "copilotchat",
}

-- What a conversation answers, message by message.
local function answers(messages)
  local all = {}
  for _, estimator in ipairs { "auto", "seed" } do
    local c = compaction.conversation(messages, { estimator = estimator })
    local row = { used = c:used(), scale = c:scale(), cuts = {}, sizes = {} }
    for i = 1, #c do
      row.sizes[i], row.cuts[i] = c:estimate(i, i), c:can_cut(i)
    end
    for _, keep in ipairs { 20, 60, 400, 5000 } do
      row[keep] = c:keep_from(keep)
    end
    all[estimator] = row
  end
  return all
end

local function roles(messages)
  local names = {}
  for i, message in ipairs(messages) do
    names[i] = message.role
  end
  return table.concat(names, " ")
end

-- A deep copy that tells tables apart by what they hold.
local function copy(value)
  if type(value) ~= "table" then
    return value
  end
  local new = setmetatable({}, getmetatable(value))
  for key, item in pairs(value) do
    new[key] = copy(item)
  end
  return new
end

describe("one conversation in nine shapes", function()
  for _, null in ipairs(nulls) do
    it("has the same sizes and cuts in each, with " .. null.name, function()
      -- two of the shapes keep no word of what was reasoning or cached
      local detailed = answers(adapter.openai.to_messages(shapes.openai(null.value)))
      local coarse = shapes.openai(null.value)
      coarse[3].usage = { prompt_tokens = 1200, completion_tokens = 60 }
      coarse = answers(adapter.openai.to_messages(coarse))
      local without_details =
        { bedrock = true, ollama = true, codecompanion = true, avante = true, copilotchat = true }
      for _, name in ipairs(NAMES) do
        local native = shapes[name](null.value)
        local before = copy(native)
        local messages = adapter[name].to_messages(native)
        assert.equal("system user assistant tool tool assistant user", roles(messages), name)
        assert.same(without_details[name] and coarse or detailed, answers(messages), name)
        assert.same(before, native, name)
      end
    end)
  end

  it("is told by its marks", function()
    for _, name in ipairs(NAMES) do
      assert.equal(name, adapter.detect(shapes[name](nil)), name)
    end
  end)

  it("goes back by identity", function()
    for _, name in ipairs(NAMES) do
      local native = shapes[name](nil)
      local at = 1
      for _, message in ipairs(adapter[name].to_messages(native)) do
        local sent = message.native
        local run = name == "responses" and sent[1] and sent or { sent } -- a run of items is one message
        for _, item in ipairs(run) do
          while native[at] and native[at] ~= item and native[at].message ~= item do
            at = at + 1
          end
          assert.truthy(native[at], name)
        end
      end
    end
  end)
end)

describe("detect", function()
  it("names a shape from a single message", function()
    for name, message in pairs {
      openai = { role = "user", content = "hello" },
      responses = { type = "function_call_output", call_id = "c", output = "x" },
      anthropic = { role = "user", content = { { type = "tool_result", tool_use_id = "c", content = "x" } } },
      gemini = { role = "user", parts = { { text = "x" } } },
      bedrock = { role = "user", content = { { text = "x" } } },
      ollama = { role = "tool", tool_name = "read", content = "x" },
      codecompanion = { role = "llm", content = "x" },
      avante = { message = { role = "user", content = "x" }, uuid = "u" },
      copilotchat = {
        role = "assistant",
        content = "",
        tool_calls = { { id = "c", name = "read", arguments = "{}" } },
      },
    } do
      assert.equal(name, adapter.detect(message), name)
      assert.equal(name, adapter.detect { { role = "user", content = "plain" }, message }, name)
    end
  end)

  it("takes a name that is given, and refuses one that is none", function()
    assert.equal("bedrock", adapter.detect({ role = "llm" }, "bedrock"))
    assert.has_error(function()
      adapter.detect({}, "claude")
    end, "bad argument #2 to 'detect' (unknown shape 'claude')")
    assert.is_nil(adapter.claude)
  end)

  it("tells a response by what stands around the message", function()
    assert.equal(
      "openai",
      adapter.detect { choices = { { message = { role = "assistant", content = "x" } } } }
    )
    assert.equal("gemini", adapter.detect { candidates = {} })
    assert.equal("ollama", adapter.detect { message = { role = "assistant", content = "x" }, done = true })
    assert.equal("bedrock", adapter.detect { output = { message = { role = "assistant", content = {} } } })
    assert.equal("responses", adapter.detect { output = {}, usage = {} })
  end)
end)

describe("to_messages", function()
  it("finds usage and model on the response around the message", function()
    local function check(name, response, message)
      local out = adapter[name].to_messages(response)
      assert.equal(1, #out, name)
      assert.equal("assistant", out[1].role, name)
      assert.equal("m", out[1].model, name)
      assert.equal(70, out[1].usage.input_tokens + out[1].usage.cached_input_tokens, name)
      assert.equal(5, out[1].usage.output_tokens, name)
      assert.equal(message, out[1].native, name)
    end
    local message = { role = "assistant", content = "x" }
    check("openai", {
      choices = { { message = message } },
      model = "m",
      usage = { prompt_tokens = 70, completion_tokens = 5 },
    }, message)
    message = { role = "model", parts = { { text = "x" } } }
    check("gemini", {
      candidates = { { content = message } },
      modelVersion = "m",
      usageMetadata = { promptTokenCount = 70, candidatesTokenCount = 5 },
    }, message)
    message = { role = "assistant", content = { { text = "x" } } }
    check(
      "bedrock",
      { output = { message = message }, modelId = "m", usage = { inputTokens = 70, outputTokens = 5 } },
      message
    )
    message = { role = "assistant", content = "x" }
    check("ollama", { message = message, model = "m", prompt_eval_count = 70, eval_count = 5 }, message)
    local item = { type = "message", role = "assistant", content = { { type = "output_text", text = "x" } } }
    check(
      "responses",
      { output = { item }, model = "m", usage = { input_tokens = 70, output_tokens = 5 } },
      item
    )
  end)

  it("makes one turn of a run of Responses items, and pairs by call_id", function()
    local native = {
      { type = "reasoning", summary = {}, encrypted_content = "x" },
      { type = "function_call", id = "f1", call_id = "c1", name = "a", arguments = "{}" },
      { type = "custom_tool_call", id = "f2", call_id = "c2", name = "b", input = "raw text" },
      { type = "function_call_output", call_id = "c1", output = "1" },
      { type = "custom_tool_call_output", call_id = "c2", output = "2" },
      { type = "local_shell_call", call_id = "c3", action = { command = { "ls" } } },
      { type = "local_shell_call_output", call_id = "c3", output = "3" },
      { type = "web_search_call", id = "w", action = { query = "lua" } },
    }
    local out = adapter.responses.to_messages(native)
    assert.equal("assistant tool tool assistant tool assistant", roles(out))
    assert.same({ native[1], native[2], native[3] }, out[1].native)
    assert.equal("c1", out[1].tool_calls[1].id)
    assert.equal("raw text", out[1].tool_calls[2]["function"].arguments)
    assert.equal("local_shell", out[4].tool_calls[1]["function"].name)
    assert.equal(0, compaction.conversation(out):pending())
    assert.truthy(out[6].content:find('"query":"lua"', 1, true)) -- an unknown item is never free
  end)

  it("gives media beside a tool result to that result", function()
    local out = adapter.anthropic.to_messages {
      {
        role = "user",
        content = {
          { type = "tool_result", tool_use_id = "c1", content = "one" },
          { type = "tool_result", tool_use_id = "c2", content = "two" },
          picture,
          { type = "text", text = "What is it?" },
        },
      },
    }
    assert.equal("tool tool user", roles(out))
    assert.equal("one", out[1].content)
    assert.equal(2, #out[2].multi_content)
    assert.equal("What is it?", out[3].content)
    assert.equal(out[1].native, out[3].native)
  end)

  it("counts an object with one text as that text, any other as its JSON", function()
    local function response(value)
      return adapter.gemini.to_messages({
        role = "user",
        parts = { { functionResponse = { name = "f", response = value } } },
      })[1]
    end
    for _, key in ipairs { "output", "result", "content" } do
      assert.equal("plain", response({ [key] = "plain" }).content)
    end
    assert.equal('{"text":"plain"}', response({ text = "plain" }).content)
    assert.equal('{"error":"e","output":"o"}', response({ output = "o", error = "e" }).content)
    assert.equal("[1,2]", response({ 1, 2 }).content)
    assert.equal('{"output":{"a":1}}', response({ output = { a = 1 } }).content)
  end)

  it("counts base64 media as one attachment, wherever it stands", function()
    local plain = compaction.estimate_message_tokens { role = "user", content = "" }
    local function size(name, native)
      local sum = 0
      for _, message in ipairs(adapter[name].to_messages(native)) do
        sum = sum + compaction.estimate_message_tokens(message)
      end
      return sum
    end
    for _, case in ipairs {
      { "openai", { role = "user", content = { { type = "image_url", image_url = { url = URL } } } } },
      { "openai", { role = "tool", tool_call_id = "c", content = URL } },
      {
        "openai",
        {
          role = "user",
          content = { { type = "input_audio", input_audio = { data = IMAGE, format = "wav" } } },
        },
      },
      { "responses", { role = "user", content = { { type = "input_image", image_url = URL } } } },
      { "responses", { type = "function_call_output", call_id = "c", output = URL } },
      { "responses", { type = "image_generation_call", id = "i", result = IMAGE } },
      { "anthropic", { role = "user", content = { picture } } },
      {
        "anthropic",
        { role = "user", content = { { type = "tool_result", tool_use_id = "c", content = { picture } } } },
      },
      {
        "anthropic",
        { role = "user", content = { { type = "document", source = { type = "base64", data = IMAGE } } } },
      },
      {
        "gemini",
        { role = "user", parts = { { inline_data = { mime_type = "image/png", data = IMAGE } } } },
      },
      {
        "bedrock",
        { role = "user", content = { { image = { format = "png", source = { bytes = IMAGE } } } } },
      },
      { "ollama", { role = "user", content = "", images = { IMAGE } } },
      { "codecompanion", { role = "user", content = IMAGE, _meta = { tag = "image" } } },
      { "codecompanion", { role = "user", content = IMAGE, context = { mimetype = "image/png" } } },
      { "avante", { message = { role = "user", content = { picture } }, uuid = "u" } },
    } do
      assert.equal(plain + 1500, size(case[1], case[2]), case[1])
    end
    -- inside a value that a tool returned
    local nested = { shot = { type = "image", data = IMAGE, mimeType = "image/png" }, note = "ok" }
    local part = { functionResponse = { name = "f", response = nested } }
    local big = size("gemini", { role = "user", parts = { part } })
    assert.truthy(big > 1500 and big < 1560, big)
  end)

  it("never takes an unknown part for nothing", function()
    for name, native in pairs {
      openai = { role = "user", content = { { type = "hologram", words = ("w"):rep(700) } } },
      anthropic = { role = "user", content = { { type = "search_result", title = ("w"):rep(700) } } },
      gemini = { role = "user", parts = { { executableCode = { code = ("w"):rep(700) } } } },
      bedrock = { role = "user", content = { { searchResult = { title = ("w"):rep(700) } } } },
    } do
      assert.truthy(compaction.estimate_message_tokens(adapter[name].to_messages(native)[1]) > 200, name)
    end
  end)

  it("reads system entries in any shape", function()
    for name, native in pairs {
      anthropic = { role = "system", content = { { type = "text", text = "s" } } },
      gemini = { role = "system", parts = { { text = "s" } } },
      bedrock = { role = "system", content = { { text = "s" } } },
      responses = { role = "developer", content = "s" },
      avante = { message = { role = "system", content = "s" } },
    } do
      local out = adapter[name].to_messages { native }
      assert.equal(name == "responses" and "developer" or "system", out[1].role, name)
      assert.equal("s", out[1].content, name)
    end
  end)

  it("leaves out what Avante does not send, and reads its reasoning items", function()
    local out = adapter.avante.to_messages {
      { message = { role = "user", content = "old" }, uuid = "1", is_compacted = true },
      { message = { role = "user", content = "shown" }, uuid = "2", just_for_display = true },
      {
        message = {
          role = "assistant",
          content = { type = "reasoning", summary = { { type = "summary_text", text = "hm" } } },
        },
      },
    }
    assert.equal("assistant", roles(out))
    assert.equal("hm", out[1].reasoning_content)
  end)

  it("splits a total that is all there is", function()
    local text = ("word "):rep(100)
    local out = adapter.copilotchat.to_messages {
      { role = "assistant", content = text, usage = { total_tokens = 5000 } },
    }
    assert.equal(5000, out[1].usage.input_tokens + out[1].usage.output_tokens)
    assert.truthy(out[1].usage.output_tokens > 90)
    assert.is_string(out[1].usage.suspect)
    out =
      adapter.codecompanion.to_messages { role = "llm", content = text, _meta = { cumulative_tokens = 5000 } }
    assert.equal(5000, out[1].usage.input_tokens + out[1].usage.output_tokens)
  end)

  it("carries the mark of an earlier compaction over", function()
    local mark = { version = 1, kept = 2 }
    assert.equal(
      mark,
      adapter.openai.to_messages({ role = "user", content = "s", compaction = mark })[1].compaction
    )
    assert.equal(
      mark,
      adapter.gemini.to_messages({ role = "user", parts = { { text = "s" } }, compaction = mark })[1].compaction
    )
  end)

  it("keeps tables of arguments as they are", function()
    local input = { path = "a" }
    local block = { type = "tool_use", id = "c", name = "read", input = input }
    local out = adapter.anthropic.to_messages { role = "assistant", content = { block } }
    assert.equal(input, out[1].tool_calls[1]["function"].arguments)
  end)

  it("charges a table of arguments for all that stands in it", function()
    local function size(arguments)
      return compaction.estimate_message_tokens {
        role = "assistant",
        tool_calls = { { ["function"] = { name = "f", arguments = arguments } } },
      }
    end
    assert.equal(size '{"1":1,"2":2,"x":"abcdefgh"}', size { 1, 2, x = "abcdefgh" })
    assert.equal(size "[1,2]", size { 1, 2 })
  end)

  it("refuses what is wrong, naming its place", function()
    for _, case in ipairs {
      { "openai", 5, "bad argument #1 to 'to_messages' (message or list of messages expected, got number)" },
      { "openai", { "x" }, "bad argument #1 to 'to_messages' (messages[1]: table expected, got string)" },
      {
        "openai",
        { messages = {} },
        "bad argument #1 to 'to_messages' (message or list of messages expected, got a table that is neither)",
      },
      {
        "openai",
        { { role = 5 } },
        "bad argument #1 to 'to_messages' (messages[1].role: string expected, got number)",
      },
      {
        "openai",
        { { role = "user", content = 5 } },
        "bad argument #1 to 'to_messages' (messages[1].content: string or table expected, got number)",
      },
      {
        "openai",
        { { role = "assistant", tool_calls = { { ["function"] = { name = {} } } } } },
        "bad argument #1 to 'to_messages' (messages[1].tool_calls[1].function.name: string expected, got table)",
      },
      {
        "anthropic",
        { { role = "user", content = { { type = "text", text = 5 } } } },
        "bad argument #1 to 'to_messages' (messages[1].content[1].text: string expected, got number)",
      },
      {
        "anthropic",
        { { role = "assistant", content = "x", usage = { input_tokens = "9" } } },
        "bad argument #1 to 'to_messages' (messages[1].usage.input_tokens: number expected, got string)",
      },
      {
        "responses",
        { 5 },
        "bad argument #1 to 'to_messages' (messages[1]: item (a table) expected, got number)",
      },
    } do
      local ok, message = pcall(adapter[case[1]].to_messages, case[2])
      assert.is_false(ok)
      assert.equal(case[3], message)
    end
  end)

  it("ends on tables that hold themselves", function()
    local loop = {}
    loop.content = loop
    loop.type = "tool_result"
    assert.has_error(function()
      adapter.anthropic.to_messages { { role = "user", content = { loop } } }
    end)
    local response = {}
    response.self = response
    assert.has_error(function()
      adapter.gemini.to_messages {
        { role = "user", parts = { { functionResponse = { name = "f", response = response } } } },
      }
    end)
    local wide = { 1 }
    for _ = 1, 60 do
      wide = { a = wide, b = wide }
    end
    assert.has_error(function()
      adapter.gemini.to_messages {
        { role = "user", parts = { { functionResponse = { name = "f", response = wide } } } },
      }
    end)
  end)
end)

-- Faults that a review found, each kind once.
describe("to_messages, of what real servers send,", function()
  local function read(name, native)
    return adapter[name].to_messages(native)
  end

  it("finds an image inside a Gemini result", function()
    local part = { inlineData = { mimeType = "image/png", data = IMAGE } }
    local out = read("gemini", {
      role = "user",
      parts = { { functionResponse = { name = "f", response = { output = "r" }, parts = { part } } } },
    })
    assert.equal(2, #out[1].multi_content)
  end)

  it("takes a blocked answer for none", function()
    assert.same({}, read("gemini", { candidates = { { finishReason = "SAFETY" } }, usageMetadata = {} }))
    assert.same({}, read("gemini", { promptFeedback = { blockReason = "SAFETY" } }))
  end)

  it("reads Mistral's lists of thoughts, transcripts, and images of an answer", function()
    local block = { type = "thinking", thinking = { { type = "text", text = "hm" } } }
    local out = read("openai", { role = "assistant", content = { block, { type = "text", text = "x" } } })
    assert.same({ "hm", "x" }, { out[1].reasoning_content, out[1].content })
    assert.equal("openai", adapter.detect { role = "assistant", content = { block } })
    out =
      read("openai", { role = "assistant", content = nil, audio = { transcript = "hello", data = IMAGE } })
    assert.equal("hello", out[1].content)
    local native =
      { role = "assistant", content = "x", images = { { type = "image_url", image_url = { url = URL } } } }
    assert.equal(2, #read("openai", native)[1].multi_content)
    assert.equal("openai", adapter.detect(native))
  end)

  it("reads a system prompt that is a list of blocks", function()
    for _, name in ipairs { "anthropic", "bedrock", "gemini" } do
      local block = name == "anthropic" and { type = "text", text = "s" } or { text = "s" }
      assert.same({ "system", "s" }, { read(name, { block })[1].role, read(name, { block })[1].content })
    end
  end)

  it("does not size what is encrypted", function()
    local secret = ("x"):rep(9000)
    for name, native in pairs {
      responses = { type = "compaction", encrypted_content = secret },
      anthropic = {
        role = "assistant",
        content = {
          { type = "web_search_tool_result", content = { { title = "t", encrypted_content = secret } } },
        },
      },
    } do
      assert.truthy(compaction.estimate_message_tokens(read(name, native)[1]) < 100, name)
    end
    local blob = { type = "resource", resource = { mimeType = "image/png", blob = secret } }
    local out = read(
      "anthropic",
      { role = "user", content = { { type = "tool_result", tool_use_id = "c", content = { blob } } } }
    )
    assert.truthy(compaction.estimate_message_tokens(out[1]) < 1600)
    out = read(
      "codecompanion",
      { role = "tool", tools = { call_id = "c" }, content = IMAGE, _meta = { tag = "image" } }
    )
    assert.equal(1, #out[1].multi_content)
  end)

  it("reads calls of built-in tools in whole", function()
    local diff = ("+ line\n"):rep(100)
    local out =
      read("responses", { { type = "apply_patch_call", call_id = "c", operation = { diff = diff } } })
    assert.truthy(compaction.estimate_message_tokens(out[1]) > 150)
    out = read("responses", { type = "response.completed", response = { output = {}, usage = {} } })
    assert.same({}, out)
  end)

  it("tells an Anthropic answer from a Responses item", function()
    local answer =
      { type = "message", role = "assistant", content = { { type = "text", text = "x" } }, stop_reason = nil }
    assert.equal("anthropic", adapter.detect(answer))
    for _, block in ipairs { { guardContent = {} }, { audio = {} }, { citationsContent = {} } } do
      assert.equal("bedrock", adapter.detect { role = "user", content = { block } })
    end
    assert.equal(
      "anthropic",
      adapter.detect { role = "assistant", content = { { type = "mcp_tool_use", id = "x" } } }
    )
  end)

  it("takes a null beside the text of a result for nothing", function()
    for _, null in ipairs(nulls) do
      local response = { output = "plain", error = null.value }
      local out = read(
        "gemini",
        { role = "user", parts = { { functionResponse = { name = "f", response = response } } } }
      )
      assert.equal("plain", out[1].content)
    end
    local out = read("anthropic", {
      role = "user",
      content = { { type = "tool_result", tool_use_id = "c", content = { { type = "file", path = "x" } } } },
    })
    assert.equal('{"path":"x","type":"file"}', out[1].content)
    out = read("openai", { role = "user", content = "data:image/png;base64, is how it begins" })
    assert.equal("data:image/png;base64, is how it begins", out[1].content)
  end)
end)

describe("from_message", function()
  local summary = { role = "user", content = "What happened so far.", compaction = { version = 1, kept = 3 } }
  local missing = {
    role = "tool",
    tool_call_id = "c1",
    name = "read",
    content = "[missing]",
    compaction = { version = 1, placeholder = true },
  }
  local native_summary = {
    openai = { role = "user", content = summary.content },
    responses = { type = "message", role = "user", content = summary.content },
    anthropic = { role = "user", content = summary.content },
    gemini = { role = "user", parts = { { text = summary.content } } },
    bedrock = { role = "user", content = { { text = summary.content } } },
    ollama = { role = "user", content = summary.content },
    codecompanion = { role = "user", content = summary.content },
    avante = { message = { role = "user", content = summary.content } },
    copilotchat = { role = "user", content = summary.content },
  }
  local anthropic_missing =
    { role = "user", content = { { type = "tool_result", tool_use_id = "c1", content = "[missing]" } } }
  local native_missing = {
    openai = { role = "tool", tool_call_id = "c1", content = "[missing]" },
    responses = { type = "function_call_output", call_id = "c1", output = "[missing]" },
    anthropic = anthropic_missing,
    gemini = {
      role = "user",
      parts = { { functionResponse = { id = "c1", name = "read", response = { output = "[missing]" } } } },
    },
    bedrock = {
      role = "user",
      content = { { toolResult = { toolUseId = "c1", content = { { text = "[missing]" } } } } },
    },
    ollama = { role = "tool", tool_call_id = "c1", tool_name = "read", content = "[missing]" },
    codecompanion = { role = "tool", tools = { call_id = "c1", name = "read" }, content = "[missing]" },
    avante = { message = anthropic_missing },
    copilotchat = { role = "tool", tool_call_id = "c1", content = "[missing]" },
  }

  for _, name in ipairs(NAMES) do
    it("makes a summary and a placeholder of the shape of " .. name, function()
      assert.same(native_summary[name], adapter[name].from_message(summary))
      assert.same(native_missing[name], adapter[name].from_message(missing))
      local back = adapter[name].to_messages { adapter[name].from_message(missing) }
      assert.equal("tool", back[1].role)
      assert.equal("c1", back[1].tool_call_id)
      assert.equal("[missing]", back[1].content)
    end)
  end

  it("makes calls and media that read back the same", function()
    for _, name in ipairs(NAMES) do
      local before = adapter[name].to_messages(shapes[name](nil))
      for i = 3, 4 do
        local made = adapter[name].from_message(before[i])
        local back = adapter[name].to_messages(made[1] and made or { made })
        local want = {
          role = before[i].role,
          content = before[i].content,
          multi_content = before[i].multi_content,
          tool_calls = before[i].tool_calls,
        }
        local got = {
          role = before[i].role,
          content = back[1].content,
          multi_content = back[1].multi_content,
          tool_calls = back[1].tool_calls,
        }
        assert.equal(
          compaction.conversation({ want }, { estimator = "openai" }):estimate(1, 1),
          compaction.conversation({ got }, { estimator = "openai" }):estimate(1, 1),
          name .. i
        )
      end
    end
  end)
end)

describe("from_message, for any message,", function()
  it("takes null for nothing", function()
    for _, null in ipairs(nulls) do
      for _, name in ipairs(NAMES) do
        local made = adapter[name].from_message {
          role = "assistant",
          content = null.value,
          multi_content = null.value,
          tool_calls = { { id = "c", ["function"] = { name = "f", arguments = {} } } },
        }
        local back = adapter[name].to_messages(made[1] and made or { made })
        assert.equal("f", back[1].tool_calls[1]["function"].name)
        assert.is_nil(back[1].multi_content)
      end
    end
  end)

  it("makes an image of a data URL in each shape that has images", function()
    local part = { type = "image_url", image_url = { url = URL } }
    for _, name in ipairs { "openai", "responses", "anthropic", "gemini", "ollama", "avante" } do
      local made = adapter[name].from_message {
        role = "user",
        multi_content = { { type = "text", text = "look" }, part },
      }
      local back = adapter[name].to_messages { made }
      assert.equal(2, #back[1].multi_content, name)
    end
  end)

  it("gives arguments the form that the provider takes", function()
    local call = { id = "c", ["function"] = { name = "f", arguments = { b = 1, a = "x" } } }
    local message = { role = "assistant", tool_calls = { call } }
    assert.equal('{"a":"x","b":1}', adapter.openai.from_message(message).tool_calls[1]["function"].arguments)
    assert.equal('{"a":"x","b":1}', adapter.responses.from_message(message).arguments)
    assert.same({ b = 1, a = "x" }, adapter.anthropic.from_message(message).content[1].input)
    call["function"].arguments = '{"a":1}'
    assert.has_error(function()
      adapter.anthropic.from_message(message)
    end)
  end)
end)

describe("usage", function()
  local function counts(name, native)
    local u = adapter[name].usage(native)
    return {
      u.input_tokens,
      u.cached_input_tokens,
      u.cached_write_tokens,
      u.output_tokens,
      u.reasoning_tokens,
    }
  end
  local function prompt(u)
    return u.input_tokens + u.cached_input_tokens + u.cached_write_tokens
  end

  it("knows cached tokens inside the prompt (OpenAI, Gemini, llama.cpp)", function()
    local native =
      { prompt_tokens = 38196, prompt_tokens_details = { cached_tokens = 38153 }, completion_tokens = 400 }
    assert.equal(38196, prompt(adapter.openai.usage(native)))
    assert.same({ 43, 38153, 0, 400, 0 }, counts("openai", native))
    native =
      { input_tokens = 184704, cached_input_tokens = 183936, output_tokens = 49, total_tokens = 184753 }
    assert.same({ 768, 183936, 0, 49, 0 }, counts("responses", native))
    native = {
      promptTokenCount = 100,
      cachedContentTokenCount = 90,
      candidatesTokenCount = 5,
      totalTokenCount = 105,
    }
    assert.same({ 10, 90, 0, 5, 0 }, counts("gemini", native))
    native = {
      prompt_tokens = 100,
      prompt_tokens_details = { cached_tokens = 60, cache_write_tokens = 30 },
      completion_tokens = 5,
    }
    assert.same({ 10, 60, 30, 5, 0 }, counts("openai", native))
    assert.same(
      { 10, 90, 0, 5, 0 },
      counts("openai", { prompt_tokens = 100, prompt_cache_hit_tokens = 90, completion_tokens = 5 })
    )
  end)

  it("knows cached tokens beside the prompt (Anthropic, Bedrock)", function()
    local native = { input_tokens = 206, cache_read_input_tokens = 98432, output_tokens = 78 }
    assert.equal(98638, prompt(adapter.anthropic.usage(native)))
    assert.same({ 206, 98432, 0, 78, 0 }, counts("anthropic", native))
    native = {
      inputTokens = 4,
      outputTokens = 9,
      cacheReadInputTokens = 1000,
      cacheWriteInputTokens = 20,
      totalTokens = 1033,
    }
    assert.same({ 4, 1000, 20, 9, 0 }, counts("bedrock", native))
    native = {
      input_tokens = 1,
      cache_creation = { ephemeral_5m_input_tokens = 7, ephemeral_1h_input_tokens = 5 },
      output_tokens = 2,
    }
    assert.same({ 1, 0, 12, 2, 0 }, counts("anthropic", native))
  end)

  it("takes more cached tokens than the prompt has apart, or holds them", function()
    local native = {
      prompt_tokens = 100,
      prompt_tokens_details = { cached_tokens = 900 },
      completion_tokens = 5,
      total_tokens = 1005,
    }
    assert.same({ 100, 900, 0, 5, 0 }, counts("openai", native))
    assert.is_string(adapter.openai.usage(native).suspect)
    native.total_tokens = 105
    assert.same({ 0, 100, 0, 5, 0 }, counts("openai", native))
    assert.is_string(adapter.openai.usage(native).suspect)
    native = {
      prompt_tokens = 100,
      prompt_tokens_details = { cached_tokens = 90, cache_write_tokens = 90 },
      completion_tokens = 5,
    }
    assert.same({ 0, 90, 10, 5, 0 }, counts("openai", native))
  end)

  it("puts reasoning into the output", function()
    local native = { prompt_tokens = 331, completion_tokens = 11, total_tokens = 613 }
    native.completion_tokens_details = { reasoning_tokens = 271 }
    assert.same({ 331, 0, 0, 282, 271 }, counts("openai", native)) -- xAI: beside, and in the total
    native =
      { prompt_tokens = 331, completion_tokens = 300, completion_tokens_details = { reasoning_tokens = 271 } }
    assert.same({ 331, 0, 0, 300, 271 }, counts("openai", native))
    native.completion_tokens = 11 -- more reasoning than output: it was not in it
    assert.same({ 331, 0, 0, 282, 271 }, counts("openai", native))
    native = {
      promptTokenCount = 900,
      candidatesTokenCount = 5,
      thoughtsTokenCount = 40,
      toolUsePromptTokenCount = 10,
      totalTokenCount = 955,
    }
    assert.same({ 910, 0, 0, 45, 40 }, counts("gemini", native))
    native =
      { promptTokenCount = 900, candidatesTokenCount = 45, thoughtsTokenCount = 40, totalTokenCount = 945 }
    assert.same({ 900, 0, 0, 45, 40 }, counts("gemini", native)) -- a server that counts them in
  end)

  it("takes a total only where parts are missing", function()
    assert.same({ 95, 0, 0, 5, 0 }, counts("openai", { completion_tokens = 5, total_tokens = 100 }))
    assert.same({ 95, 0, 0, 5, 0 }, counts("openai", { prompt_tokens = 95, total_tokens = 100 }))
    assert.same({ 100, 0, 0, 0, 0 }, counts("copilotchat", { total_tokens = 100 }))
    assert.same(
      { 200, 0, 0, 50, 0 },
      counts("openai", { prompt_tokens = 200, completion_tokens = 50, total_tokens = 100 })
    )
    assert.is_string(
      adapter.openai.usage({ prompt_tokens = 200, completion_tokens = 50, total_tokens = 100 }).suspect
    )
    assert.is_nil(
      adapter.openai.usage({ prompt_tokens = 200, completion_tokens = 50, total_tokens = 250 }).suspect
    )
  end)

  it("reads a stream: later values overwrite, null never does", function()
    for _, null in ipairs(nulls) do
      local chunks =
        { null.value, { usage = null.value }, null.value, { prompt_tokens = 7, completion_tokens = 3 } }
      assert.same({ 7, 0, 0, 3, 0 }, counts("openai", chunks))
    end
    local start = { input_tokens = 2049, cache_read_input_tokens = 11, output_tokens = 1 }
    local delta = { input_tokens = 13520, output_tokens = 40 }
    assert.same({ 13520, 11, 0, 40, 0 }, counts("anthropic", { start, delta }))
    assert.same({ 2049, 11, 0, 40, 0 }, counts("anthropic", { start, { output_tokens = 40 } }))
    assert.same(
      { 2049, 11, 0, 40, 0 },
      counts("anthropic", {
        { type = "message_start", message = { usage = start } },
        { type = "content_block_delta" },
        { type = "message_delta", usage = { output_tokens = 40 } },
      })
    )
    assert.is_nil(start.suspect)
  end)

  it("does not count a cache write twice", function()
    local native = {
      input_tokens = 0,
      cache_creation_input_tokens = 5000,
      cache_read_input_tokens = 0,
      output_tokens = 10,
      total_tokens = 5010,
    }
    assert.same({ 0, 0, 5000, 10, 0 }, counts("anthropic", native))
    native = { inputTokens = 0, cacheWriteInputTokens = 5000, outputTokens = 10, totalTokens = 5010 }
    assert.same({ 0, 0, 5000, 10, 0 }, counts("bedrock", native))
  end)

  it("knows Anthropic's names under another adapter, and totals of everything", function()
    local native = { input_tokens = 206, cache_read_input_tokens = 98432, output_tokens = 78 }
    assert.same({ 206, 98432, 0, 78, 0 }, counts("avante", native))
    native = {
      prompt_tokens = 206,
      completion_tokens = 78,
      total_tokens = 98766,
      prompt_tokens_details = { cached_tokens = 98432 },
      completion_tokens_details = { reasoning_tokens = 50 },
    }
    assert.same({ 206, 98432, 0, 128, 50 }, counts("openai", native))
  end)

  it("finds usage inside events", function()
    assert.same(
      { 7, 0, 0, 3, 0 },
      counts("bedrock", { { metadata = { usage = { inputTokens = 7, outputTokens = 3 } } } })
    )
    assert.same(
      { 7, 0, 0, 3, 0 },
      counts("openai", { x_groq = { usage = { prompt_tokens = 7, completion_tokens = 3 } } })
    )
    assert.same({ 7, 0, 0, 3, 0 }, counts("gemini", { prompt_token_count = 7, candidates_token_count = 3 }))
    assert.is_nil(adapter.gemini.usage({ promptTokenCount = 1000, totalTokenCount = 1000 }).suspect)
  end)

  it("says nothing where nothing is told", function()
    assert.is_nil(adapter.openai.usage(nil))
    assert.is_nil(adapter.openai.usage {})
    for _, null in ipairs(nulls) do
      assert.is_nil(adapter.gemini.usage(null.value))
    end
  end)

  it("never gives a negative number", function()
    for a = -1, 2 do
      for b = -1, 2 do
        for c = -1, 2 do
          for d = -1, 4 do
            local u = adapter.openai.usage {
              prompt_tokens = a,
              completion_tokens = b,
              total_tokens = d,
              prompt_tokens_details = { cached_tokens = c, cache_write_tokens = b },
              completion_tokens_details = { reasoning_tokens = c },
            }
            for _, key in ipairs {
              "input_tokens",
              "cached_input_tokens",
              "cached_write_tokens",
              "output_tokens",
              "reasoning_tokens",
            } do
              assert.truthy(u[key] >= 0)
            end
            assert.truthy(u.reasoning_tokens <= u.output_tokens)
          end
        end
      end
    end
  end)

  it("refuses what is no count", function()
    for value, message in pairs {
      ["12"] = "number expected, got string",
      [1.5] = "integer within +-2^53 expected, got 1.5",
    } do
      local ok, text = pcall(adapter.openai.usage, { prompt_tokens = value })
      assert.is_false(ok)
      assert.equal("bad argument #1 to 'usage' (usage.prompt_tokens: " .. message .. ")", text)
    end
    assert.has_error(function()
      adapter.openai.usage { prompt_tokens = 0 / 0 }
    end)
    assert.has_error(function()
      adapter.openai.usage(5)
    end, "bad argument #1 to 'usage' (usage: table expected, got number)")
  end)
end)

describe("a total that is smaller than the answer", function()
  it("gives no negative number", function()
    local usage = adapter.openai.usage {
      completion_tokens = 5,
      total_tokens = 10,
      completion_tokens_details = { reasoning_tokens = 8 },
    }
    assert.equal(0, usage.input_tokens)
    assert.equal(13, usage.output_tokens)
    assert.is_string(usage.suspect)
  end)
end)
