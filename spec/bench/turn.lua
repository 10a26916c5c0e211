-- One agent turn on a conversation of N messages: append an assistant message, a tool result and
-- a user message, ask `used` and `split_index_for_keep(20000)`. Messages are made beforehand.
local compaction = require "compaction"
local plain = require "plain"
local plain_conversation = require "plain_conversation"
local make = require("messages").make
local timing = require "timing"

local TURNS = 100 -- appended one after the other, then taken back together

-- Seconds are of TURNS turns.
local function turns_on(conversation, messages, n)
  return function()
    local sum = 0
    for i = 1, 3 * TURNS, 3 do
      conversation:append(messages[i])
      conversation:append(messages[i + 1])
      conversation:append(messages[i + 2])
      sum = sum + conversation:used() + conversation:split_index_for_keep(20000)
    end
    conversation:truncate(n)
    return sum
  end
end

-- The same by walking the whole list each time.
local function turn_on_list(list, messages, estimate, split)
  return function()
    local n = #list
    list[n + 1], list[n + 2], list[n + 3] = messages[1], messages[2], messages[3]
    estimate(list)
    split(list, 20000)
    list[n + 1], list[n + 2], list[n + 3] = nil, nil, nil
  end
end

print(("\n%s: one agent turn, µs (best of rounds)"):format(timing.name))
print(
  ("  %9s %8s %8s %10s %12s %12s   %s"):format(
    "messages",
    "auto",
    "seed",
    "plain obj.",
    "plain list",
    "our list",
    "seed is faster than object, list"
  )
)
for _, n in ipairs { 1000, 10000, 100000, 1000000 } do
  local all = make(n + 3 * TURNS)
  local coming = {}
  for i = 1, 3 * TURNS do
    coming[i] = all[n + i]
  end
  local list = {}
  local auto = compaction.conversation()
  local seed = compaction.conversation(nil, { estimator = "seed" })
  local object = plain_conversation.new()
  for i = 1, n do
    auto:append(all[i])
    seed:append(all[i])
    object:append(all[i])
    list[i] = n <= 10000 and all[i] or nil
  end
  local runs = { turns_on(auto, coming, n), turns_on(seed, coming, n), turns_on(object, coming, n) }
  if n <= 10000 then -- the others walk it all: long enough already
    runs[4] = turn_on_list(list, coming, plain.scale, plain.split_index_for_keep)
    runs[5] = turn_on_list(list, coming, compaction.new_estimator, compaction.split_index_for_keep)
  end
  local best = timing.compare(runs, 7, 0.05)
  for i = 1, 3 do
    best[i] = best[i] / TURNS
  end
  local function us(i)
    return best[i] and ("%.2f"):format(best[i] * 1e6) or "-"
  end
  print(
    ("  %9d %8s %8s %10s %12s %12s   %.1f ×, %s"):format(
      n,
      us(1),
      us(2),
      us(3),
      us(4),
      us(5),
      best[3] / best[2],
      best[4] and ("%.0f ×"):format(best[4] / best[2]) or "-"
    )
  )
end
