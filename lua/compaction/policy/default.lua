---Beyond the threshold: prune where that frees enough, else compact.
local prune_tool_results = require "compaction.policy.prune_tool_results"
local ready = require "compaction.policy.ready"
local threshold = require "compaction.policy.threshold"

local OPTIONS = { threshold = "share", keep = "tokens", protect = "table", min_gain = "share" }

return ready("default", OPTIONS, function(o)
  local is_full = threshold { threshold = o.threshold }
  local prune = prune_tool_results { keep = o.keep, protect = o.protect, min_gain = o.min_gain or 0.2 }
  return function(state)
    local opinion = is_full(state)
    return opinion and (prune(state) or opinion)
  end
end)
