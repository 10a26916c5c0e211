-- Messages of a realistic shape for benchmarks: turns of a coding agent, one third
-- assistant messages with usage and (mostly) a tool call, with the fields that hosts keep.
local M = {}

local text = ("The function reads the file in pieces and gives each row to the importer. "):rep(40)

-- n messages, deterministic. `sizes` are bytes of text in user, assistant and tool messages.
function M.make(n, sizes)
  sizes = sizes or { user = 300, assistant = 400, tool = 1800 }
  local messages, prompt = {}, 6000
  local function add(message)
    messages[#messages + 1] = message
  end
  local turn = 0
  while #messages < n do
    turn = turn + 1
    local id = "call_" .. turn
    local spread = turn % 7 * 10
    add {
      role = "assistant",
      content = text:sub(1, sizes.assistant + spread),
      tool_calls = {
        {
          id = id,
          type = "function",
          ["function"] = {
            name = "read_file",
            arguments = '{"path":"src/import/reader.py","line":' .. turn .. "}",
          },
        },
      },
      model = "anthropic/claude-sonnet-4.5",
      usage = {
        input_tokens = 12,
        cached_input_tokens = prompt - 12,
        cached_write_tokens = 0,
        output_tokens = 150 + spread,
        reasoning_tokens = 0,
      },
    }
    add { role = "tool", tool_call_id = id, content = text:sub(1, sizes.tool + spread) }
    add { role = "user", content = text:sub(1, sizes.user + spread) }
    prompt = prompt + 150 + spread + math.floor((sizes.tool + sizes.user + 2 * spread) / 3.1)
  end
  while #messages > n do
    messages[#messages] = nil
  end
  return messages
end

return M
