---Compact beyond a share of the window.
local core = require "compaction.core"
local ready = require "compaction.policy.ready"

return ready("threshold", { threshold = "share" }, function(o)
  local threshold = o.threshold or core.DEFAULT_THRESHOLD
  return function(state)
    if state.fraction > threshold then
      return { action = "compact", reason = "threshold" }
    end
  end
end)
