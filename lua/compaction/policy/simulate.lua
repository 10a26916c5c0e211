---A policy tried offline on a recorded conversation.
local compactor = require "compaction.compactor"
local present = require "compaction.present"
local raise = require "compaction.raise"

-- Summaries as long as half of what is asked for, each another one.
local function stand_ins()
  local n = 0
  return function(request)
    n = n + 1
    return ("Summary %d. "):format(n) .. ("word "):rep(math.max(math.floor(request.max_tokens / 2), 1))
  end
end

---What a policy would have decided before each assistant message of a recorded conversation, carried out with a
---stand-in for the summary. `options` are those of compaction.compactor.
return function(policy, messages, options)
  if type(messages) ~= "table" then
    raise(("bad argument #2 to 'simulate' (list of messages expected, got %s)"):format(type(messages)))
  end
  local o = { summarize = stand_ins() }
  for key, value in pairs(options or {}) do
    o[key] = value
  end
  o.policy = policy
  local chat = compactor(o)
  local decisions = {}
  for i, message in ipairs(messages) do
    if present(message.role) == "assistant" then
      local verdict = chat:decide()
      local decision = {
        index = i,
        action = verdict.action,
        reason = verdict.reason,
        used = verdict.used,
        limit = verdict.limit,
        policy_error = verdict.policy_error,
      }
      chat:compact()
      decision.after = chat:used()
      decisions[#decisions + 1] = decision
    end
    chat:append(message)
  end
  return decisions
end
