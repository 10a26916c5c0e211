---What a policy sees of a conversation: numbers, and questions about messages. Never a message table, so that
---none can be kept or changed.
local shape = require "compaction.shape"

local STATE = "compaction.State"

local M = {}

local function read_only()
  error("a policy's state is read-only", 2)
end

---@param history table
---@param verdict table of the plan
---@param plan fun(budget): table the plan's verdict with some numbers changed
function M.new(history, verdict, plan)
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
    plan = plan,
  }
  -- What is asked of a message that is not there is answered by what stands for nothing.
  local function question(answer, nothing)
    return function(i)
      local message = history:message(i)
      if message == nil then
        return nothing
      end
      return answer(i, message)
    end
  end
  fields.role = question(function(_, message)
    return shape.role(message)
  end)
  fields.size = question(function(i)
    return history:size(i)
  end, 0)
  fields.bytes = question(function(i)
    return history:sent_bytes(i)
  end, 0)
  fields.media = question(function(_, message)
    return shape.count_media(message)
  end, 0)
  fields.tool = question(function(i)
    return history:tool(i)
  end)
  function fields.turn(i)
    local turn = 0
    for k = 1, math.min(i, #c) do
      turn = turn + (shape.is_request(history:message(k)) and 1 or 0)
    end
    return turn
  end
  return setmetatable({}, { __index = fields, __newindex = read_only, __name = STATE })
end

function M.is(value)
  local meta = type(value) == "table" and getmetatable(value)
  return type(meta) == "table" and meta.__name == STATE
end

return M
