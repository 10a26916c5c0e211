---Policies: pure functions from a state to a decision, or nil for "no opinion". They say whether; the
---plan says where. The ready-made ones are policies with their defaults, and make others of options:
---`policy.turns` and `policy.turns { turns = 8 }`.
return {
  threshold = require "compaction.policy.threshold",
  turns = require "compaction.policy.turns",
  prune_tool_results = require "compaction.policy.prune_tool_results",
  bytes = require "compaction.policy.bytes",
  default = require "compaction.policy.default",
  first = require "compaction.policy.first",
  simulate = require "compaction.policy.simulate",
}
