---Ask a policy, and believe only a decision that makes sense.
local present = require "compaction.present"

local ACTIONS = { none = true, compact = true, prune = true, defer = true }

-- File and line, where the host's Lua can tell.
local function place_of(policy)
  if type(debug) ~= "table" or not debug.getinfo then
    return ""
  end
  local info = debug.getinfo(policy, "S")
  return info.what == "C" and " (in C)" or (" (%s:%d)"):format(info.short_src, info.linedefined)
end

local function index_complaint(indexes, count)
  if type(indexes) ~= "table" then
    return ("indexes: table expected, got %s"):format(type(indexes))
  end
  for k = 1, #indexes do
    local i = indexes[k]
    if type(i) ~= "number" or i % 1 ~= 0 or i < 1 or i > count then
      return ("indexes[%d]: index from 1 to %d expected, got %s"):format(k, count, tostring(i))
    end
  end
end

-- What is wrong with a decision; nil if nothing is.
local function complaint(decision, count)
  if type(decision) ~= "table" then
    return ("decision expected, got %s"):format(type(decision))
  elseif not ACTIONS[decision.action] then
    return ("action: none, compact, prune or defer expected, got %s"):format(tostring(decision.action))
  elseif decision.reason ~= nil and type(decision.reason) ~= "string" then
    return ("reason: string expected, got %s"):format(type(decision.reason))
  elseif decision.action == "prune" then
    return index_complaint(decision.indexes, count)
  end
end

-- A decision of its own: the policy may go on changing the table that it returned.
local function copy_of(decision)
  local copy = { action = decision.action, reason = decision.reason, media = decision.media == true or nil }
  if decision.action == "prune" then
    copy.indexes = {}
    for k = 1, #decision.indexes do
      copy.indexes[k] = decision.indexes[k]
    end
  end
  return copy
end

local function decide(policy, state)
  local decision = policy(state)
  if present(decision) == nil then
    return nil
  end
  local wrong = complaint(decision, state.count)
  return not wrong and copy_of(decision) or nil, wrong
end

---The opinion of a policy (nil: none), or nil and what is wrong with it: { action, reason, indexes, media }.
return function(policy, state)
  if policy == nil then
    return nil
  end
  local ok, decision, wrong = pcall(decide, policy, state)
  if not ok then
    return nil, ("the policy%s failed: %s"):format(place_of(policy), tostring(decision))
  elseif wrong then
    return nil, ("the policy%s returned nonsense (%s)"):format(place_of(policy), wrong)
  end
  return decision
end
