---@meta compaction
-- Types for language servers; never loaded. Sizes are in tokens, indexes count from 1.

error "compaction.types describes the module, it is not to be loaded"

---A value that says "nothing here" wherever a field may be absent: nil, `cjson.null`,
---`ngx.null`, `vim.NIL`, `dkjson.null`, a function (luajson's null).
---@alias compaction.Null nil|lightuserdata|userdata|function|table

---What a provider reported for the request that produced a message, in tokens. Numbers may be
---floats with an integral value; whole numbers within ±2^53.
---@class compaction.Usage
---@field input_tokens? integer the fresh part of the prompt; cached tokens are not in it
---@field cached_input_tokens? integer read from the provider's cache
---@field cached_write_tokens? integer written to the provider's cache
---@field output_tokens? integer reasoning included
---@field reasoning_tokens? integer how much of the output was reasoning

---@class compaction.Source
---@field inline_text? string text of the document
---@field inline_data? string binary data: one attachment if not empty

---One part of a message. Text is text; an image or a file is one attachment (1,500 tokens), and
---so is a document's data beside it.
---@class compaction.Part
---@field type? string not read
---@field text? string
---@field image_url? table|string
---@field file? table|string
---@field document? { source?: compaction.Source }

---@class compaction.Function
---@field name? string
---@field arguments? string JSON text

---@class compaction.ToolCall
---@field id? string
---@field function? compaction.Function

---One message. Fields not named here are the host's own and are left alone; `__index` is
---honoured; nothing is ever changed or kept.
---@class compaction.Message
---@field role string system, developer, user, assistant, tool; any other is "other"
---@field content? string|compaction.Part[]
---@field multi_content? compaction.Part[]
---@field reasoning_content? string reasoning that is stored and sent again
---@field tool_calls? compaction.ToolCall[]
---@field function_call? compaction.Function
---@field tool_call_id? string
---@field model? string the model that wrote the message
---@field usage? compaction.Usage

---@class compaction
---@field _VERSION string "compaction X.Y.Z"
---@field DEFAULT_THRESHOLD number 0.9: the fraction of the window at which to compact
---@field SYSTEM_PROMPT string system prompt for the summarising request
---@field USER_PROMPT string what to ask after the conversation in that request
local compaction = {}

---Tokens of one message: what the provider reported (+ 5 for the envelope), else
---trunc(bytes / 3.5) + 1500 an attachment + 5. O(fields of the message).
---@param message compaction.Message
---@return integer tokens
---Raises for values of a wrong type, naming the place: `message.usage.output_tokens: number
---expected, got string`. The same holds for all functions below, with `messages[3]…`.
function compaction.estimate_message_tokens(message) end

---Is it time to compact: input + output + added > trunc(limit × threshold)? False when the limit
---is not positive (unknown). O(1).
---@param input integer tokens of the last prompt
---@param output integer tokens of its answer
---@param added integer tokens of what was appended since
---@param limit integer the model's context window
---@param threshold? number outside (0, 1], or absent: 0.9
---@return boolean
function compaction.should_compact(input, output, added, limit, threshold) end

---Where the part to keep verbatim begins: the first index of the longest suffix that fits
---max_tokens and starts on a user or assistant message. `#messages + 1` means "keep nothing":
---no such suffix fits, or everything does (who compacts a conversation that fits wants all of
---it summarised). Sizes are calibrated on the list. O(#messages).
---@param messages compaction.Message[]
---@param max_tokens integer
---@return integer index
function compaction.split_index_for_keep(messages, max_tokens) end

---The first index from which the messages fit limit, on a user or assistant message;
---`#messages + 1` if there is none. When everything fits it is the earliest user or assistant
---message. For cutting a conversation to what a summarising model can read. O(#messages).
---@param messages compaction.Message[]
---@param limit integer tokens
---@return integer index
function compaction.first_index_in_budget(messages, limit) end

---An estimator calibrated on a conversation: between two messages with usage the provider
---charged a known number of tokens, and the ratio to what the heuristic guessed corrects it.
---Takes a list, or what `for` takes (`new_estimator(ipairs(t))`), where the message is the second
---value of each step, or the first where there is no second. Remembers the ratio, nothing else.
---@param messages compaction.Message[]|function list, or an iterator with its state and control
---@param state? any
---@param control? any
---@return compaction.Estimator
function compaction.new_estimator(messages, state, control) end

---new_estimator for a list alone.
---@param messages compaction.Message[]
---@return compaction.Estimator
function compaction.new_slice_estimator(messages) end

---Immutable. Prints as `compaction.Estimator(scale 1.23)`.
---@class compaction.Estimator
local estimator = {}

---Tokens of one message: the reported size if there is one, else trunc(heuristic × scale).
---@param message compaction.Message
---@return integer tokens
function estimator:estimate_message_tokens(message) end

---What the heuristic is multiplied with: 0.75 to 2, and 1 until windows worth 512 estimated
---tokens are known.
---@return number
function estimator:scale() end

return compaction
