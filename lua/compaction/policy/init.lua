---Policies: pure functions from a state to a decision, or nil for "no opinion". They say whether; the
---plan says where. The ready-made ones are policies with their defaults, and make others of options:
---`policy.turns` and `policy.turns { turns = 8 }`.
local core = require "compaction.core"
local options_of = require "compaction.options"
local present = require "compaction.present"
local shape = require "compaction.shape"

local M = {}

local STATE = "compaction.State"
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
  return setmetatable({}, { __index = fields, __newindex = read_only, __name = STATE })
end

local function is_state(value)
  local meta = type(value) == "table" and getmetatable(value)
  return type(meta) == "table" and meta.__name == STATE
end

-- A ready-made policy: called with a state it decides, called with options it makes another.
local function ready(name, known, make)
  local default = make {}
  M[name] = function(given)
    if is_state(given) then
      return default(given)
    end
    return make(options_of(name, 1, given, known))
  end
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

---The first opinion of several policies.
function M.first(policies)
  return function(state)
    for _, policy in ipairs(policies) do
      local decision = policy(state)
      if present(decision) ~= nil then
        return decision
      end
    end
  end
end

-- Compact beyond a share of the window.
ready("threshold", { threshold = "number" }, function(o)
  local threshold = o.threshold or core.DEFAULT_THRESHOLD
  return function(state)
    if state.fraction > threshold then
      return { action = "compact", reason = "threshold" }
    end
  end
end)

-- Compact when more than so many turns are in the list.
ready("turns", { turns = "tokens" }, function(o)
  local most = o.turns or 20
  return function(state)
    if state.turn(state.count) > most then
      return { action = "compact", reason = "turns" }
    end
  end
end)

-- Tokens of a placeholder.
local PLACEHOLDER = 25

-- Prune all results but the newest `keep` and those of protected tools, where that frees a share of the window.
ready("prune_tool_results", { keep = "tokens", protect = "table", min_gain = "number" }, function(o)
  local keep, protected = o.keep or 5, {}
  for _, name in ipairs(o.protect or {}) do
    protected[name] = true
  end
  return function(state)
    local indexes, gain, newer = {}, 0, 0
    for i = state.count, 1, -1 do
      if state.role(i) == "tool" then
        newer = newer + 1
        local freed = state.size(i) - PLACEHOLDER
        if newer > keep and freed > 0 and not protected[state.tool(i) or ""] then
          table.insert(indexes, 1, i)
          gain = gain + freed
        end
      end
    end
    if gain > 0 and gain >= (o.min_gain or 0.05) * (state.limit or 0) then
      return { action = "prune", indexes = indexes, reason = "old_results" }
    end
  end
end)

-- Prune when that is cheap, else the threshold.
ready(
  "default",
  { threshold = "number", keep = "tokens", protect = "table", min_gain = "number" },
  function(o)
    local threshold = M.threshold { threshold = o.threshold }
    local prune = M.prune_tool_results { keep = o.keep, protect = o.protect, min_gain = o.min_gain or 0.2 }
    return function(state)
      local opinion = threshold(state)
      return opinion and (prune(state) or opinion)
    end
  end
)

-- Summaries as long as half of what is asked for, each another one.
local function stand_ins()
  local n = 0
  return function(request)
    n = n + 1
    return ("Summary %d. "):format(n) .. ("word "):rep(math.max(math.floor(request.max_tokens / 2), 1))
  end
end

---What a policy would have decided before each assistant message of a recorded conversation, carried out with a
---stand-in for the summary. `options` are those of compaction.compactor.
function M.simulate(policy, messages, options)
  local o = { summarize = stand_ins(), policy = policy }
  for key, value in pairs(options or {}) do
    o[key] = value
  end
  local chat = require "compaction.compactor"(o)
  local decisions = {}
  for i, message in ipairs(messages) do
    if present(message.role) == "assistant" then
      local verdict = chat:decide()
      local decision = {
        index = i,
        action = verdict.action,
        reason = verdict.reason,
        used = verdict.used,
        limit = verdict.limit,
        policy_error = verdict.policy_error,
      }
      chat:compact()
      decision.after = chat:used()
      decisions[#decisions + 1] = decision
    end
    chat:append(message)
  end
  return decisions
end

return M
