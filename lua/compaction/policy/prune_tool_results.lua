---Placeholders for all tool results but the newest `keep` and those of protected tools, where that frees a share
---of the window: what stands behind the first of them must be read anew, without the provider's cache.
local ready = require "compaction.policy.ready"

-- Tokens of a placeholder.
local PLACEHOLDER = 25

local OPTIONS = { keep = "tokens", protect = "table", min_gain = "share" }

return ready("prune_tool_results", OPTIONS, function(o)
  local keep, protected = o.keep or 5, {}
  for _, name in ipairs(o.protect or {}) do
    protected[name] = true
  end
  return function(state)
    local indexes, gain, newer = {}, 0, 0
    for i = state.count, 1, -1 do
      if state.role(i) == "tool" then
        newer = newer + 1
        local freed = state.size(i) - PLACEHOLDER
        if newer > keep and freed > 0 and not protected[state.tool(i) or ""] then
          indexes[#indexes + 1] = i
          gain = gain + freed
        end
      end
    end
    if gain > 0 and gain >= (o.min_gain or 0.05) * (state.limit or 0) then
      return { action = "prune", indexes = indexes, reason = "old_results" }
    end
  end
end)
