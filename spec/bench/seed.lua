-- What the crossing from Lua tables to C costs: the seed functions beside the same in plain
-- Lua that checks nothing (plain.lua).
local compaction = require "compaction"
local plain = require "plain"
local make = require("messages").make
local timing = require "timing"

local function each(estimate, messages)
  return function()
    for i = 1, #messages do
      estimate(messages[i])
    end
  end
end

local function on_list(f, messages, budget)
  return function()
    f(messages, budget)
  end
end

print(("\n%s: the seed functions on a list, ns per message"):format(timing.name))
print(("  %-26s %8s %8s %8s %8s"):format("function", "messages", "ours", "plain", "ratio"))
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
    local best = timing.compare { row[2], row[3] }
    local ours, theirs = best[1] / n * 1e9, best[2] / n * 1e9
    print(("  %-26s %8d %8.0f %8.0f %7.2f ×"):format(row[1], n, ours, theirs, ours / theirs))
  end
end
