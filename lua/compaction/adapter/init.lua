---Providers' message shapes into ours and back. Each adapter is loaded when it is first asked for.
local present = require "compaction.present"
local raise = require "compaction.raise"

local NAMES = {
  openai = true,
  responses = true,
  anthropic = true,
  gemini = true,
  bedrock = true,
  ollama = true,
  codecompanion = true,
  avante = true,
  copilotchat = true,
}

local function table_at(t, key)
  local value = present(t[key])
  return type(value) == "table" and value or nil
end

-- Marks of a block inside a message's content.
local BLOCKS = {
  tool_use = "anthropic",
  tool_result = "anthropic",
  thinking = "anthropic",
  redacted_thinking = "anthropic",
  server_tool_use = "anthropic",
  mcp_tool_use = "anthropic",
  mcp_tool_result = "anthropic",
  web_search_tool_result = "anthropic",
  search_result = "anthropic",
  input_text = "responses",
  output_text = "responses",
  input_image = "responses",
  input_file = "responses",
}

local BEDROCK_KEYS = {
  "text",
  "toolUse",
  "toolResult",
  "image",
  "document",
  "video",
  "audio",
  "reasoningContent",
  "cachePoint",
  "guardContent",
  "searchResult",
  "citationsContent",
}

local function shape_of_block(block)
  if type(block) ~= "table" then
    return nil
  end
  local kind = present(block.type)
  if kind == "thinking" and type(block.thinking) == "table" then
    return "openai" -- Mistral
  elseif kind == nil then
    for _, key in ipairs(BEDROCK_KEYS) do
      if present(block[key]) ~= nil then
        return "bedrock"
      end
    end
  end
  return BLOCKS[kind] or (table_at(block, "source") and "anthropic") or nil
end

local function shape_of_call(call)
  local called = type(call) == "table" and table_at(call, "function")
  if called then
    local bare = present(call.id) == nil and type(present(called.arguments)) == "table"
    return bare and "ollama" or nil
  end
  return type(call) == "table" and present(call.name) ~= nil and "copilotchat" or nil
end

local function shape_of_usage(usage)
  for _, mark in ipairs {
    { "prompt_tokens", "openai" },
    { "inputTokens", "bedrock" },
    { "cache_read_input_tokens", "anthropic" },
    { "cache_creation_input_tokens", "anthropic" },
    { "input_tokens_details", "responses" },
  } do
    if present(usage[mark[1]]) ~= nil then
      return mark[2]
    end
  end
end

-- The first mark among the items of a list.
local function first_mark(list, shape_of)
  for i = 1, list and #list or 0 do
    local shape = shape_of(list[i])
    if shape then
      return shape
    end
  end
end

-- Images of Ollama are strings; those of a gateway's answers are parts.
local function holds_base64(images)
  return images ~= nil and type(images[1]) ~= "table"
end

-- Is it a whole answer of Anthropic's, which has a type as items of Responses have?
local function is_anthropics(message)
  local block = table_at(message, "content") and message.content[1]
  return present(message.stop_reason) ~= nil
    or type(block) == "table"
      and (present(block.type) == "text" or BLOCKS[present(block.type)] == "anthropic")
end

-- Shapes told by a field of the message, or of the response around it.
local function shape_of_fields(message)
  local kind, inner = present(message.type), table_at(message, "message")
  if
    table_at(message, "parts")
    or table_at(message, "candidates")
    or table_at(message, "usageMetadata")
    or table_at(message, "promptFeedback")
  then
    return "gemini"
  elseif table_at(message, "choices") then
    return "openai"
  elseif present(message.prompt_eval_count) or (inner and present(message.done) ~= nil) then
    return "ollama"
  elseif inner and present(inner.role) then
    return "avante"
  elseif table_at(message, "output") and table_at(message.output, "message") then
    return "bedrock"
  elseif table_at(message, "tools") or table_at(message, "_meta") or present(message.role) == "llm" then
    return "codecompanion"
  elseif present(message.role) == "model" then
    return "gemini"
  elseif
    holds_base64(table_at(message, "images"))
    or present(message.tool_name)
    or type(present(message.thinking)) == "string"
  then
    return "ollama"
  elseif kind == "message" and present(message.role) == "assistant" and is_anthropics(message) then
    return "anthropic"
  elseif kind ~= nil and (present(message.role) == nil or kind == "message") then
    return "responses"
  elseif table_at(message, "output") then
    return "responses"
  end
end

local function shape_of_message(message)
  if type(message) ~= "table" then
    return nil
  end
  return shape_of_fields(message)
    or first_mark(table_at(message, "content"), shape_of_block)
    or first_mark(table_at(message, "tool_calls"), shape_of_call)
    or (table_at(message, "usage") and shape_of_usage(message.usage))
end

local M = {}

---The shape of a native message, or of the first one in a list that bears the marks of one. A name
---that is given wins. O(messages before the mark).
---@param native table|string
---@param name? compaction.Shape
---@return compaction.Shape
function M.detect(native, name)
  if name ~= nil then
    if not NAMES[name] then
      raise(("bad argument #2 to 'detect' (unknown shape '%s')"):format(tostring(name)))
    end
    return name
  end
  if type(native) == "string" then
    return "responses"
  elseif type(native) ~= "table" then
    raise(("bad argument #1 to 'detect' (message or list expected, got %s)"):format(type(native)))
  end
  return shape_of_message(native) or first_mark(native, shape_of_message) or "openai"
end

return setmetatable(M, {
  __index = function(self, name)
    if not NAMES[name] then
      return nil
    end
    local adapter = require("compaction.adapter." .. name)
    self[name] = adapter
    return adapter
  end,
})
