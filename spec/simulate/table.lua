-- The agent of spec/support against its simulated provider, scenario by scenario; one line for each fault and
-- window. table.lua TURNS PART PARTS: every PARTS-th scenario, so that several processes share the work.
-- Wires and ratios take turns, so that each meets each window and each fault in some scenario.
package.path = "./?.lua;" .. package.path
local agent = require "spec.support.agent"

local turns, part, parts = tonumber(arg[1]), tonumber(arg[2]), tonumber(arg[3])

local WINDOWS = { 4096, 8192, 32768, 200000, 1000000 }
local RATIOS = { 2, 3, 4, 5 }
local WIRES = { "openai", "responses", "anthropic", "gemini", "bedrock" }
-- Requests over the window that are counted apart.
local ALLOWED = { clips = 5, no_usage = 1, smaller = 2, smaller_untold = 4 }

local faults = {}
for fault in pairs(agent.FAULTS) do
  faults[#faults + 1] = fault
end
table.sort(faults)

local function allowed_over(fault, window)
  local spared = fault == "switch" and math.floor(turns / 400) or ALLOWED[fault] or 0
  if window <= 4096 or fault == "dense" then
    spared = spared + math.ceil(turns / 2000)
  end
  return spared
end

-- Compactions of the oracle's: where the reserve decides, or there is little room, sizes can not be as sure.
local OF_ORACLE, OF_ORACLE_AT_MOST, LITTLE_ROOM = 1.3, 1.4, 700
-- Of the budget to keep, on average; less only where no cut could keep more (behind one huge result).
local KEPT = 0.57

local function allowed_compactions(fault, n)
  if fault == "no_usage" then -- what is never counted can not be known so well
    return math.huge
  end
  local generous = fault == "reserve" or n.room < LITTLE_ROOM
  return math.ceil(n.oracle * (generous and OF_ORACLE_AT_MOST or OF_ORACLE))
end

local FORMAT = "%-16s %8d %-10s %4.1f  %8d %5d %7d %8d %8.2f %5.2f  %s"
local broken = 0
io.stdout:setvbuf "line"
for k = part, #faults * #WINDOWS, parts do
  local f, w = (k - 1) % #faults, math.floor((k - 1) / #faults)
  local fault, window = faults[f + 1], WINDOWS[w + 1]
  local wire, ratio = WIRES[(f + 2 * w) % #WIRES + 1], RATIOS[(f + w) % #RATIOS + 1]
  local n = agent.run { window = window, ratio = ratio, wire = wire, fault = fault, turns = turns, seed = k }
  local complaints = {}
  for _, name in ipairs { "unrecovered", "broken", "lost", "idle", "no_gain" } do
    complaints[#complaints + 1] = n[name] > 0 and name .. " " .. n[name] or nil
  end
  if n.over > allowed_over(fault, window) then
    complaints[#complaints + 1] = "over"
  end
  if n.compactions > allowed_compactions(fault, n) then
    complaints[#complaints + 1] = "compactions"
  end
  if n.average_kept < math.min(KEPT, 0.95 * n.oracle_kept) then
    complaints[#complaints + 1] = "kept"
  end
  if n.dead then
    complaints[#complaints + 1] = "dead at turn " .. n.dead
  end
  broken = broken + (#complaints > 0 and 1 or 0)
  print(
    FORMAT:format(
      fault,
      window,
      wire,
      ratio,
      n.requests,
      n.over,
      n.refused,
      n.compactions,
      n.compactions / math.max(n.oracle, 1),
      n.average_kept,
      table.concat(complaints, ", ")
    )
  )
end
os.exit(broken == 0)
