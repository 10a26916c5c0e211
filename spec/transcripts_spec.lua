-- Real conversations with real providers: sizes against what was charged, not against our sums.
local compaction = require "compaction"
local transcripts = require "spec.support.transcripts"

local all = transcripts.all()

local function line(name, s)
  print(
    ("  %-32s %4d turns, error p50 %5.2f %%, p95 %5.2f %%, under by > 2 %%: %4.1f %%, over by > 5 %%: %4.1f %%"):format(
      name,
      s.turns,
      s.median,
      s.p95,
      s.under,
      s.over
    )
  )
end

-- The replay of all files with one estimator: a line for each, and the sum.
local function replay_all(estimator)
  local errors = {}
  print(("\nthe size of the next prompt, estimator '%s'"):format(estimator))
  for _, transcript in ipairs(all) do
    local own = transcripts.replay(transcript.messages, { estimator = estimator }, compaction)
    line(transcript.name, transcripts.summary(own))
    for _, e in ipairs(own) do
      errors[#errors + 1] = e
    end
  end
  local summary = transcripts.summary(errors)
  line("all", summary)
  return summary
end

-- Runs of anchors between which the provider charged what was appended: no model switch, no
-- pruning. A list of lists of indexes.
local function unbroken_chains(messages)
  local chains, chain, last = {}, {}, nil
  for i, message in ipairs(messages) do
    local prompt = transcripts.prompt(message)
    if prompt > 0 then
      local usage = message.usage
      local appended = i - (last and last.i or i) > 1
      if last and not (appended and prompt > last.prompt + last.output and message.model == last.model) then
        chains[#chains + 1], chain = chain, {}
      end
      chain[#chain + 1] = i
      local output = math.max((usage.output_tokens or 0) - (usage.reasoning_tokens or 0), 0)
      last = { i = i, prompt = prompt, output = output, model = message.model }
    end
  end
  chains[#chains + 1] = chain
  return chains
end

if #all == 0 then
  describe("real transcripts", function()
    it("are not here: " .. transcripts.folder, function()
      print "skipped: no transcripts"
    end)
  end)
  return
end

describe("real transcripts", function()
  it("are sized by auto as well as by the seed, or better", function()
    local seed, auto = replay_all "seed", replay_all "auto"
    for _, figure in ipairs { "median", "p95", "under", "over" } do
      assert.is_true(auto[figure] <= seed[figure], figure)
    end
  end)

  it("have their next prompt foretold within what the tables promise", function()
    local auto = replay_all "auto"
    assert.is_true(auto.p95 <= 1.2 and auto.under <= 1.1 and auto.over <= 1.4)
  end)

  -- What was added between two anchors of a model, 1,000 bytes at least: the size asked before
  -- the provider told it, against what it charged.
  local function added_errors(estimator)
    local errors = {}
    for _, transcript in ipairs(all) do
      local conversation = compaction.conversation(nil, { estimator = estimator })
      local last, bytes
      for _, message in ipairs(transcript.messages) do
        local prompt, usage = transcripts.prompt(message), message.usage
        if prompt > 0 then
          if last and bytes >= 1000 and prompt > last.total and message.model == last.model then
            errors[#errors + 1] = (conversation:used() - last.total) / (prompt - last.total) - 1
          end
          local output = math.max((usage.output_tokens or 0) - (usage.reasoning_tokens or 0), 0)
          last, bytes = { total = prompt + output, model = message.model }, 0
        elseif last then
          bytes = bytes + (type(message.content) == "string" and #message.content or 0)
        end
        conversation:append(message)
      end
    end
    local sizes, under = {}, 0
    for k, e in ipairs(errors) do
      sizes[k] = math.abs(e)
      under = under + (e < -0.2 and 1 or 0)
    end
    table.sort(sizes)
    local median, share = 100 * sizes[math.ceil(#sizes / 2)], 100 * under / #sizes
    print(
      ("\nadded between anchors, '%s': %d windows, median error %.1f %%, under by > 20 %% in %.0f %%"):format(
        estimator,
        #sizes,
        median,
        share
      )
    )
    return median, share
  end

  it("have what is added between two anchors sized better than by the seed", function()
    local seed_median, seed_under = added_errors "seed"
    local median, under = added_errors "auto"
    assert.is_true(median < seed_median / 2)
    assert.is_true(under <= seed_under)
  end)

  it("are charged what the sizes between two anchors add up to", function()
    local sum, pairs_seen = 0, 0
    for _, transcript in ipairs(all) do
      local messages = transcript.messages
      local conversation = compaction.conversation(messages)
      for _, chain in ipairs(unbroken_chains(messages)) do
        for a = 1, #chain - 1 do
          for _, z in ipairs { a + 1, math.floor((a + 1 + #chain) / 2), #chain } do
            local from, to = chain[a], chain[z]
            local charged = transcripts.prompt(messages[to]) - transcripts.prompt(messages[from])
            local off = math.abs(conversation:estimate(from, to - 1) - charged) / charged
            assert.is_true(
              off <= 0.10 or math.abs(conversation:estimate(from, to - 1) - charged) <= 5,
              ("%s: messages %d to %d, off by %.1f %%"):format(transcript.name, from, to - 1, 100 * off)
            )
            sum, pairs_seen = sum + off, pairs_seen + 1
          end
        end
      end
    end
    print(
      ("\nsizes between anchors: mean error %.2f %% over %d pairs"):format(100 * sum / pairs_seen, pairs_seen)
    )
    assert.is_true(sum / pairs_seen <= 0.015)
  end)

  -- What the provider charged for messages from anchor `cut` on: the differences of its prompts,
  -- and our size where one fell because something left it without a trace.
  local function charged_from(conversation, messages, cut)
    local sum, last = 0, cut
    for i = cut + 1, #messages do
      if transcripts.prompt(messages[i]) > 0 then
        local difference = transcripts.prompt(messages[i]) - transcripts.prompt(messages[last])
        sum = sum + (difference > 0 and difference or conversation:estimate(last, i - 1))
        last = i
      end
    end
    return sum + conversation:estimate(last, #messages)
  end

  -- A conversation, the first legal cut in its second half, what was charged from there on.
  local function halved(messages)
    local conversation = compaction.conversation(messages)
    for cut = math.floor(#messages / 2), #messages do
      if conversation:can_cut(cut) and transcripts.prompt(messages[cut]) > 0 then
        return conversation, cut, charged_from(conversation, messages, cut)
      end
    end
  end

  local summary = { role = "user", content = ("word "):rep(700) }

  local function front_of(messages)
    local front = 0
    while ({ system = true, developer = true })[messages[front + 1].role] do
      front = front + 1
    end
    return front
  end

  for _, transcript in ipairs(all) do
    local messages = transcript.messages

    it("are sized through a compaction: " .. transcript.name, function()
      local conversation, cut, charged = halved(messages)
      local fixed = conversation:calibration().fixed
      local front = conversation:estimate(1, front_of(messages))
      local expected = fixed + front + compaction.conversation({ summary }):used() + charged
      conversation:replace(cut, summary)
      assert.near(expected, conversation:used(), 0.05 * expected)
    end)

    it("are sized the same when compacted, saved and read again: " .. transcript.name, function()
      local conversation, cut = halved(messages)
      local fixed = conversation:calibration().fixed
      local at = conversation:replace(cut, summary)
      local list = {}
      for i = 1, front_of(messages) do
        list[i] = messages[i]
      end
      list[at] = {
        role = "user",
        content = summary.content,
        compaction = { version = 1, kept = #messages - cut + 1, fixed = fixed },
      }
      for i = cut, #messages do
        list[#list + 1] = messages[i]
      end
      local again = compaction.conversation(list)
      assert.equal(#conversation, #again)
      assert.near(conversation:used(), again:used(), 0.05 * conversation:used())
    end)
  end
end)
