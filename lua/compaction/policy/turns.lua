---A sliding window: compact when more than so many of the user's requests are in the list.
local ready = require "compaction.policy.ready"

return ready("turns", { turns = "tokens" }, function(o)
  local most = o.turns or 20
  return function(state)
    if state.turn(state.count) > most then
      return { action = "compact", reason = "turns" }
    end
  end
end)
