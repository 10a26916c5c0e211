-- What a host needs to know about a conversation: how large it is, whether to compact it,
-- and where to cut. lua demo.lua TRANSCRIPT.json [LIMIT]
--
-- The file holds { "messages": […] } or the list alone, in the shape of types.lua.
local compaction = require "compaction"

local function fail(text)
  io.stderr:write("demo: ", text, "\n")
  os.exit(1)
end

local function load_json()
  for _, name in ipairs { "cjson", "dkjson" } do
    local found, library = pcall(require, name)
    if found then
      return library
    end
  end
  fail "needs a JSON library: luarocks install dkjson (on Debian: apt-get install lua-dkjson)"
end

local function read_messages(path)
  local json = load_json()
  local file, reason = io.open(path, "rb")
  if not file then
    fail(reason)
  end
  local text = file:read "*a"
  file:close()
  local ok, document, _, problem = pcall(json.decode, text)
  if not ok or type(document) ~= "table" then
    fail(("%s is not JSON: %s"):format(path, tostring(problem or document)))
  end
  local messages = document.messages or document
  if #messages == 0 then
    fail(path .. " holds no messages")
  end
  return messages
end

-- JSON's null is a value of its own kind in each library; a count is a number or nothing.
local function count(usage, field)
  return type(usage) == "table" and type(usage[field]) == "number" and usage[field] or 0
end

local function prompt_of(message)
  local usage = message.usage
  return count(usage, "input_tokens")
    + count(usage, "cached_input_tokens")
    + count(usage, "cached_write_tokens")
end

-- The newest message whose usage gives an exact prompt, and how many windows lie between such.
local function find_anchors(messages)
  local newest, anchors = nil, 0
  for i, message in ipairs(messages) do
    if prompt_of(message) > 0 then
      newest, anchors = i, anchors + 1
    end
  end
  return newest, math.max(anchors - 1, 0)
end

-- The next prompt: what the provider counted last, its answer, and estimates of the rest.
local function next_prompt(messages, estimator)
  local newest = find_anchors(messages)
  local prompt, output, added = 0, 0, 0
  if newest then
    local usage = messages[newest].usage
    prompt = prompt_of(messages[newest])
    output = math.max(count(usage, "output_tokens") - count(usage, "reasoning_tokens"), 0)
  end
  for i = (newest or 0) + 1, #messages do
    added = added + estimator:estimate_message_tokens(messages[i])
  end
  return prompt, output, added
end

local function thousands(n)
  local text = ("%d"):format(n)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local function bar(used, limit, width)
  local filled = math.min(math.floor(used / limit * width + 0.5), width)
  return "[" .. ("#"):rep(filled) .. ("-"):rep(width - filled) .. "]"
end

local function tokens_between(messages, estimator, first, last)
  local sum = 0
  for i = first, last do
    sum = sum + estimator:estimate_message_tokens(messages[i])
  end
  return sum
end

local function print_roles(messages, estimator)
  local order, by_role = {}, {}
  for _, message in ipairs(messages) do
    local role = type(message.role) == "string" and message.role or "other"
    if not by_role[role] then
      by_role[role] = { messages = 0, tokens = 0 }
      order[#order + 1] = role
    end
    by_role[role].messages = by_role[role].messages + 1
    by_role[role].tokens = by_role[role].tokens + estimator:estimate_message_tokens(message)
  end
  print(("  %-12s %8s %10s"):format("role", "messages", "tokens"))
  for _, role in ipairs(order) do
    print(("  %-12s %8d %10s"):format(role, by_role[role].messages, thousands(by_role[role].tokens)))
  end
  print(
    ("  %-12s %8d %10s"):format(
      "all",
      #messages,
      thousands(tokens_between(messages, estimator, 1, #messages))
    )
  )
end

local function main(path, limit)
  local messages = read_messages(path)
  local estimator = compaction.new_estimator(messages)
  local _, windows = find_anchors(messages)
  local prompt, output, added = next_prompt(messages, estimator)
  local used = prompt + output + added
  local threshold = compaction.DEFAULT_THRESHOLD
  local keep = math.min(20000, math.floor(limit / 5))
  local first_kept = compaction.split_index_for_keep(messages, keep)

  print(("%s: %s\n"):format(compaction._VERSION, path))
  print_roles(messages, estimator)
  print(
    ("\nscale        %.3f, learned from %d window%s between provider counts"):format(
      estimator:scale(),
      windows,
      windows == 1 and "" or "s"
    )
  )
  print(
    ("next prompt  %s of %s tokens (%.0f %%): %s"):format(
      thousands(used),
      thousands(limit),
      100 * used / limit,
      prompt > 0
          and ("%s counted by the provider, %s answered, %s estimated since"):format(
            thousands(prompt),
            thousands(output),
            thousands(added)
          )
        or "all estimated, the provider reported nothing"
    )
  )
  print("             " .. bar(used, limit, 50))

  local full = compaction.should_compact(prompt, output, added, limit, threshold)
  print(
    ("compact?     %s: %s tokens are %s %.0f %% of the window"):format(
      full and "yes" or "no",
      thousands(used),
      full and "more than" or "not more than",
      100 * threshold
    )
  )
  print(
    ("cut          %s, to keep at most %s tokens verbatim"):format(
      first_kept > #messages and "at the end"
        or ("before message %d (%s)"):format(first_kept, messages[first_kept].role),
      thousands(keep)
    )
  )
  print(
    ("             summarise %d messages, %s tokens; keep %d messages, %s tokens"):format(
      first_kept - 1,
      thousands(tokens_between(messages, estimator, 1, first_kept - 1)),
      #messages - first_kept + 1,
      thousands(tokens_between(messages, estimator, first_kept, #messages))
    )
  )
end

local path, limit = arg[1], tonumber(arg[2] or 200000)
if not path then
  fail "usage: lua demo.lua TRANSCRIPT.json [LIMIT]"
end
if not limit or limit < 1 or limit % 1 ~= 0 then
  fail("LIMIT must be a whole number of tokens, got " .. tostring(arg[2]))
end
main(path, limit)
