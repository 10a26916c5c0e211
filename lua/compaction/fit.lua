---A list of messages that fits, without a model: the oldest units go.
local checked = require "compaction.checked"
local core = require "compaction.core"
local present = require "compaction.present"
local raise = require "compaction.raise"
local options_of = require "compaction.options"
local repair = require "compaction.repair"
local shape = require "compaction.shape"

local GAP = "[Earlier messages were left out because they no longer fit.]"

local OPTIONS = {
  estimator = "string or function",
  model = "string",
  families = "table",
  fixed = "tokens",
  reserve = "tokens",
  gap = "string or boolean",
}

-- Were both made of one native table?
local function are_of_one(a, b)
  return type(a.native) == "table" and rawequal(a.native, b.native) and present(a.native) ~= nil
end

-- A repaired list that is to be shortened: where its front ends, what was asked last, where it may be
-- cut. Results stand behind their calls in it, so that a turn may be cut before.
local function survey(list, conversation)
  local s = { list = list, conversation = conversation, front = 0, cuts = {} }
  while list[s.front + 1] and shape.is_front(list[s.front + 1]) do
    s.front = s.front + 1
  end
  for i = #list, s.front + 1, -1 do
    if shape.is_request(list[i]) then
      s.request = i
      break
    end
  end
  for i = s.front + 1, #list do
    local together = i > 1 and are_of_one(list[i], list[i - 1])
    if shape.starts_turn(list[i]) and not together then
      s.cuts[#s.cuts + 1] = i
    end
  end
  return s
end

-- The list cut before `keep_from`; how many messages are missing in it.
local function cut(s, keep_from, gap)
  local out, kept = {}, #s.list - keep_from + 1
  for i = 1, s.front do
    out[i] = s.list[i]
  end
  local carried = s.request and s.request < keep_from
  kept = kept + (carried and 1 or 0)
  local dropped = #s.list - s.front - kept
  if dropped > 0 and gap then
    out[#out + 1] = { role = "user", content = gap, compaction = { version = 1, kept = kept } }
  end
  if carried then
    out[#out + 1] = s.list[s.request]
  end
  for i = keep_from, #s.list do
    out[#out + 1] = s.list[i]
  end
  return out, dropped
end

local function size_of(list, sizing)
  return core.conversation(list, sizing):estimate(1, #list)
end

-- By the sizes that the messages have in the whole list: the number of the oldest cut that fits.
local function first_guess(s, room, gap, sizing)
  local c = s.conversation
  local sum = c:estimate(1, s.front) + (s.request and c:estimate(s.request, s.request) or 0)
  if gap then
    sum = sum + size_of({ { role = "user", content = gap } }, sizing)
  end
  local best, behind = #s.cuts, #s.list + 1
  for k = #s.cuts, 1, -1 do
    local i = s.cuts[k]
    sum = sum + c:estimate(i, behind - 1)
    if s.request and i <= s.request and s.request < behind then
      sum = sum - c:estimate(s.request, s.request) -- it is part of what is kept
    end
    behind = i
    if sum > room then
      break
    end
    best = k
  end
  return best
end

-- Steps that double from `from` towards `to`, until `stop(k)`; where that was, and the step before it.
local function gallop(from, to, stop)
  local step, k = 1, from
  while k ~= to do
    local before = k
    k = to > from and math.min(k + step, to) or math.max(k - step, to)
    if stop(k) then
      return k, before
    end
    step = step * 2
  end
  return nil, k
end

-- The number of a cut that fits while the one before it does not (0 is no cut at all); nil if none fits.
-- Each try sizes a list of its own, so there are few: galloping from the guess, then halving.
local function search(fits, guess, count)
  local good, bad
  if fits(guess) then
    bad, good = gallop(guess, 0, function(k)
      return k == 0 or not fits(k)
    end)
  else
    good, bad = gallop(guess, count, fits)
  end
  while good and good - bad > 1 do
    local middle = math.floor((good + bad) / 2)
    if fits(middle) then
      good = middle
    else
      bad = middle
    end
  end
  return good
end

-- The largest message that must stay, as an index of the caller's list.
local function largest(s, origins)
  local best, most
  local function look(first, last)
    for i = first, last do
      local size = origins[i] and s.conversation:estimate(i, i)
      if size and (most == nil or size > most) then
        best, most = origins[i], size
      end
    end
  end
  look(1, s.front)
  if s.request then
    look(s.request, s.request)
  end
  look(s.cuts[#s.cuts] or s.front + 1, #s.list)
  return best
end

local function origin_of(origins, first)
  for i = first, #origins do
    if origins[i] then
      return origins[i]
    end
  end
end

-- Did repair change anything?
local function has_changed(report)
  for _, n in pairs(report) do
    if n > 0 then
      return true
    end
  end
  return false
end

---@see compaction.fit in types.lua
return function(messages, limit, options)
  local n = checked("fit", core.count_messages, messages, "fit")
  if type(limit) ~= "number" or not (limit >= 0 and limit <= 2 ^ 53 and limit % 1 == 0) then
    local got = type(limit) == "number" and tostring(limit) or type(limit)
    raise(("bad argument #2 to 'fit' (tokens (a whole number) expected, got %s)"):format(got))
  end
  local o = options_of("fit", 3, options, OPTIONS)
  local sizing = { estimator = o.estimator, model = o.model, families = o.families }
  local gap = o.gap
  if gap == nil or gap == true then
    gap = GAP
  elseif gap == "" then
    gap = false
  end
  local room = limit - (o.reserve or 0) - (o.fixed or 0)

  local given = checked("fit", core.conversation, messages, sizing)
  local list, repaired, origins = repair.run(messages, false, n)
  local s = survey(list, has_changed(repaired) and core.conversation(list, sizing) or given)
  local whole = s.conversation:estimate(1, #list)
  local report = {
    before = given:estimate(1, n),
    after = whole,
    limit = math.floor(limit),
    kept = #list,
    dropped = 0,
    keep_from = 1,
    repaired = repaired,
  }
  if whole <= room then
    return list, report
  end

  local function fits(k)
    local out = cut(s, s.cuts[k], gap)
    return size_of(out, sizing) <= room
  end
  local k = #s.cuts > 0 and search(fits, first_guess(s, room, gap, sizing), #s.cuts)
  if not k then
    return nil, "item", largest(s, origins)
  end
  local out, dropped = cut(s, s.cuts[k], gap)
  report.after = size_of(out, sizing)
  report.dropped = dropped
  report.kept = #list - dropped
  report.keep_from = origin_of(origins, s.cuts[k]) or n + 1
  return out, report
end
