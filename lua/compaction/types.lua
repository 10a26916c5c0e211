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
---@field suspect? string what is odd about the provider's numbers, from an adapter

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
---@field arguments? string|table JSON text; a table counts as its compact JSON

---@class compaction.ToolCall
---@field id? string|number
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
---@field tool_call_id? string|number of the call that a tool message answers
---@field model? string the model that wrote the message
---@field usage? compaction.Usage
---@field name? string of the called tool, on a tool message; `repair` pairs by it where ids are missing
---@field native? any what an adapter made the message of
---@field compaction? { version: integer, kept?: integer, fixed?: integer } of a summary: how many messages behind it were kept, and the fixed part then; read when the message is appended to a conversation

---A list of messages: a table with a length, whose fields besides are the host's own. `__len` and
---`__index` are honoured on every version, and may not yield.

---@class compaction
---@field _VERSION string "compaction X.Y.Z"
---@field DEFAULT_THRESHOLD number 0.9: the fraction of the window at which to compact
---@field adapter compaction.Adapters
---@field policy compaction.Policies
---@field SYSTEM_PROMPT string system prompt for the summarising request
---@field FAMILIES compaction.Family[] the known families of tokenizers, "unknown" last
---@field USER_PROMPT string what to ask after the conversation in that request
local compaction = {}

---Tokens of one message: what the provider reported (+ 5 for the envelope), else
---trunc(bytes / 3.5) + 1500 an attachment + 5. O(fields of the message).
---
---Raises for values of a wrong type, naming the place: `message.usage.output_tokens: number
---expected, got string`. The same holds for all functions below, with `messages[3]…`.
---@param message compaction.Message
---@return integer tokens
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
---
---With options (behind the list, or behind the iterator's control) texts are sized as a conversation
---does it: `estimator` ("auto", "seed", a family, a function), `model`, `families`. The scale is learned by
---the same rule; messages given to the estimator later are sized by the newest model met.
---@param state? any options, for a list
---@param control? any
---@param options? { estimator?: "auto"|"seed"|compaction.Family|fun(text: string): integer; families?: table<string, compaction.Family>; model?: string }
---@return compaction.Estimator
function compaction.new_estimator(messages, state, control, options) end

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

---The families of tokenizers that are known, "unknown" last.
---@alias compaction.Family "openai"|"openai-legacy"|"claude-4"|"claude-5"|"gemini"|"deepseek"|"llama"|"qwen"|"unknown"

---Tokens of a text by the tokenizer of a family, without the tokenizer: the sum of a weight for
---each pair of bytes. 2 to 3 % off on the average of natural texts. Never more than #text, never
---less than 1 for a text that is not empty; any bytes are taken. O(#text), about a byte a cycle.
---@param text string
---@param family? compaction.Family "unknown" if absent: the larger of openai and claude-4
---@return integer tokens
function compaction.estimate_text_tokens(text, family) end

---The family of a model by its name, whatever provider, date or gateway stands around it.
---`families` are the host's own names, looked at first: `{ ["my-proxy/*"] = "openai" }`, where * stands for
---anything and the longest pattern that fits decides.
---@param model? string
---@param families? table<string, compaction.Family>
---@return compaction.Family
function compaction.family_of(model, families) end

---What is told of a repaired list: results without a call, and calls that were dropped; second results of a call;
---results that were made up; results that stood elsewhere than behind their call; empty assistant
---messages; user messages that were added because nothing else was left.
---@alias compaction.Repaired { dropped: integer, duplicates: integer, placeholders: integer, moved: integer, empty: integer, added: integer }

---A list whose structure any provider accepts: each call has one result, directly behind it; no
---assistant message is empty; the list does not start on a result and holds more than system
---messages. What is kept are the same tables, contents included; nothing handed in is changed; a
---repaired list is left as it is.
---
---Results are paired by id, each with the newest open call; those without a usable id by `name` and
---in order, with the calls of the batch before. A call without a result gets a placeholder, marked
---`compaction = { version = 1, placeholder = true }`; with `calls = "drop"` the call goes instead, from a copy
---of its message without `native`. `function_call` and role "function" are left alone. O(#messages).
---@param messages compaction.Message[]
---@param options? { calls?: "placeholder"|"drop" }
---@return compaction.Message[] messages
---@return compaction.Repaired report
function compaction.repair(messages, options) end

---A list that fits: repaired, then without its oldest units, as few as need be. Leading system
---messages, the last request of the user (carried over where it stands before the cut) and the
---newest unit stay; a cut never parts messages that an adapter made of one table (a request that is
---carried over may have been made together with results: send it by from_message then). It fits when
---`compaction.conversation(out, options):estimate(1, #out)` is at most limit - reserve - fixed; with the unit
---before the kept ones it would not.
---
---Where something was dropped, a user message stands behind the front and says so (`gap`, false for
---none), marked `compaction = { version = 1, kept = n }`: n messages behind it were kept, and their usage is
---no base any more. O(#messages) for each of some ten lists that are tried; a host's counter is called for
---each of their texts.
---
---`nil, "item", index`: what must stay is too large alone; index is the largest of it, in the list given
---(nil if all of it was put in by repair).
---@param messages compaction.Message[]
---@param limit integer tokens
---@param options? { estimator?: string|fun(text: string): integer; model?: string; families?: table<string, compaction.Family>; fixed?: integer, reserve?: integer, gap?: string|boolean } fixed: sent besides the list; reserve: for the answer
---@return compaction.Message[]? messages
---@return { before: integer, after: integer, limit: integer, kept: integer, dropped: integer, keep_from: integer, repaired: compaction.Repaired }|"item" report keep_from: first kept message behind the gap, as an index of the list given
---@return integer? index
function compaction.fit(messages, limit, options) end

---What an error says about size. `tokens`: the prompt is too long, compact. `rate`: wait.
---`rate_size`: a rate that this request exceeds alone, so that waiting never helps. `wire`: too many
---bytes. `media`: too large or too many images, pages. `config`: an option of the request is wrong.
---`malformed`: calls and results do not belong together.
---@alias compaction.OverflowKind "tokens"|"rate"|"rate_size"|"wire"|"media"|"config"|"malformed"

---@class compaction.Overflow
---@field kind compaction.OverflowKind
---@field actual? integer tokens that the provider compares with the limit, output included where it says so
---@field limit? integer tokens; never below 1,024, never above actual
---@field input? integer tokens of the prompt alone, where that is told
---@field output? integer tokens asked for besides
---@field excess? integer tokens too many
---@field provider? string whose wording it is, where that is clear
---@field confidence number 0 to 1

---What a provider's error says about size; nil where it is no overflow of any kind. Read by structure:
---two numbers around a comparison and the nouns beside them, in any wording. Numbers of bytes or
---characters are never handed out. O(bytes), of more than 256 KB the two ends are read.
---
---`patterns` are the host's own, tried first, on the text as it is: `{ pattern = "(%d+) von (%d+)", kind =
---"tokens", captures = { "actual", "limit" }, provider = "x" }` (Lua patterns).
---@param error? string|table the body as text, as a decoded table, or nested
---@param status? integer of HTTP
---@param options? { patterns?: { pattern: string, kind: compaction.OverflowKind, captures?: string[], provider?: string }[] }
---@return compaction.Overflow?
function compaction.overflow(error, status, options) end

---Shapes of messages: of providers, and of hosts.
---@alias compaction.Shape "openai"|"responses"|"anthropic"|"gemini"|"bedrock"|"ollama"|"codecompanion"|"avante"|"copilotchat"

---@class compaction.Adapter
local adapter = {}

---One native message, a list of them, or the response around one, as a list of ours. Each message
---carries `native`: the table that made it, or a list where several did (a run of Responses items);
---several messages made of one table all carry it, and a host sends it once. Calls' arguments stay
---tables, media are one attachment each, unknown parts count as their JSON, signatures and encrypted
---reasoning as nothing. Usage and model are found on the message or around it. Wrong values raise
---with their place.
---@param native table|string
---@return compaction.Message[]
function adapter.to_messages(native) end

---A native message made of one of ours: a summary, a placeholder, a shortened result.
---@param message compaction.Message
---@return table
function adapter.from_message(message) end

---A provider's usage in our convention; a list is a stream, where later values overwrite earlier
---ones and null overwrites nothing. nil where nothing is told. What is odd stands in `suspect`.
---@param native? table
---@return compaction.Usage?
function adapter.usage(native) end

---@class compaction.Adapters: table<compaction.Shape, compaction.Adapter>
compaction.adapter = {}

---The shape of a message by its marks, or of the first one in a list that has any; "openai" where
---nothing tells. A name that is given wins.
---@param native table|string
---@param name? compaction.Shape
---@return compaction.Shape
function compaction.adapter.detect(native, name) end

---A conversation that reads each message once, when it is appended, and answers in constant
---time. It keeps what messages cost, no text and no table.
---
---`estimator`: "auto" (default) sizes texts by the family of `model`, else of the newest assistant
---message that names its model; screens what providers report, keeps a scale for each model,
---learns the fixed part of every prompt, and sizes messages by what was charged for them. A
---family: the same by that family alone. A function: the same with a counter of the host's own,
---called once for each text when it is appended; one that fails or answers no count raises, and
---nothing has changed. "seed" answers as the functions above do on the same list.
---`families`: the host's own names of models, as for `family_of`.
---@param messages? compaction.Message[]
---@param options? { estimator?: "auto"|"seed"|compaction.Family|fun(text: string): integer; families?: table<string, compaction.Family>; limit?: integer, model?: string } unknown options raise
---@return compaction.Conversation
function compaction.conversation(messages, options) end

---The conversation that a snapshot was taken of; without the host's counter and names of models,
---which are no data: what is appended to it is sized by the known families. Raises for strings that are cut, altered or
---none of ours. O(#snapshot).
---@param snapshot string
---@return compaction.Conversation
function compaction.restore(snapshot) end

---Indexes out of range, illegal cuts and wrong messages raise, and nothing has changed then.
---@class compaction.Conversation
local conversation = {}

---Append one message (a table with a role) or a list, all of it or nothing. O(1) a message.
---@param message_or_list compaction.Message|compaction.Message[]
---@return integer length
function conversation:append(message_or_list) end

---Read message i again: it was pruned, has finished streaming, or its usage came late. Anchors
---behind it are corrected by the difference of the two estimates. O(what follows i).
---@param i integer
---@param message compaction.Message
function conversation:set(i, message) end

---Forget everything after message n: every answer is then as if it had never come. O(dropped).
---@param n integer
function conversation:truncate(n) end

---Put a message (a summary) in place of all between the front (leading system messages) and
---keep_from, which must be a legal cut. `request` is carried over behind it: the index of a
---message before keep_from, or a message. What was learned stays. O(kept part).
---@param keep_from integer
---@param message compaction.Message
---@param request? integer|compaction.Message
---@return integer index of the message
---@return integer length
function conversation:replace(keep_from, message, request) end

---A prompt count for exactly the present messages, without a message of its own: usage that came
---late, the number in an overflow error. Output and reasoning are not read.
---@param usage compaction.Usage
---@param model? string
function conversation:observe(usage, model) end

---The model's context window, nil if not known: a prompt of half of it is looked at twice.
---@param tokens? integer
function conversation:set_limit(tokens) end

---The model that the next request goes to: its scale is used, and its family for what is appended,
---as the option `model`; nil takes it back.
---@param name? string
function conversation:set_model(name) end

---What is sent outside the list, or its tokens; tools count as their JSON. Holds until an anchor knows
---better.
---@param fixed { system?: string, tools?: table }|integer
function conversation:set_fixed(fixed) end

---@return integer
function conversation:len() end

---Tokens that the next prompt will hold, and whether that rests on a prompt that a provider
---counted. Nothing is allocated. O(1); with "seed" O(what follows the anchor).
---@return integer tokens
---@return "anchor"|"estimate"
function conversation:used() end

---Tokens of messages i to j, both included; j = i - 1 is none. O(j - i).
---@param i integer
---@param j integer
---@return integer tokens
function conversation:estimate(i, j) end

---What heuristic sizes are multiplied with now.
---@return number
function conversation:scale() end

---As the function of this name, on this conversation. O(kept part).
---@param max_tokens integer
---@return integer index
function conversation:split_index_for_keep(max_tokens) end

---As the function of this name, on this conversation. O(kept part).
---@param limit integer
---@return integer index
function conversation:first_index_in_budget(limit) end

---First index of the largest suffix within max_tokens that separates no call from its results and
---starts on a user or assistant message; `#conversation + 1` if there is none. O(kept part).
---@param max_tokens integer
---@return integer index
function conversation:keep_from(max_tokens) end

---May the list be cut before message i? `#conversation + 1` is its end. O(#conversation - i).
---@param i integer
---@return boolean
function conversation:can_cut(i) end

---Number of calls that wait for a result: of the newest assistant message, unanswered.
---@return integer
function conversation:pending() end

---What the next prompt is made of, in tokens; the parts add up to used(). O(#conversation).
---@return { system: integer, user: integer, assistant: integer, reasoning: integer, tool_calls: integer, tool_results: integer, attachments: integer, summary: integer, fixed: integer }
function conversation:breakdown() end

---What was learned of the present model, the fixed part of every prompt, and how many counts were
---not taken at their word: `shrunk` (smaller than before: a new base), `model` (another
---tokenizer), `clipped` and `aggregated` (refused), `placeholder` (an output that cannot be true).
---@return { scale: number, family: compaction.Family, mass: integer, windows: integer, fixed: integer, limit?: integer, refused: { shrunk: integer, model: integer, clipped: integer, aggregated: integer, placeholder: integer } }
function conversation:calibration() end

---What a host allows; every field has a default. W is the limit, the room is what the trigger leaves
---for messages: trigger - fixed part - front system messages.
---@class compaction.Budget
---@field limit? integer the model's context window; the conversation's own
---@field threshold? number share of it at which to compact; 0.9
---@field reserve? integer output that the host asks for, never over W/2; 0
---@field keep? integer of the newest part, verbatim; min(20,000, W/5, 0.4 room)
---@field summary? integer the longest summary; min(16,000, W/4, 0.3 room)
---@field min_gain? integer a compaction that frees less is none; min(W/20, room/5)
---@field summarizer_limit? integer the summarising model's window; W
---@field force? boolean|"keep" compact now. true: a user asked for it, nothing is kept where all would fit the budget; "keep": at least the last exchange stays

---@class compaction.Verdict
---@field action "none"|"compact"|"defer"|"stuck"
---@field reason string none: no_limit, fits, paused (compacted just now, nobody said anything since); compact: trigger, forced; defer: pending (calls wait for results); stuck: overhead (what is in every prompt leaves less than W/8), item (one message is too large), no_gain (no legal cut frees enough)
---@field used integer tokens of the next prompt
---@field limit? integer
---@field trigger? integer the size that is too large: min(threshold W, 0.95 (W - reserve))
---@field target? integer the size aimed at
---@field floor? integer the least that can be reached
---@field after? integer of a compaction: the size then, below the trigger
---@field gain? integer what is freed
---@field summary? integer tokens that the summary may have
---@field keep_from? integer first message to keep verbatim; #conversation + 1: none
---@field first? integer first message to summarise
---@field last? integer last message to summarise
---@field summarizer_from? integer of these, the first that the summariser can read together with all behind it
---@field request? integer the last request, where it stands before keep_from: to be carried over
---@field item? integer stuck: the message that is too large; compact: the request, where it must be cut

---Should the conversation be compacted now, where, and if not, why? Pure. O(kept part, and what follows
---the last request).
---@param budget? compaction.Budget
---@return compaction.Verdict
function conversation:plan(budget) end

---The conversation as a string, the same on every machine. O(#conversation).
---@return string
function conversation:snapshot() end

---@class compaction.CompactorOptions
---@field limit? integer the model's context window in tokens; nothing is compacted without one
---@field model? string
---@field summarize? fun(request: compaction.Request, done?: fun(reply, reason)): any, any asks the host's model; without it only the ladder helps
---@field policy? fun(state): table? says whether; nil: the plan alone
---@field shape? string messages come and go in this adapter's shape; nil: ours
---@field on_event? fun(event: table) `event.type`: planned (verdict), chunk (chunk, chunks, request), accepted, refused (reason), applied (report), stuck (reason), policy_failed (reason)
---@field estimator? any as of compaction.conversation
---@field families? table
---@field fixed? table|integer as of conversation:set_fixed
---@field threshold? number
---@field reserve? integer
---@field keep? integer
---@field summary? integer
---@field min_gain? integer
---@field summarizer_limit? integer tokens; the limit
---@field instructions? string what a summary should heed besides
---@field result_bytes? integer of a tool result or a call's arguments in a summarising request; longer ones are cut in their middle; 16,000
---@field patterns? table as of compaction.overflow

---What a policy sees: numbers, and questions about messages. Read-only; it holds no message table.
---@class compaction.State
---@field used integer tokens of the next prompt
---@field limit? integer
---@field fixed integer tokens that stand in every prompt (system prompt, tools)
---@field fraction number used / limit; 0 without a limit
---@field count integer of messages
---@field scale number
---@field pending integer calls that wait for a result
---@field plan fun(budget: compaction.Budget): compaction.Verdict the plan's verdict with some numbers changed
---@field role fun(i: integer): string?
---@field size fun(i: integer): integer tokens of message i
---@field bytes fun(i: integer): integer of message i in a request body, about
---@field media fun(i: integer): integer number of its attachments
---@field tool fun(i: integer): string? name of the tool whose result it is
---@field turn fun(i: integer): integer how many of the user's requests stand up to it

---What a policy decides; nil: no opinion. It says whether, the plan says where.
---@class compaction.Decision
---@field action "none"|"compact"|"prune"|"defer"
---@field reason? string
---@field indexes? integer[] of a prune: the tool results that become placeholders
---@field media? boolean of a prune: not the results, but the attachments of these messages

---Ready-made policies; each is a policy, and makes another of options.
---@class compaction.Policies
---@field threshold fun(options: { threshold: number }): function compact beyond a share of the window; 0.9
---@field turns fun(options: { turns: integer }): function compact beyond so many turns; 20
---@field prune_tool_results fun(options: { keep: integer, protect: string[], min_gain: number }): function placeholders for all results but the newest `keep` (5) and those of protected tools, where that frees a share of the window; 0.05
---@field bytes fun(options: { bytes: integer, keep: integer }): function a second budget, for the request body: beyond so many bytes (18,000,000) attachments become notes, oldest first, all but the newest `keep` (1); where that is not enough, compact
---@field default fun(options: table): function prune where that is cheap, else threshold
---@field first fun(policies: function[]): function the first opinion
---@field simulate fun(policy: function, messages: table[], options: compaction.CompactorOptions): { index: integer, action: string, reason: string, used: integer, after: integer, limit?: integer, policy_error?: string }[] what it would have decided before each assistant message (in our shape)

---What to send to the summariser: no tools are needed, and it fits its window.
---@class compaction.Request
---@field system string
---@field messages compaction.Message[] one user message: the conversation as text, media as notes
---@field user string the prompt behind it
---@field max_tokens integer
---@field chunk integer
---@field chunks integer

---One conversation kept inside its window.
---@class compaction.Compactor
local compactor = {}

---A compactor. Wrong options raise, with their place.
---@param options? compaction.CompactorOptions
---@return compaction.Compactor
function compaction.compactor(options) end

---Append one message or a list, all of it or nothing. Each is read once.
---@param message_or_list table
---@return integer count of messages
function compactor:append(message_or_list) end

---What to send: a new list. Kept messages are the tables that came in.
---@return table[]
function compactor:messages() end

---@return integer tokens of the next prompt
---@return "anchor"|"estimate"
function compactor:used() end

---What to do now: a verdict of the plan, or of the policy ("prune" with `indexes`). `policy_error`: the policy
---failed, and the plan alone speaks. `no_progress`: two compactions freed nothing.
---@param options? { force: boolean } a user asked for it
---@return compaction.Verdict
function compactor:decide(options) end

---A job for a host that asks its model itself: `job.request` is what to send, `before` and `after` are tokens.
---@param options? { force: boolean, instructions: string }
---@return table? job
---@return string? reason
function compactor:prepare(options) end

---Judge the reply and put the summary in. nil and a reason: nothing has changed; "chunk": taken, send the new
---`job.request`. Reasons: empty, reasoning_only, tool_call, truncated, withheld, nested, not_a_reply, not_smaller,
---too_long, changed.
---@param job table
---@param reply string|table `{ content, reasoning_content, tool_calls, finish_reason, usage }`
---@return true?
---@return table|string report `{ before, after, dropped, kept, summary, first, behind }`, or the reason
function compactor:apply(job, reply) end

---Carry out what decide says. Where the model does not help and the next request would not fit, steps that need
---none follow: old results become placeholders, large messages are cut, the old part is told by its facts, the
---oldest go. `report.steps` names them; `first` is the first index that changed, `behind` the tokens from there on
---that a provider's cache no longer holds.
---@param callback? fun(ok: true?, outcome: table|string) then summarize(request, done) is called, and done counts once
---@param options? { force: boolean, instructions: string }
---@return true?
---@return table|string report or reason
function compactor:compact(callback, options) end

---Learn from a provider's refusal of the messages as they are.
---@param error any as of compaction.overflow
---@param status? integer
---@return { action: "compact"|"lower_output"|"shrink_item"|"repair"|"wait"|"none", reason: string, limit?: integer, actual?: integer, output?: integer, item?: integer }
function compactor:overflowed(error, status) end

---Repair the list in place; the report of compaction.repair.
---@return table
function compactor:repair() end

---The next request goes to this model.
---@param name string
---@param limit? integer
function compactor:set_model(name, limit) end

---Another policy from now on; nil: the plan alone.
---@param policy? fun(state): table?
function compactor:set_policy(policy) end

---Numbers to show.
---@return { used: integer, source: string, limit?: integer, fraction?: number, model?: string, count: integer, pending: integer, busy: boolean, compactions: integer, last?: table }
function compactor:state() end

return compaction
