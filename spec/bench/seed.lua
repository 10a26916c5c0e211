-- What the crossing from Lua tables to C costs: the seed functions beside the same in plain
-- Lua that checks nothing (plain.lua). Times are the best of several rounds, taken in turns.
local compaction = require "compaction"
local plain = require "plain"
local make = require("messages").make

local clock = os.clock

-- Seconds of one call, over as many calls as fill a tenth of a second.
local function once(run)
  local calls, started = 0, clock()
  repeat
    run()
    calls = calls + 1
  until clock() - started > 0.1
  return (clock() - started) / calls
end

-- Best times of both, measured alternately so that a noisy moment meets both.
local function compare(ours, theirs)
  local a, b = math.huge, math.huge
  collectgarbage()
  for _ = 1, 9 do
    a = math.min(a, once(ours))
    b = math.min(b, once(theirs))
  end
  return a, b
end

local function each(estimate, messages)
  return function()
    for i = 1, #messages do
      estimate(messages[i])
    end
  end
end

local function on_list(f, messages, ...)
  local budget = ...
  return function()
    f(messages, budget)
  end
end

print(("%s, ns per message"):format(jit and jit.version or _VERSION))
print(("  %-26s %8s %8s %8s %7s"):format("function", "messages", "ours", "plain", "ratio"))
for _, n in ipairs { 1000, 10000 } do
  local messages = make(n)
  local rows = {
    {
      "estimate_message_tokens",
      each(compaction.estimate_message_tokens, messages),
      each(plain.estimate_message_tokens, messages),
    },
    { "new_estimator", on_list(compaction.new_estimator, messages), on_list(plain.scale, messages) },
    {
      "split_index_for_keep",
      on_list(compaction.split_index_for_keep, messages, 20000),
      on_list(plain.split_index_for_keep, messages, 20000),
    },
  }
  for _, row in ipairs(rows) do
    local ours, theirs = compare(row[2], row[3])
    print(
      ("  %-26s %8d %8.0f %8.0f %6.2f ×"):format(row[1], n, ours / n * 1e9, theirs / n * 1e9, ours / theirs)
    )
  end
end
