---A second budget, for the request body: providers refuse bodies that are too large, however few tokens they
---cost. Attachments are replaced by notes, oldest first; where that is not enough, compact.
local ready = require "compaction.policy.ready"

-- The smallest limit of the large providers is 20 MB; the rest is for what stands around the messages.
local MOST = 18000000
-- Replaced down to this part of the budget, so that the next time is far.
local DOWN_TO = 0.75

return ready("bytes", { bytes = "tokens", keep = "tokens" }, function(o)
  local most, keep = o.bytes or MOST, o.keep or 1
  return function(state)
    local total = 0
    for i = 1, state.count do
      total = total + state.bytes(i)
    end
    if total <= most then
      return nil
    end
    local newer = {} -- attachments behind message i
    newer[state.count] = 0
    for i = state.count, 1, -1 do
      newer[i - 1] = newer[i] + state.media(i)
    end
    local indexes = {}
    for i = 1, state.count do
      if total <= DOWN_TO * most then
        break
      end
      if state.media(i) > 0 and newer[i] >= keep then
        indexes[#indexes + 1] = i
        total = total - state.bytes(i)
      end
    end
    if #indexes > 0 then
      return { action = "prune", indexes = indexes, media = true, reason = "bytes" }
    end
    return { action = "compact", reason = "bytes" }
  end
end)
