-- The seed functions in plain Lua that checks nothing: the opponent of the benchmark, and an
-- independent second opinion in the specs. Local functions, no needless work.
local floor = math.floor

local function bytes_of_parts(parts)
  local bytes, attachments = 0, 0
  for i = 1, #parts do
    local part = parts[i]
    local text = part.text
    if text then
      bytes = bytes + #text
    end
    local document = part.document
    if document then
      local source = document.source
      if source then
        if source.inline_text then
          bytes = bytes + #source.inline_text
        end
        if source.inline_data and source.inline_data ~= "" then
          attachments = attachments + 1
        end
      end
    end
    if part.image_url or part.file then
      attachments = attachments + 1
    end
  end
  return bytes, attachments
end

local function heuristic(message)
  local bytes, attachments = 0, 0
  local content = message.content
  if content then
    if type(content) == "string" then
      bytes = #content
    else
      bytes, attachments = bytes_of_parts(content)
    end
  end
  local reasoning = message.reasoning_content
  if reasoning then
    bytes = bytes + #reasoning
  end
  local parts = message.multi_content
  if parts then
    local b, a = bytes_of_parts(parts)
    bytes, attachments = bytes + b, attachments + a
  end
  local calls = message.tool_calls
  if calls then
    for i = 1, #calls do
      local called = calls[i]["function"]
      if called then
        bytes = bytes + #(called.name or "") + #(called.arguments or "")
      end
    end
  end
  local called = message.function_call
  if called then
    bytes = bytes + #(called.name or "") + #(called.arguments or "")
  end
  return floor(bytes / 3.5) + 1500 * attachments + 5
end

-- Reported size of a message, nil if there is none.
local function reported(message, usage)
  local size = usage.output_tokens or 0
  local reasoning = message.reasoning_content
  if not reasoning or reasoning == "" then
    size = size - (usage.reasoning_tokens or 0)
  end
  if size > 0 then
    return size + 5
  end
end

local function estimate(message, scale)
  local usage = message.usage
  return usage and reported(message, usage) or floor(heuristic(message) * scale)
end

local function calibrate(messages)
  local measured_sum, estimated_sum = 0, 0
  local open, base, in_window, guessed, window_model = false, 0, 0, 0, nil
  for i = 1, #messages do
    local message = messages[i]
    local usage = message.usage
    local prompt = usage
        and (usage.input_tokens or 0) + (usage.cached_input_tokens or 0) + (usage.cached_write_tokens or 0)
      or 0
    if prompt > 0 then
      local model = message.model or ""
      if open then
        local measured = prompt - base - in_window
        if measured > 0 and guessed > 0 and (model == window_model or model == "" or window_model == "") then
          measured_sum = measured_sum + measured
          estimated_sum = estimated_sum + guessed
        end
      end
      local answer = (usage.output_tokens or 0) - (usage.reasoning_tokens or 0)
      open, base, in_window, guessed, window_model = true, prompt + (answer > 0 and answer or 0), 0, 0, model
    elseif open then
      local size = usage and reported(message, usage)
      if size then
        in_window = in_window + size
      else
        guessed = guessed + heuristic(message)
      end
    end
  end
  if estimated_sum < 512 then
    return 1
  end
  local scale = measured_sum / estimated_sum
  return scale < 0.75 and 0.75 or scale > 2 and 2 or scale
end

local function walk_back(messages, budget)
  local scale = calibrate(messages)
  local sum, first = 0, #messages + 1
  for i = #messages, 1, -1 do
    local message = messages[i]
    sum = sum + estimate(message, scale)
    if sum > budget then
      return first, false
    end
    local role = message.role
    if role == "user" or role == "assistant" then
      first = i
    end
  end
  return first, true
end

local M = {}

function M.estimate_message_tokens(message)
  return estimate(message, 1)
end

M.scale = calibrate

function M.split_index_for_keep(messages, max_tokens)
  local first, all = walk_back(messages, max_tokens)
  return all and #messages + 1 or first
end

function M.first_index_in_budget(messages, limit)
  return (walk_back(messages, limit))
end

return M
