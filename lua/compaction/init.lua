---Size a conversation with a language model, say when it must be compacted, and where.
---The names and shapes are described in compaction/types.lua.
local core = require "compaction.core"

-- What is written in Lua is loaded when it is first asked for: a file, and the function in it.
local LAZY = {
  adapter = { "compaction.adapter" },
  fit = { "compaction.fit" },
  repair = { "compaction.repair", "repair" },
  overflow = { "compaction.overflow" },
  compactor = { "compaction.compactor" },
  policy = { "compaction.policy" },
}

local M = {
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

return setmetatable(M, {
  __index = function(self, name)
    local place = LAZY[name]
    if place == nil then
      return nil
    end
    local value = require(place[1])
    if place[2] then
      value = value[place[2]]
    end
    self[name] = value
    return value
  end,
})
