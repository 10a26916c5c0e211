-- Providers' errors: is the prompt too long, and by how much?
local compaction = require "compaction"
local json = require "spec.support.json"
local nulls = require "spec.support.nulls"

local overflow = compaction.overflow

-- { status, text, kind, actual, limit, input, output }
local CASES = {
  { 400, "prompt is too long: 213462 tokens > 200000 maximum", "tokens", 213462, 200000, 213462 },
  {
    400,
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 204698, decrease input length or `max_tokens` and try again",
    "tokens",
    210000,
    204698,
    190000,
    20000,
  },
  { 200, '{"stop_reason":"model_context_window_exceeded"}', "tokens" },
  {
    400,
    "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens. Please reduce the length of the messages.",
    "tokens",
    150000,
    128000,
    150000,
  },
  {
    400,
    "This model's maximum context length is 128000 tokens. However, you requested 140000 tokens (130000 in the messages, 10000 in the completion). Please reduce the length of the messages or completion.",
    "tokens",
    140000,
    128000,
    130000,
    10000,
  },
  {
    400,
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "tokens",
  },
  { nil, "exceeds the model's context window", "tokens" },
  {
    400,
    "string too long. Expected a string with maximum length 1048576, but got a string with length 2000000",
    "wire",
  },
  {
    400,
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "tokens",
    1196265,
    1048575,
    1196265,
  },
  { 400, "ValidationException: Input is too long for requested model.", "tokens" },
  {
    400,
    "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
    "tokens",
    40000,
    32768,
    40000,
  },
  { 400, "Please reduce the length of the messages or completion.", "tokens" },
  {
    400,
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "tokens",
    537812,
    131072,
    537812,
  },
  {
    400,
    "This model's maximum context length is 1048576 tokens. However, you requested 1051540 tokens (1051539 in the messages, 1 in the completion).",
    "tokens",
    1051540,
    1048576,
    1051539,
    1,
  },
  {
    400,
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 226360 tokens (210000 of text input, 8360 of tool input, 8000 in the output). Please reduce the length of either one.",
    "tokens",
    226360,
    200000,
    218360,
    8000,
  },
  {
    400,
    "litellm.ContextWindowExceededError: litellm.BadRequestError: AnthropicException - prompt is too long: 208310 tokens > 200000 maximum",
    "tokens",
    208310,
    200000,
    208310,
  },
  {
    400,
    "This model's maximum context length is 32768 tokens. However, you requested 4096 output tokens and your prompt contains at least 30000 input tokens, for a total of at least 34096 tokens.",
    "tokens",
    34096,
    32768,
    30000,
    4096,
  },
  {
    400,
    "the request (80956 tokens) exceeds the available context size (16384 tokens), try increasing it",
    "tokens",
    80956,
    16384,
    80956,
  },
  { 400, "prompt too long; exceeded max context length by 1200 tokens", "tokens" },
  { 400, "prompt token count of 22298 exceeds the limit of 20000", "tokens", 22298, 20000, 22298 },
  { 400, "Your request exceeded model token limit: 262144 (requested: 270000)", "tokens", 270000, 262144 },
  {
    400,
    "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192",
    "tokens",
    9000,
    8192,
  },
  -- other wordings
  {
    400,
    "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]",
    "tokens",
    nil,
    30720,
  },
  {
    422,
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 4000 `inputs` tokens and 512 `max_new_tokens`",
    "tokens",
    4512,
    4096,
    4000,
    512,
  },
  {
    422,
    "inputs tokens + max_new_tokens must be \226\137\164 2048. Given: 3000 inputs tokens and 20 max_new_tokens",
    "tokens",
    3020,
    2048,
    3000,
    20,
  },
  {
    nil,
    "Trying to keep the first 14000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
    "tokens",
    nil,
    4096,
  },
  {
    400,
    "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum context length is 32768 tokens and your request has 30000 input tokens (4096 > 32768 - 30000).",
    "tokens",
    34096,
    32768,
    30000,
    4096,
  },
  {
    nil,
    "Your input of 250,000 tokens exceeds the 200,000 token context window",
    "tokens",
    250000,
    200000,
    250000,
  },
  { nil, "The conversation has 45k tokens, but only 32k fit in the window", "tokens", 45000, 32000 },
  { 413, "Request body too large for gpt-4o model. Max size: 8000 tokens.", "tokens", nil, 8000 },
  { nil, "Requested tokens (5120) exceed context window of 4096", "tokens", 5120, 4096 },
  {
    nil,
    "input is too long: 130\194\160512 tokens, the model allows 128_000",
    "tokens",
    130512,
    128000,
    130512,
  },
  { nil, "context length exceeded: 65536 < 70211", "tokens", 70211, 65536 },
  {
    nil,
    "total tokens 70211 (prompt 69187 + completion 1024) must not exceed 65536",
    "tokens",
    70211,
    65536,
    69187,
    1024,
  },
  {
    nil,
    "The number of tokens in the prompt 145000 is greater than the limit 131072",
    "tokens",
    145000,
    131072,
    145000,
  },
  {
    nil,
    "length of prompt_tokens (131087) must be less than max_seq_len (131072).",
    "tokens",
    131087,
    131072,
    131087,
  },
  { nil, "max_new_tokens + prompt length must be <= 8192, got 9000", "tokens", 9000, 8192 },
  { 400, "tokens in request more than max tokens allowed", "tokens" },
  { nil, "error 400: [413] Prompt exceeds max length", "tokens" },
  -- sums of two named fields
  {
    nil,
    "the number of input tokens 4200 plus max_new_tokens 200 cannot exceed the total tokens limit 4096",
    "tokens",
    4400,
    4096,
    4200,
    200,
  },
  {
    nil,
    "The prompt token count 210000 plus max_tokens 8192 exceeds the model's context window of 202752",
    "tokens",
    218192,
    202752,
    210000,
    8192,
  },
  {
    nil,
    "The number of tokens in the prompt (40000) plus max_tokens (4096) exceeds the maximum context length of 32768",
    "tokens",
    44096,
    32768,
    40000,
    4096,
  },
  {
    nil,
    "The sum of prompt length (9000), max_tokens (2000) should not exceed max_seq_len (8192)",
    "tokens",
    11000,
    8192,
    9000,
    2000,
  },
  {
    nil,
    "Input tokens (130000) and max output tokens (8192) exceed the model's maximum context of 131072.",
    "tokens",
    138192,
    131072,
    130000,
    8192,
  },
  {
    nil,
    "requested 70000 input tokens and 4096 max new tokens; the sum must not exceed 65536",
    "tokens",
    74096,
    65536,
    70000,
    4096,
  },
  {
    nil,
    "prompt tokens: 130000 + max tokens: 8192 = 138192 exceeds 131072",
    "tokens",
    138192,
    131072,
    130000,
    8192,
  },
  {
    nil,
    "max_tokens (8192) + prompt (130000) exceeds maximum context length 131072",
    "tokens",
    138192,
    131072,
    130000,
    8192,
  },
  {
    nil,
    "the sum of input tokens and max_tokens (40960) must be less than or equal to 32768",
    "tokens",
    40960,
    32768,
  },
  { nil, "prompt + max_tokens = 35000 > 32768", "tokens", 35000, 32768 },
  -- codes are no counts
  { nil, "invalid params, context window exceeds limit (2013)", "tokens" },
  {
    nil,
    "AiError: 5021: The estimated number of input and maximum output tokens (24681) exceeded this model context window limit (24000).",
    "tokens",
    24681,
    24000,
  },
  { nil, "APIError(4001): input tokens 150000 over limit 128000", "tokens", 150000, 128000, 150000 },
  { nil, "Message 2048: prompt too long", "tokens" },
  -- numbers of every form
  {
    nil,
    "Your prompt has 40000 tokens, exceeding the 32768-token context window",
    "tokens",
    40000,
    32768,
    40000,
  },
  {
    nil,
    "The 128000-token limit was exceeded: your input has 150000 tokens",
    "tokens",
    150000,
    128000,
    150000,
  },
  { nil, "Max context window of 128000 tokens exceeded: got 143211 tokens", "tokens", 143211, 128000 },
  { nil, "max context 32k exceeded, input is 33.5k tokens", "tokens", 33500, 32000, 33500 },
  { nil, "Context overflow: 150,000 / 128,000 tokens", "tokens", 150000, 128000 },
  { nil, "PromptTooLong: prompt must contain at most 7168 tokens", "tokens", nil, 7168 },
  { nil, "ContextOverflowError", "tokens" },
  -- rates
  { nil, "Rate limit reached (TPM): Limit 10000, Used 9000, Requested 12000.", "rate_size", 12000, 10000 },
  { nil, "request reached TPM rate limit, current: 130921, limit: 128000", "rate" },
  { nil, "Limit: 30000 / min. Current: 29900 / min. Requested 41000", "rate_size", 41000, 30000 },
  { 403, "exceeded token limit: weekly limit is 5000000 tokens", "rate" },
  {
    400,
    "HttpMessageException: prompt is too long: 213462 tokens > 200000 maximum (see https://docs.example.com/rate_limits)",
    "tokens",
    213462,
    200000,
    213462,
  },
  -- counts of something else
  {
    nil,
    "max_tokens must be less than or equal to 8192, the maximum value for max_tokens is less than the context_window",
    "config",
  },
  { nil, "Input validation error: max_new_tokens must be <= 1024. Given: 2048", "config" },
  {
    nil,
    "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2049.",
    "config",
  },
  { nil, "Too many messages: 2100 > 2048", "wire" },
  { nil, "Request payload size exceeds the limit: 20971520 bytes.", "wire" },
  { nil, "expected maxLength: 20000, actual: 25000, please reformat your input and try again.", "wire" },
  { nil, "At most 1 image(s) may be provided in one prompt.", "media" },
  {
    nil,
    "messages.3: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_01",
    "malformed",
  },
  {
    nil,
    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
    "malformed",
  },
  -- time
  { 500, "context deadline exceeded" },
  { 500, "context canceled: prompt evaluation took too long" },
  { nil, "write: message too long (EMSGSIZE)" },
  { 403, "missing scope: tokens.read exceeded privileges" },
  -- look-alikes
  { 413, "Request exceeds the maximum size", "wire" },
  { 413, "<html><head><title>413 Request Entity Too Large</title></head></html>", "wire" },
  { nil, "Decompressed request body exceeds 268435456 bytes", "wire" },
  { nil, "Input is too long: 45000 characters, maximum 40000 characters", "wire" },
  {
    400,
    "messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 6291456 bytes > 5242880 bytes",
    "media",
  },
  {
    400,
    "At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels",
    "media",
  },
  { 400, "A maximum of 100 PDF pages may be provided.", "media" },
  { 429, "Too many tokens, please wait before trying again.", "rate" },
  { nil, "Too many tokens per day", "rate" },
  { nil, "This request would exceed the limit of 30000 tokens per minute", "rate" },
  {
    429,
    "Rate limit reached on tokens per min (TPM): Limit 30000, Used 28000, Requested 5000. Please try again in 6s.",
    "rate",
  },
  { 429, "", "rate" },
  {
    nil,
    "Request too large for model on tokens per minute (TPM): Limit 30000, Requested 41000",
    "rate_size",
    41000,
    30000,
  },
  { 400, "max_tokens must be greater than thinking.budget_tokens", "config" },
  { 400, "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens", "config" },
  {
    400,
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
    "config",
  },
  {
    400,
    "The maximum tokens you requested exceeds the model limit of 8192. Try again with a lower value.",
    "config",
  },
  {
    400,
    "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 1 instead.",
    "config",
  },
  {
    400,
    "messages.2: tool_use ids were found without tool_result blocks immediately after: toolu_01.",
    "malformed",
  },
  {
    400,
    "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'.",
    "malformed",
  },
  { 400, "messages.0.content.0: unexpected tool_use_id found in tool_result blocks: toolu_01", "malformed" },
  -- no overflow of any kind
  { nil, "Cached content is too small. total_token_count=1200, min_total_token_count=4096" },
  { nil, "Unexpected token < in JSON at position 200000" },
  { 401, "Invalid token. Your session has expired." },
  { 404, "model not found" },
  { 500, "Internal server error" },
  { 529, "Overloaded" },
  { nil, "Request timed out: took too long" },
  { nil, "" },
}

describe("overflow", function()
  for _, case in ipairs(CASES) do
    local status, text, kind = case[1], case[2], case[3]
    it(("reads %s: %s"):format(kind or "nothing", text:sub(1, 60)), function()
      local r = overflow(text, status) or {}
      assert.same(
        { kind, case[4], case[5], case[6], case[7] },
        { r.kind, r.actual, r.limit, r.input, r.output }
      )
      assert.equal(case[4] and case[5] and case[4] - case[5] or r.excess, r.excess)
      assert.truthy(r.kind == nil or r.confidence > 0 and r.confidence <= 1)
    end)
  end

  it("reads the same from a table, nested JSON and inside a string", function()
    for _, case in ipairs(CASES) do
      local want = overflow(case[2], case[1])
      local text = case[2]:gsub('"', '\\"')
      local body = ('{"error":{"message":"%s","type":"invalid_request_error","code":null}}'):format(text)
      local nested = ('{"detail":"upstream: %s"}'):format(body:gsub('[\\"]', "\\%0"))
      for _, form in ipairs { { error = { message = case[2] } }, body, nested } do
        local got = overflow(form, case[1])
        if case[2] ~= "" then
          assert.equal(want and want.kind, got and got.kind, case[2])
          assert.equal(want and want.actual, got and got.actual, case[2])
          assert.equal(want and want.limit, got and got.limit, case[2])
        end
      end
    end
  end)

  it("tells the excess alone where nothing else is told", function()
    local r = overflow "prompt too long; exceeded max context length by 1200 tokens"
    assert.same({ nil, nil, 1200 }, { r.actual, r.limit, r.excess })
  end)

  it("doubts a bare 413", function()
    for _, body in ipairs { "", "413", {}, "<html></html>" } do
      local r = overflow(body, 413)
      assert.equal("wire", r.kind)
      assert.truthy(r.confidence <= 0.3)
    end
    assert.equal("wire", overflow(nil, 413).kind)
  end)

  it("finds the status in the error", function()
    assert.equal("rate", overflow({ status = 429, message = "slow down" }).kind)
    assert.equal("wire", overflow({ error = { code = 413 } }).kind)
  end)

  it("does not believe a limit below 1,024 or above the count", function()
    assert.is_nil(overflow("prompt is too long: 5000 tokens > 400 maximum").limit)
    assert.is_nil(overflow("prompt is too long: 5000 tokens > 200000 maximum").limit)
  end)

  it("names the provider where the text does", function()
    assert.equal("anthropic", overflow("prompt is too long: 213462 tokens > 200000 maximum").provider)
    assert.equal("litellm", overflow("litellm.ContextWindowExceededError: prompt is too long").provider)
    assert.is_nil(overflow("the conversation is too long for the context").provider)
  end)

  it("tries the host's patterns first", function()
    local patterns = {
      {
        pattern = "zu lang: (%d+) von (%d+)",
        kind = "tokens",
        captures = { "actual", "limit" },
        provider = "haus",
      },
      { pattern = "voll", kind = "rate" },
    }
    local r = overflow("Text zu lang: 5000 von 4096", 400, { patterns = patterns })
    assert.same(
      { kind = "tokens", actual = 5000, limit = 4096, excess = 904, provider = "haus", confidence = 1 },
      r
    )
    assert.equal("rate", overflow("alles voll", nil, { patterns = patterns }).kind)
    assert.is_nil(overflow("alles gut", nil, { patterns = patterns }))
  end)

  it("takes null for nothing", function()
    for _, null in ipairs(nulls) do
      assert.is_nil(overflow(null.value, null.value, null.value))
      assert.equal(
        "tokens",
        overflow({ error = null.value, message = "prompt is too long" }, null.value).kind
      )
    end
  end)

  it("refuses what is wrong", function()
    local function fails(message, ...)
      local ok, text = pcall(overflow, ...)
      assert.is_false(ok)
      assert.equal(message, text)
    end
    fails("bad argument #1 to 'overflow' (string or table expected, got number)", 5)
    fails("bad argument #2 to 'overflow' (number expected, got string)", "x", "400")
    fails(
      "bad argument #3 to 'overflow' (unknown option 'pattern' (known: patterns))",
      "x",
      400,
      { pattern = {} }
    )
    fails(
      "bad argument #3 to 'overflow' (options.patterns[1].kind: kind of overflow expected, got 'token')",
      "x",
      400,
      { patterns = { { pattern = "x", kind = "token" } } }
    )
    fails(
      "bad argument #3 to 'overflow' (options.patterns[1].pattern: Lua pattern expected, got '%')",
      "x",
      400,
      { patterns = { { pattern = "%", kind = "tokens" } } }
    )
  end)

  it("reads a megabyte of anything in a moment", function()
    local big = 1024 * 1024
    for _, piece in ipairs {
      "1,",
      "(((",
      "<",
      "\\u0041",
      "data:",
      "9",
      "a",
      "1 ",
      "tokens > 1000 ",
      "maximum ",
      "\0",
      "\255",
      "-1-1",
      "[1, 2",
      "1+1>",
      "\\",
      "input and output 5 ",
      "tokens exceed 2000 maximum, requested 3000. ",
    } do
      local text = piece:rep(math.ceil(big / #piece))
      local clock = os.clock()
      overflow(text, 400)
      assert.truthy(os.clock() - clock < 60, piece) -- a quadratic reader would take hours
    end
    local deep = {}
    local inner = deep
    for _ = 1, 10000 do
      inner.error = {}
      inner = inner.error
    end
    inner.error = deep
    overflow(deep)
  end)

  it("finds a sentence in the middle of a megabyte", function()
    local noise = ("lorem ipsum dolor sit amet "):rep(20000)
    local r = overflow(noise .. "prompt is too long: 213462 tokens > 200000 maximum" .. noise)
    assert.same({ "tokens", 213462, 200000 }, { r.kind, r.actual, r.limit })
  end)

  it("does not read what was sent for what was said", function()
    local r = overflow {
      statusCode = 400,
      responseBody = '{"error":{"message":"prompt is too long: 213462 tokens > 200000 maximum"}}',
      requestBodyValues = {
        max_tokens = 8192,
        messages = { { role = "tool", content = "see rate limit docs" } },
      },
    }
    assert.same({ "tokens", 213462, 200000, 213462 }, { r.kind, r.actual, r.limit, r.input })
  end)

  it("survives random bytes of the known texts", function()
    local random = require "spec.support.random"(7)
    for _ = 1, 2000 do
      local text = CASES[random(#CASES) + 1][2] .. CASES[random(#CASES) + 1][2]
      local first = random(#text + 1)
      text = text:sub(first, first + random(#text + 1)) .. string.char(random(256))
      local r = overflow(text, random(2) == 0 and 400 or nil)
      if r and r.actual and r.limit then
        assert.truthy(r.actual >= r.limit and r.limit >= 1024)
      end
    end
  end)

  it("reads what decoders make of a body", function()
    local body =
      '{"error":{"code":400,"message":"the request exceeds the available context size","n_prompt_tokens":80956,"n_ctx":16384}}'
    for _, decoder in ipairs(json.decoders) do
      local r = overflow(decoder.decode(body))
      assert.same({ "tokens", 80956, 16384 }, { r.kind, r.actual, r.limit })
    end
    local r = overflow(body)
    assert.same({ "tokens", 80956, 16384 }, { r.kind, r.actual, r.limit })
  end)
end)
