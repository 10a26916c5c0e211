---What makes a conversation smaller when no model can help. Steps from the mildest to the harshest,
---each strictly smaller than the one before, until the goal is met:
---
---  prune    old tool results become placeholders
---  cap      single messages that fill a quarter of the room are cut in their middle
---  digest   the old part is replaced by what can be told of it without a model
---  drop     all but the newest unit and the request
---  squeeze  what is left is cut, largest first
local facts = require "compaction.facts"
local shape = require "compaction.shape"
local shorten = require "compaction.shorten"

-- An item is cut to leave this part of the room free.
local FREE = 0.1
-- A message is an item to be capped when it fills this part of the room.
local LARGE = 0.25
-- Each cut of a message is checked by its size afterwards; a few tries get there.
local TRIES = 8
-- Tokens of what is told of messages that are dropped.
local LEAST_SUMMARY = 100

local M = {}

-- Cut message i until it counts at most `most` tokens; false if that changed nothing.
local function cut_to(history, i, most)
  local changed = false
  for _ = 1, TRIES do
    local size = history:size(i)
    if size <= most then
      break
    end
    local bytes = history:bytes(i)
    local copy = shorten.shorten(history:message(i), math.max(math.ceil(bytes * (size - most) / size), 1))
    if copy == nil or not history:put_smaller(i, copy) then
      break
    end
    changed = true
  end
  return changed
end

-- Old results, oldest first.
local function prune(history, goal)
  local changed = false
  for i = history:front() + 1, history:newest_unit() - 1 do
    if history:used() <= goal then
      break
    end
    local copy = shorten.prune(history:message(i), history:tool(i))
    changed = copy ~= nil and history:put_smaller(i, copy) or changed
  end
  return changed
end

local function cap(history, goal, room)
  local changed = false
  local most = math.floor(room * LARGE)
  for i = history:front() + 1, history:count() do
    if history:used() <= goal then
      break
    end
    if history:size(i) > most then
      changed = cut_to(history, i, math.floor(most * (1 - FREE))) or changed
    end
  end
  return changed
end

local function replace_by_facts(history, verdict)
  local messages = history:slice(verdict.first, verdict.last)
  history:replace(
    verdict,
    history:text_within(function(bytes)
      return facts.digest(messages, bytes)
    end, verdict.summary)
  )
end

-- The part before the plan's cut, told without a model.
local function digest(history, _, _, plan)
  local verdict = plan { force = "keep" }
  if verdict.action ~= "compact" then
    return false
  end
  replace_by_facts(history, verdict)
  return true
end

local function drop(history, _, _, plan)
  local verdict = plan { force = "keep", keep = 0, summary = LEAST_SUMMARY, min_gain = 0 }
  if verdict.action ~= "compact" then
    return false
  end
  replace_by_facts(history, verdict)
  return true
end

local function largest_of(history, tried)
  local best
  for i = history:front() + 1, history:count() do
    if not tried[i] and (best == nil or history:size(i) > history:size(best)) then
      best = i
    end
  end
  return best
end

-- What is left, largest first.
local function squeeze(history, goal)
  local changed, tried = false, {}
  while history:used() > goal do
    local i = largest_of(history, tried)
    if i == nil then
      break
    end
    if cut_to(history, i, math.max(history:size(i) - (history:used() - goal), 0)) then
      changed = true
    end
    tried[i] = true
  end
  return changed
end

---One message that is too large is cut so that a tenth of the room stays free.
function M.cut_item(history, i, trigger, room)
  local others = history:used() - history:size(i)
  return cut_to(history, i, math.max(math.floor(trigger - others - room * FREE), 0))
end

---Go down the steps until used() is at most `goal`; `plan(budget)` gives the host's verdicts. The names of
---the steps that changed something.
function M.run(history, goal, room, plan)
  local taken = {}
  local steps = {
    { "prune", prune },
    { "cap", cap },
    { "digest", digest },
    { "drop", drop },
    { "squeeze", squeeze },
  }
  for _, step in ipairs(steps) do
    local before = history:used()
    if before <= goal then
      break
    end
    if step[2](history, goal, room, plan) and history:used() < before then
      taken[#taken + 1] = step[1]
    end
  end
  return taken
end

---Put placeholders for the results that a policy named; the first index that changed.
function M.prune(history, indexes)
  local first
  for _, i in ipairs(indexes) do
    local copy = shape.role(history:message(i)) == "tool"
      and shorten.prune(history:message(i), history:tool(i))
    if copy and history:put_smaller(i, copy) then
      first = math.min(first or i, i)
    end
  end
  return first
end

return M
