-- A compactor with a conversation that must be compacted.
local compaction = require "compaction"

local M = {}

M.LONG = ("one two three four five "):rep(400)

function M.call(id, path)
  return {
    role = "assistant",
    content = "",
    tool_calls = { { id = id, ["function"] = { name = "look", arguments = ('{"path":"%s"}'):format(path) } } },
  }
end

-- A chat of many turns, and the types of the events in it; "none" takes an option away.
function M.chat_of(options, turns)
  local events = {}
  local o = {
    limit = 20000,
    summarizer_limit = 100000,
    summarize = function()
      return "All went well."
    end,
    on_event = function(event)
      events[#events + 1] = event.type
    end,
  }
  for key, value in pairs(options or {}) do
    o[key] = value ~= "none" and value or nil
  end
  local chat = compaction.compactor(o)
  chat:append { role = "system", content = "Be brief." }
  for i = 1, turns or 10 do
    chat:append { role = "user", content = ("Request %d. "):format(i) .. M.LONG }
    chat:append(M.call("c" .. i, ("src/file%d.lua"):format(i)))
    chat:append { role = "tool", tool_call_id = "c" .. i, content = "error: it broke\n" .. M.LONG }
  end
  return chat, events
end

return M
