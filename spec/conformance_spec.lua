-- Values computed by an independent implementation: spec/conformance/README.md
local compaction = require "compaction"
local json = require "spec.support.json"

for _, decoder in ipairs(json.decoders) do
  describe("conformance, decoded by " .. decoder.name, function()
    local cases = decoder.decode(json.read "spec/conformance/conversations.json")
    assert(#cases == 240)

    for _, case in ipairs(cases) do
      it(case.id, function()
        local messages, expected = case.messages, case.expected
        local estimator = compaction.new_estimator(messages)
        assert.near(expected.scale, estimator:scale(), 1e-12)
        assert.equal(estimator:scale(), compaction.new_slice_estimator(messages):scale())
        assert.equal(estimator:scale(), compaction.new_estimator(ipairs(messages)):scale())
        for i, message in ipairs(messages) do
          assert.equal(expected.uncalibrated[i], compaction.estimate_message_tokens(message))
          assert.equal(expected.calibrated[i], estimator:estimate_message_tokens(message))
        end
        for k, budget in ipairs(case.budgets) do -- the vectors count from 0
          assert.equal(
            expected.split_index_for_keep[k] + 1,
            compaction.split_index_for_keep(messages, budget)
          )
          assert.equal(
            expected.first_index_in_budget[k] + 1,
            compaction.first_index_in_budget(messages, budget)
          )
        end
      end)
    end
  end)
end

describe("conformance of should_compact", function()
  local rows = json.decode(json.read "spec/conformance/should_compact.json")
  assert(#rows == 320)
  for i, row in ipairs(rows) do
    it("row " .. i, function()
      assert.equal(
        row.expected,
        compaction.should_compact(row.input, row.output, row.added, row.limit, row.threshold)
      )
    end)
  end
end)
