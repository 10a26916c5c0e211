-- The recorded conversations that lie beside the project, where they do: each file's messages,
-- and what the provider reported. They are no part of the project.
local json = require "spec.support.json"

local M = { folder = os.getenv "COMPACTION_TRANSCRIPTS" or "../shared/transcripts" }

-- A list of { name, messages }; empty where the folder is missing.
function M.all()
  local found = {}
  local pipe = io.popen(("ls '%s'/*.json 2>/dev/null"):format(M.folder))
  for path in pipe:lines() do
    local name = path:match "([^/]+)%.json$"
    found[#found + 1] = { name = name, messages = json.decode(json.read(path)).messages }
  end
  pipe:close()
  return found
end

-- The prompt that the provider counted for a message; 0 if it did not say.
function M.prompt(message)
  local usage = message.usage
  if type(usage) ~= "table" then
    return 0
  end
  return (usage.input_tokens or 0) + (usage.cached_input_tokens or 0) + (usage.cached_write_tokens or 0)
end

-- Signed relative errors of the size asked before each turn but the first of a conversation.
function M.replay(messages, options, compaction)
  local conversation, errors, seen = compaction.conversation(nil, options), {}, false
  for _, message in ipairs(messages) do
    local prompt = M.prompt(message)
    if prompt > 0 then
      if seen then
        errors[#errors + 1] = (conversation:used() - prompt) / prompt
      end
      seen = true
    end
    conversation:append(message)
  end
  return errors
end

-- Turns, median and 95th percentile of |error|, shares under by > 2 % and over by > 5 %, all in %.
function M.summary(errors)
  local sizes, under, over = {}, 0, 0
  for i, e in ipairs(errors) do
    sizes[i] = math.abs(e)
    under = under + (e < -0.02 and 1 or 0)
    over = over + (e > 0.05 and 1 or 0)
  end
  table.sort(sizes)
  local n = #sizes
  local function percentile(p)
    return 100 * (sizes[math.ceil(n * p)] or 0)
  end
  return {
    turns = n,
    median = percentile(0.5),
    p95 = percentile(0.95),
    under = 100 * under / n,
    over = 100 * over / n,
  }
end

return M
