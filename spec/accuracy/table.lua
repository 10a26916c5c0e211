-- How far the text estimator is from real tokenizers: lua table.lua FILE.jsonl…
-- Each line holds a text, its class, and its exact count by each tokenizer.
local compaction = require "compaction"
local json = require "cjson"

local tokenizers = {
  { "o200k", "openai" },
  { "cl100k", "openai-legacy" },
  { "claude2", "claude-4", 1.09 }, -- what is known of the later ones: 9 % more
  { "gemma3", "gemini" },
  { "dsv3", "deepseek" },
  { "llama3", "llama" },
  { "qwen3", "qwen" },
}

local by_family, by_class, classes = {}, {}, {}

local function add(into, key, error)
  into[key] = into[key] or {}
  table.insert(into[key], error)
end

for _, path in ipairs(arg) do
  for line in io.lines(path) do
    local sample = json.decode(line)
    for _, t in ipairs(tokenizers) do
      local exact = sample[t[1]] and sample[t[1]] * (t[3] or 1)
      if exact and exact > 0 then
        local error = compaction.estimate_text_tokens(sample.text, t[2]) / exact - 1
        add(by_family, t[2], error)
        if not by_class[sample.class] then
          classes[#classes + 1] = sample.class
        end
        add(by_class, sample.class, error)
      end
    end
  end
end

local function print_row(name, errors)
  local sizes, sum, under, lowest = {}, 0, 0, 0
  for i, e in ipairs(errors) do
    sizes[i] = math.abs(e)
    sum = sum + sizes[i]
    under = under + ((1 + e) * 1.03 - 1 < -0.05 and 1 or 0)
    lowest = math.min(lowest, e)
  end
  table.sort(sizes)
  print(
    ("  %-22s %6d %8.1f %8.1f %14.1f %8.1f"):format(
      name,
      #errors,
      100 * sum / #errors,
      100 * sizes[math.ceil(0.95 * #errors)],
      100 * under / #errors,
      100 * lowest
    )
  )
end

print "text estimator against exact counts, errors in %; ×1.03 is under by more than 5 % in …"
print(("  %-22s %6s %8s %8s %14s %8s"):format("family", "texts", "mean", "p95", "× 1.03 under", "lowest"))
for _, t in ipairs(tokenizers) do
  if by_family[t[2]] then
    print_row(t[2], by_family[t[2]])
  end
end
print(("\n  %-22s"):format "class, all families")
table.sort(classes)
for _, class in ipairs(classes) do
  print_row(class, by_class[class])
end
