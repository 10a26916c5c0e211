---A ready-made policy: called with a state it decides by its defaults, called with options it makes another.
local options_of = require "compaction.options"
local state = require "compaction.policy.state"

---@param name string
---@param known table what options there are, as of compaction.options
---@param make fun(options: table): fun(state): table?
return function(name, known, make)
  local default = make {}
  return function(given)
    if state.is(given) then
      return default(given)
    end
    return make(options_of(name, 1, given, known))
  end
end
