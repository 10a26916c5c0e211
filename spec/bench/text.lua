-- The text estimator from Lua: beside the same sum in plain Lua, and in an agent's turn.
local compaction = require "compaction"
local plain_conversation = require "plain_conversation"
local make = require("messages").make
local timing = require "timing"

-- The table as an array, and its sum over a text.
local weights = {}
do
  local file = assert(io.open("src/tables/o200k.u8", "rb"))
  local bytes = file:read "*a"
  file:close()
  for i = 1, #bytes do
    weights[i - 1] = bytes:byte(i)
  end
end

local function plain_tokens(text)
  local sum, previous = 0, 10
  for i = 1, #text do
    local current = text:byte(i)
    sum = sum + weights[current * 256 + previous]
    previous = current
  end
  return math.floor((sum + 50) / 100)
end

local text = ("The function reads the file in pieces and gives each row to the importer.\n")
  :rep(27)
  :sub(1, 2000)

local best = timing.compare {
  function()
    compaction.estimate_text_tokens(text, "openai")
  end,
  function()
    plain_tokens(text)
  end,
}
print(
  ("\n%s: estimate_text_tokens on 2 KB: %.2f µs, plain Lua %.1f µs, %.0f ×"):format(
    timing.name,
    best[1] * 1e6,
    best[2] * 1e6,
    best[2] / best[1]
  )
)

-- Appending one message of 2 KB, taken back at once.
local function append_2k(options)
  local c, message = compaction.conversation(nil, options), { role = "user", content = text }
  return function()
    c:append(message)
    c:truncate(0)
  end
end
best = timing.compare { append_2k { estimator = "openai" }, append_2k { estimator = "seed" } }
print(
  ("  append of 2 KB: %.2f µs, with 'seed' %.2f µs: the table adds %.2f µs"):format(
    best[1] * 1e6,
    best[2] * 1e6,
    (best[1] - best[2]) * 1e6
  )
)

-- Agent turns with tool results of 2 KB, beside the object in plain Lua that weighs texts too.
local N, TURNS = 10000, 100
local all = make(N + 3 * TURNS, { user = 300, assistant = 400, tool = 2000 })
local weighing = plain_conversation.new(plain_tokens)
local native = compaction.conversation(nil, { model = "gpt-5" })
for i = 1, N do
  native:append(all[i])
  weighing:append(all[i])
end
local function turns_on(conversation)
  return function()
    for i = N + 1, N + 3 * TURNS, 3 do
      conversation:append(all[i])
      conversation:append(all[i + 1])
      conversation:append(all[i + 2])
      conversation:used()
      conversation:split_index_for_keep(20000)
    end
    conversation:truncate(N)
  end
end
best = timing.compare({ turns_on(native), turns_on(weighing) }, 7)
print(
  ("  one agent turn, 2 KB tool results: %.2f µs, the same in plain Lua %.1f µs, %.1f ×"):format(
    best[1] / TURNS * 1e6,
    best[2] / TURNS * 1e6,
    best[2] / best[1]
  )
)
