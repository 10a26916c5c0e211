---Policies: pure functions from a state to a decision, or nil for "no opinion". They say whether; the
---plan says where.
local present = require "compaction.present"
local shape = require "compaction.shape"

local M = {}

local ACTIONS = { none = true, compact = true, prune = true, defer = true }

local function read_only()
  error("a policy's state is read-only", 2)
end

---The state that a policy sees of a conversation: numbers, and questions about messages.
function M.state(history, verdict, plan)
  local c = history.conversation
  local used = c:used()
  local fields = {
    used = used,
    limit = verdict.limit,
    fixed = c:calibration().fixed,
    fraction = verdict.limit and verdict.limit > 0 and used / verdict.limit or 0,
    count = #c,
    scale = c:scale(),
    pending = c:pending(),
  }
  function fields.plan(budget)
    return plan(budget)
  end
  function fields.role(i)
    return shape.role(history:message(i) or {})
  end
  function fields.size(i)
    return history:message(i) and history:size(i) or 0
  end
  function fields.tool(i)
    return history:message(i) and history:tool(i) or nil
  end
  function fields.turn(i)
    local turn = 0
    for k = 1, math.min(i, #c) do
      turn = turn + (shape.is_request(history:message(k)) and 1 or 0)
    end
    return turn
  end
  return setmetatable({}, { __index = fields, __newindex = read_only })
end

local function check_indexes(indexes, count)
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
    return check_indexes(decision.indexes, count)
  end
end

---The opinion of a policy (nil: none), or nil and what is wrong with it.
function M.ask(policy, state)
  if policy == nil then
    return nil
  end
  local ok, decision = pcall(policy, state)
  if not ok then
    return nil, "the policy failed: " .. tostring(decision)
  elseif present(decision) == nil then
    return nil
  end
  local wrong = complaint(decision, state.count)
  if wrong then
    return nil, "the policy returned nonsense (" .. wrong .. ")"
  end
  return decision
end

return M
