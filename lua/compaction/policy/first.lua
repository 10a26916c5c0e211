---The first opinion of several policies.
local present = require "compaction.present"
local raise = require "compaction.raise"

---@param policies function[]
return function(policies)
  if type(policies) ~= "table" then
    raise(("bad argument #1 to 'first' (list of policies expected, got %s)"):format(type(policies)))
  end
  local list = {}
  for k = 1, #policies do
    if type(policies[k]) ~= "function" then
      raise(
        ("bad argument #1 to 'first' (policies[%d]: function expected, got %s)"):format(k, type(policies[k]))
      )
    end
    list[k] = policies[k]
  end
  return function(state)
    for _, policy in ipairs(list) do
      local decision = policy(state)
      if present(decision) ~= nil then
        return decision
      end
    end
  end
end
