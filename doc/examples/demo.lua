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
  if not ok or document == nil then
    fail(("%s is not JSON: %s"):format(path, tostring(problem or document)))
  end
  local messages = type(document) == "table" and (document.messages or document)
  if type(messages) ~= "table" or #messages == 0 then
    fail(path .. " holds no list of messages")
  end
  return messages
end

local function thousands(n)
  local text = ("%d"):format(n)
  return (text:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end

local function bar(used, limit, width)
  local filled = math.min(math.floor(used / limit * width + 0.5), width)
  return "[" .. ("#"):rep(filled) .. ("-"):rep(width - filled) .. "]"
end

local ROLES = { "system", "developer", "user", "assistant", "tool", "other" }

local function print_roles(messages, conversation)
  local by_role = {}
  for i, message in ipairs(messages) do
    local role = type(message.role) == "string" and message.role or "other"
    if not ("system developer user assistant tool"):find(role, 1, true) then
      role = "other"
    end
    by_role[role] = by_role[role] or { messages = 0, tokens = 0 }
    by_role[role].messages = by_role[role].messages + 1
    by_role[role].tokens = by_role[role].tokens + conversation:estimate(i, i)
  end
  print(("  %-12s %8s %10s"):format("role", "messages", "tokens"))
  for _, role in ipairs(ROLES) do
    local sum = by_role[role]
    if sum then
      print(("  %-12s %8d %10s"):format(role, sum.messages, thousands(sum.tokens)))
    end
  end
  print(("  %-12s %8d %10s"):format("all", #messages, thousands(conversation:estimate(1, #messages))))
end

local function print_size(conversation, limit)
  local learned = conversation:calibration()
  local used, source = conversation:used()
  print(
    ("\nscale        %.3f, learned from %d window%s between provider counts"):format(
      learned.scale,
      learned.windows,
      learned.windows == 1 and "" or "s"
    )
  )
  print(("fixed part   %s tokens of every prompt are in no message"):format(thousands(learned.fixed)))
  print(
    ("next prompt  %s of %s tokens (%.0f %%), %s"):format(
      thousands(used),
      thousands(limit),
      100 * used / limit,
      source == "anchor" and "from the provider's last count"
        or "all estimated: the provider reported nothing"
    )
  )
  print("             " .. bar(used, limit, 50))
  local full = compaction.should_compact(used, 0, 0, limit)
  print(
    ("compact?     %s: %s tokens are %s %.0f %% of the window"):format(
      full and "yes" or "no",
      thousands(used),
      full and "more than" or "not more than",
      100 * compaction.DEFAULT_THRESHOLD
    )
  )
end

local function print_cut(messages, conversation, limit)
  local keep = math.min(20000, math.floor(limit / 5))
  local first_kept = conversation:keep_from(keep)
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
      thousands(conversation:estimate(1, first_kept - 1)),
      #messages - first_kept + 1,
      thousands(conversation:estimate(first_kept, #messages))
    )
  )
end

local function main(path, limit)
  local messages = read_messages(path)
  local ok, conversation = pcall(compaction.conversation, messages, { limit = limit })
  if not ok then
    fail(conversation)
  end
  print(("%s: %s\n"):format(compaction._VERSION, path))
  print_roles(messages, conversation)
  print_size(conversation, limit)
  print_cut(messages, conversation, limit)
end

local path, limit = arg[1], tonumber(arg[2] or 200000)
if not path then
  fail "usage: lua demo.lua TRANSCRIPT.json [LIMIT]"
end
if not limit or limit < 1 or limit % 1 ~= 0 then
  fail("LIMIT must be a whole number of tokens, got " .. tostring(arg[2]))
end
main(path, limit)
