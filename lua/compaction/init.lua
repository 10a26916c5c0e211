---Size a conversation with a language model, say when it must be compacted, and where.
---The names and shapes are described in compaction/types.lua.
local core = require "compaction.core"

return {
  _VERSION = core._VERSION,
  DEFAULT_THRESHOLD = core.DEFAULT_THRESHOLD,
  SYSTEM_PROMPT = core.SYSTEM_PROMPT,
  USER_PROMPT = core.USER_PROMPT,
  estimate_message_tokens = core.estimate_message_tokens,
  should_compact = core.should_compact,
  split_index_for_keep = core.split_index_for_keep,
  first_index_in_budget = core.first_index_in_budget,
  new_estimator = core.new_estimator,
  new_slice_estimator = core.new_slice_estimator,
  estimate_text_tokens = core.estimate_text_tokens,
  family_of = core.family_of,
  FAMILIES = core.FAMILIES,
  conversation = core.conversation,
  restore = core.restore,
}
