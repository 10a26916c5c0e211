---What makes a conversation smaller when no model can help. Steps from the mildest to the harshest,
---each strictly smaller than the one before, until the goal is met:
---
---  prune    old tool results become placeholders, where that frees enough to pay for a lost cache
---  cap      single messages that fill a quarter of the room are cut in their middle
---  digest   the old part is replaced by the facts of it
---  drop     all but the newest unit and the request
---  squeeze  what is left is cut, largest first
---
---All sizes are sums of the sizes of messages, one unit for all steps.
local core = require "compaction.core"
local facts = require "compaction.facts"
local shape = require "compaction.shape"
local shorten = require "compaction.shorten"
local summary = require "compaction.summary"

-- An item is cut to leave this part of the room free.
local FREE = 0.1
-- Pruning goes on until so much of the room is free: the next one should be far.
local PRUNED_FREE = 0.5
-- A message is an item to be capped when it fills this part of the room.
local LARGE = 0.25
-- Each cut of a message is checked by its size afterwards; a few tries get there.
local TRIES = 8

local WITHOUT_MODEL = "Earlier messages were left out; no summary could be written."

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

-- Old results that a placeholder is smaller than, and what all of them would free.
local function prunable(history)
  local copies, gain = {}, 0
  for i = history:front() + 1, history:newest_unit() - 1 do
    local copy = shorten.prune(history:message(i), history:tool(i))
    local freed = copy and history:size(i) - core.estimate_text_tokens(copy.content) or 0
    if freed > 0 then
      copies[#copies + 1] = { i, copy }
      gain = gain + freed
    end
  end
  return copies, gain
end

-- Oldest first, as far as `deep`; not at all where that frees too little.
local function prune(history, job)
  local copies, gain = prunable(history)
  if gain < job.min_gain then
    return
  end
  local deep = job.goal - math.floor(job.room * (PRUNED_FREE - FREE))
  for _, old in ipairs(copies) do
    if history:sum() <= deep then
      break
    end
    history:put_smaller(old[1], old[2])
  end
end

-- Cut messages, largest first, none of them below `least`.
local function cut_largest(history, goal, least)
  local tried = {}
  while history:sum() > goal do
    local i = history:largest(history:front() + 1, tried)
    if i == nil or history:size(i) <= least then
      break
    end
    cut_to(history, i, math.max(history:size(i) - (history:sum() - goal), least))
    tried[i] = true
  end
end

local function cap(history, job)
  cut_largest(history, job.goal, math.floor(job.room * LARGE))
end

-- The range of a verdict, told by its facts; the prose of an earlier summary stays as far as it fits.
local function replace_by_facts(history, verdict)
  local messages = history:slice(verdict.first, verdict.last)
  local known, prose = facts.of(messages), WITHOUT_MODEL
  for _, message in ipairs(messages) do
    if shape.is_summary(message) then
      prose = summary.read(message)
    end
  end
  history:replace(
    verdict,
    history:summary_within(function(bytes)
      return facts.within(prose, known, bytes)
    end, verdict.summary)
  )
end

-- A plan's cut, whose range costs more than what is told of it.
local function replace_within(history, verdict)
  if verdict.action == "compact" then
    replace_by_facts(history, verdict)
  end
end

local function digest(history, job)
  replace_within(history, job.plan { force = "keep" })
end

local function drop(history, job)
  replace_within(history, job.plan { force = "keep", keep = 0, min_gain = 0 })
end

local function squeeze(history, job)
  cut_largest(history, job.goal, 0)
end

local STEPS = {
  { "prune", prune },
  { "cap", cap },
  { "digest", digest },
  { "drop", drop },
  { "squeeze", squeeze },
}

---One message that is too large is cut so that a tenth of the room stays free, even if it counts more than
---its size by `job.doubt` of it. `job`: see run.
function M.cut_item(history, i, job)
  local before = history:sum()
  local others = before - history:size(i)
  local most = (job.trigger - others - job.room * FREE) / (1 + job.doubt)
  if cut_to(history, i, math.max(math.floor(most), 0)) then
    return { { step = "cap", before = before, after = history:sum() } }
  end
  return {}
end

---Go down the steps until the sum is at most `job.goal`. job = { goal, trigger, room, min_gain, doubt, plan }, in
---tokens; `plan(budget)` gives the host's verdicts. The steps that made it smaller: { step, before, after }.
function M.run(history, job)
  local taken = {}
  for _, step in ipairs(STEPS) do
    local before = history:sum()
    if before <= job.goal then
      break
    end
    step[2](history, job)
    if history:sum() < before then
      taken[#taken + 1] = { step = step[1], before = before, after = history:sum() }
    end
  end
  return taken
end

---Put placeholders for the results that a policy named, or (`media`) notes for the attachments of the messages;
---false if that changed nothing.
function M.prune(history, indexes, media)
  local changed = false
  for _, i in ipairs(indexes) do
    local message = history:message(i)
    local copy = media and shorten.without_media(message) or shorten.prune(message, history:tool(i))
    changed = copy ~= nil and history:put_smaller(i, copy) or changed
  end
  return changed
end

return M
