-- The conversation in plain Lua, the fair opponent of the native one: digests in arrays, O(1)
-- append, O(tail) answers. Append, truncate, used and split under the seed's rules; nothing is
-- checked, paired or screened.
local floor, max = math.floor, math.max

local M = {}
M.__index = M

-- tokens_of(text) sizes texts; without it they count bytes / 3.5.
function M.new(tokens_of)
  return setmetatable({
    tokens_of = tokens_of,
    n = 0,
    size = {}, -- told tokens, or the guess
    told = {},
    turn = {}, -- does a user or assistant message stand here?
    anchors = 0,
    anchor_at = {},
    total = {},
    model = {},
    measured = { [0] = 0 }, -- sums at each anchor
    estimated = { [0] = 0 },
    window_told = 0,
    window_guess = 0,
  }, M)
end

local function tokens_by(count, message)
  local tokens = count(message.content or "")
  local calls = message.tool_calls
  if calls then
    for i = 1, #calls do
      local called = calls[i]["function"]
      tokens = tokens + count(called.name) + count(called.arguments)
    end
  end
  return tokens
end

local function bytes_of(message)
  local bytes = #(message.content or "") + #(message.reasoning_content or "")
  local calls = message.tool_calls
  if calls then
    for i = 1, #calls do
      local called = calls[i]["function"]
      bytes = bytes + #called.name + #called.arguments
    end
  end
  return bytes
end

local function arrive(self, i, message, usage, prompt)
  local k, model = self.anchors + 1, message.model or ""
  local measured_sum, estimated_sum = self.measured[k - 1], self.estimated[k - 1]
  if k > 1 then
    local measured, before = prompt - self.total[k - 1] - self.window_told, self.model[k - 1]
    if measured > 0 and self.window_guess > 0 and (model == before or model == "" or before == "") then
      measured_sum, estimated_sum = measured_sum + measured, estimated_sum + self.window_guess
    end
  end
  self.anchors, self.anchor_at[k], self.model[k] = k, i, model
  self.total[k] = prompt + max((usage.output_tokens or 0) - (usage.reasoning_tokens or 0), 0)
  self.measured[k], self.estimated[k] = measured_sum, estimated_sum
  self.window_told, self.window_guess = 0, 0
end

function M:append(message)
  local i, usage, role = self.n + 1, message.usage, message.role
  self.n = i
  self.turn[i] = role == "user" or role == "assistant"
  local count = self.tokens_of
  local guess = (count and tokens_by(count, message) or floor(bytes_of(message) / 3.5)) + 5
  local told, prompt
  if usage then
    told = usage.output_tokens or 0
    if not message.reasoning_content or message.reasoning_content == "" then
      told = told - (usage.reasoning_tokens or 0)
    end
    told = told > 0 and told + 5 or nil
    prompt = (usage.input_tokens or 0) + (usage.cached_input_tokens or 0) + (usage.cached_write_tokens or 0)
  end
  self.size[i], self.told[i] = told or guess, told ~= nil
  if prompt and prompt > 0 then
    arrive(self, i, message, usage, prompt)
  elseif told then
    self.window_told = self.window_told + told
  else
    self.window_guess = self.window_guess + guess
  end
  return i
end

function M:truncate(n)
  while self.anchors > 0 and self.anchor_at[self.anchors] > n do
    self.anchors = self.anchors - 1
  end
  self.n, self.window_told, self.window_guess = n, 0, 0
  for i = (self.anchor_at[self.anchors] or 0) + 1, n do
    if self.told[i] then
      self.window_told = self.window_told + self.size[i]
    else
      self.window_guess = self.window_guess + self.size[i]
    end
  end
end

function M:scale()
  local estimated = self.estimated[self.anchors]
  if estimated < 512 then
    return 1
  end
  local scale = self.measured[self.anchors] / estimated
  return scale < 0.75 and 0.75 or scale > 2 and 2 or scale
end

function M:used()
  local scale, k = self:scale(), self.anchors
  local sum, first = 0, 1
  if k > 0 then
    sum, first = self.total[k], self.anchor_at[k] + 1
  end
  for i = first, self.n do
    sum = sum + (self.told[i] and self.size[i] or floor(self.size[i] * scale))
  end
  return sum
end

function M:split_index_for_keep(budget)
  local scale, sum, first = self:scale(), 0, self.n + 1
  for i = self.n, 1, -1 do
    sum = sum + (self.told[i] and self.size[i] or floor(self.size[i] * scale))
    if sum > budget then
      return first
    end
    if self.turn[i] then
      first = i
    end
  end
  return self.n + 1
end

return M
