-- Fair timing on a noisy machine: candidates take turns, and the best round of each counts.
local M = {}

local clock = os.clock

-- Seconds of one call, over as many calls as fill the time.
local function once(run, seconds)
  local calls, started = 0, clock()
  repeat
    run()
    calls = calls + 1
  until clock() - started > seconds
  return (clock() - started) / calls
end

-- The best seconds of each function in the list.
function M.compare(runs, rounds, seconds)
  local best = {}
  collectgarbage()
  for _ = 1, rounds or 9 do
    for i, run in ipairs(runs) do
      best[i] = math.min(best[i] or math.huge, once(run, seconds or 0.1))
    end
  end
  return best
end

M.name = jit and jit.version or _VERSION

return M
