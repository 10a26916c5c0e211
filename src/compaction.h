/*
 * compaction.h: size a conversation, say when it must be compacted and where to cut it.
 *
 * This is the whole C API. It needs no Lua, keeps no state between calls and is safe to call
 * from any number of threads on different data. Only conversations allocate, with the
 * allocator that they are given.
 *
 * A host reads each message once into a digest (`cpt_message`): what the message costs,
 * not what it says. No text and no pointer stays behind, so the message may be freed or
 * changed afterwards. Everything else works on arrays of digests.
 *
 *     cpt_message m[2];
 *     cpt_message_init(&m[0], CPT_USER);
 *     cpt_add_text(&m[0], text, strlen(text));
 *     …
 *     size_t keep = cpt_split_index_for_keep(m, 2, 20000);   // summarise m[0 … keep-1]
 *
 * Words: sizes are in tokens unless a name says bytes. Indexes count from 0; an index
 * equal to the number of messages means "none". Sums saturate at INT64_MAX and
 * INT64_MIN: no input can overflow them.
 */
#ifndef COMPACTION_H
#define COMPACTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CPT_VERSION "0.1.0"

/*
 * Text
 *
 * A text's tokens are estimated as the sum of a weight for each pair of neighbouring bytes,
 * from a table fitted to the tokenizer of a family of models. Texts are bytes: invalid UTF-8
 * and NUL are taken as they come. Never more tokens than bytes, never less than one for a
 * text that is not empty, and a text that is appended to never gets cheaper.
 */

typedef enum cpt_family {
  CPT_UNKNOWN, /* the larger of openai and claude-4 */
  CPT_OPENAI,
  CPT_OPENAI_LEGACY,
  CPT_CLAUDE_4, /* Claude 3 to 4.6 */
  CPT_CLAUDE_5, /* Claude 4.7 and later, Fable */
  CPT_GEMINI,
  CPT_DEEPSEEK,
  CPT_LLAMA,
  CPT_QWEN,
  CPT_FAMILIES /* how many there are */
} cpt_family;

/* Tokens of a text. O(bytes), about a byte a cycle. */
int64_t cpt_text_tokens(const char *text, size_t bytes, cpt_family family);

/* The family of a model by its name, whatever provider, date or gateway stands around it. O(bytes).
 */
cpt_family cpt_family_of(const char *model, size_t bytes);

/* "openai", "claude-4", …; and back: false if there is no family of that name. */
const char *cpt_family_name(cpt_family family);
bool cpt_family_named(const char *name, size_t bytes, cpt_family *family);

/* A text that comes in pieces. Fields are private. */
typedef struct cpt_weight {
  uint64_t sum[2]; /* hundredths of a token; the second one by claude-4, for an unknown family */
  uint64_t bytes;
  cpt_family family;
  unsigned char previous;
} cpt_weight;

void cpt_weight_init(cpt_weight *w, cpt_family family);
void cpt_weight_add(cpt_weight *w, const char *text, size_t bytes);
/* Hundredths of a token of the whole text; which = 1: by the second family of an unknown one. */
int64_t cpt_weight_hundredths(const cpt_weight *w, int which);

/*
 * Messages
 */

typedef enum cpt_role {
  CPT_OTHER, /* any role that is none of the others: never a place to cut */
  CPT_SYSTEM,
  CPT_DEVELOPER,
  CPT_USER,
  CPT_ASSISTANT,
  CPT_TOOL
} cpt_role;

/* The role that a name stands for ("user", "tool", …); CPT_OTHER for all unknown names. */
cpt_role cpt_role_of(const char *name, size_t bytes);

/*
 * What a provider reported for the request that produced a message, in tokens.
 * `input_tokens` is the fresh part alone: cached tokens are not in it. Providers that
 * count differently must be converted first. Unknown counts are 0.
 */
typedef struct cpt_usage {
  int64_t input_tokens;
  int64_t cached_input_tokens;
  int64_t cached_write_tokens;
  int64_t output_tokens;    /* includes the reasoning */
  int64_t reasoning_tokens; /* how much of the output was reasoning */
} cpt_usage;

/*
 * The digest of one message. Fill it with the functions below and treat it as opaque;
 * it may be copied, stored and compared byte by byte.
 *
 *   bytes            of text that the provider will see: content, reasoning, calls
 *   reasoning_bytes  of these: reasoning that is stored with the message and sent again
 *   call_bytes       of these: names and arguments of calls
 *   prompt           tokens of the prompt that produced it; > 0 makes the message an anchor
 *   output           tokens reported for it, reasoning included
 *   reasoning        tokens of that which were reasoning
 *   model            a hash of the model's name; 0 = not named
 *   weight           of its texts in hundredths of a token, by the tables of its family; two,
 *                    for a family that is not known
 *   attachments      images and binary documents
 *   role             a cpt_role
 *   family           a cpt_family
 *   weighs           1: texts are weighed, and not only counted in bytes
 */
typedef struct cpt_message {
  int64_t bytes;
  int64_t reasoning_bytes;
  int64_t call_bytes;
  int64_t prompt;
  int64_t output;
  int64_t reasoning;
  uint64_t model;
  int64_t weight[2];
  uint32_t attachments;
  uint8_t role;
  uint8_t family;
  uint8_t weighs;
  uint8_t reserved; /* 0 */
} cpt_message;

/* Make *m the digest of an empty message. */
void cpt_message_init(cpt_message *m, cpt_role role);

/* Weigh the texts that are added from now on by the tables of a family, for cpt_guess. Without
 * this only their bytes are counted, which is all that the seed's functions look at. O(1). */
void cpt_message_weigh(cpt_message *m, cpt_family family);

/* Add text of the message: content, text parts, the text of a document. Only their number counts,
 * and text is not read. O(1). */
void cpt_add_text(cpt_message *m, const char *text, size_t bytes);

/* Add reasoning text that is stored with the message. Empty reasoning is none. O(1). */
void cpt_add_reasoning(cpt_message *m, const char *text, size_t bytes);

/* Add the name or the arguments of a call. */
void cpt_add_call_text(cpt_message *m, const char *text, size_t bytes);

/* Add a text that was weighed in pieces, or counted by a tokenizer of the host's own: so many
 * bytes, so many hundredths of a token (by the first and the second table of its family). O(1). */
void cpt_add_weighed(cpt_message *m, int64_t bytes, int64_t weight, int64_t other);

/* Add one attachment: an image, a file, a document's binary data. */
void cpt_add_attachment(cpt_message *m);

/* Name the model that wrote the message; bytes = 0 means not named. O(bytes). */
void cpt_set_model(cpt_message *m, const char *name, size_t bytes);

/* Attach the provider's counts. Any value is taken, negative ones too: what cannot be
 * positive where a size is wanted is not used. */
void cpt_set_usage(cpt_message *m, const cpt_usage *usage);

/*
 * Sizes
 */

/* Tokens of the message by rule of thumb: trunc(bytes / 3.5) + 1500 an attachment + 5. */
int64_t cpt_heuristic(const cpt_message *m);

/* Tokens of the message by the weight of its texts, + 1500 an attachment + what the family's
 * providers wrap around a message of its role; the rule of thumb if it does not weigh. */
int64_t cpt_guess(const cpt_message *m);

/* Tokens of the message as its provider reported them, plus 5 for the envelope; 0 if the
 * provider said nothing usable. Reasoning that is not stored with the message is left
 * out: it is not sent again. */
int64_t cpt_reported(const cpt_message *m);

/* Tokens of the message: the reported size if there is one (never scaled), else
 * trunc(guess × scale), where the guess is the heuristic for
 * messages that do not weigh. Scale 1 is the uncalibrated estimate. */
int64_t cpt_estimate(const cpt_message *m, double scale);

/* Is the message an anchor: does its usage tell the exact size of its prompt? */
bool cpt_is_anchor(const cpt_message *m);

/*
 * Calibration: how far is the heuristic off in this conversation?
 *
 * Between two anchors the provider charged a known number of tokens for the messages in
 * between. The ratio of what was charged to what the heuristic guessed, over all such
 * windows, corrects the heuristic. Windows are discarded whose measured size is not
 * positive (something was compacted or pruned between) or whose anchors come from two
 * models. Messages with a reported size are taken out of both sides. The ratio is held
 * between 0.75 and 2, and is 1 until windows worth 512 estimated tokens are known.
 */

/* A calibration in progress: feed messages in order, ask at any time. Fields are private. */
typedef struct cpt_calibration {
  int64_t measured;  /* Σ over closed windows: tokens the provider charged */
  int64_t estimated; /* Σ over closed windows: tokens the heuristic guessed */
  int64_t base;      /* prompt + answer of the anchor that opened the window */
  int64_t reported;  /* Σ reported sizes inside the open window */
  int64_t guessed;   /* Σ heuristic sizes inside the open window */
  int64_t windows;   /* closed windows that counted */
  uint64_t model;    /* of the anchor that opened the window */
  bool open;         /* has there been an anchor? */
} cpt_calibration;

void cpt_calibration_init(cpt_calibration *c);

/* Take in the next message. O(1). */
void cpt_calibration_add(cpt_calibration *c, const cpt_message *m);

/* The scale learned so far. O(1). */
double cpt_calibration_scale(const cpt_calibration *c);

/* The scale learned from n messages. O(n). */
double cpt_calibrate(const cpt_message *m, size_t n);

/*
 * Decisions
 */

/* The fraction of the context window at which to compact when the host names none. */
#define CPT_DEFAULT_THRESHOLD 0.9

/* Is it time to compact: input + output + added > trunc(limit × threshold)? False when the
 * limit is not positive (unknown). A threshold outside (0, 1], or NaN, means the default. */
bool cpt_should_compact(int64_t input, int64_t output, int64_t added, int64_t limit,
                        double threshold);

/* Where the kept part begins: the first index of the longest suffix that fits max_tokens
 * and starts on a user or assistant message. Answers n ("keep nothing") when no such
 * suffix fits, and also when *everything* fits: a host that asks although nothing is too
 * large wants all of it compacted. Sizes are calibrated on the same messages. O(n). */
size_t cpt_split_index_for_keep(const cpt_message *m, size_t n, int64_t max_tokens);

/* The first index from which the messages fit limit, on a user or assistant message; n if
 * there is none. When everything fits it is the earliest user or assistant message. Used
 * to cut a conversation to what a summarising model can read. O(n). */
size_t cpt_first_index_in_budget(const cpt_message *m, size_t n, int64_t limit);

/*
 * Conversations
 *
 * The growing list of an agent's messages, read once. It holds digests with running sums, no
 * text and no pointer of the host's; appending costs O(1), and every question costs at most
 * what lies behind the newest anchor or in the part to be kept, never the whole history.
 *
 * Two estimators. CPT_SEED answers as the functions above do on the same messages, to the
 * token. CPT_AUTO looks twice at what providers report: it screens counts that cannot be
 * true, keeps a scale for each model, learns the fixed part of every prompt, and takes the
 * measured size of a message over the guessed one as soon as an anchor has measured it.
 *
 * Functions that return bool answer false when memory runs out, and then nothing has
 * changed. Indexes must lie in the conversation; who cannot be sure asks
 * cpt_conversation_count first.
 */

typedef struct cpt_conversation cpt_conversation;

typedef enum cpt_estimator { CPT_AUTO, CPT_SEED } cpt_estimator;

/* An allocator of lua_Alloc's form: size 0 frees, block NULL allocates. */
typedef void *(*cpt_alloc)(void *ud, void *block, size_t old_size, size_t size);

/* NULL if memory runs out. alloc and ud must live as long as the conversation. */
cpt_conversation *cpt_conversation_new(cpt_alloc alloc, void *ud, cpt_estimator estimator);
void cpt_conversation_free(cpt_conversation *c);

/* The hash under which a call's id is remembered; 0 for no id. */
uint64_t cpt_id(const char *id, size_t bytes);

/*
 * A message on its way into a conversation: its digest, and what pairs calls with results.
 *
 * A summary that an earlier compaction put into the list says how many messages behind it
 * were kept then: their usage speaks of a list that is gone, and is no base any more.
 */
typedef struct cpt_entry {
  cpt_message message;
  uint64_t answers;      /* of a tool message: cpt_id of the call; 0 = no id */
  const uint64_t *calls; /* cpt_id of each call, in order; 0 = no id */
  size_t call_count;
  bool names_model; /* of an assistant message: does it name its model, of this family? */
  cpt_family model_family;
  bool summary;   /* does the message stand for others that were compacted? */
  uint32_t kept;  /* of a summary: messages kept behind it */
  bool has_fixed; /* of a summary: is `fixed` known? */
  int64_t fixed;  /* of a summary: the fixed part at that time */
} cpt_entry;

/* Append n messages, all or none. O(n). */
bool cpt_conversation_append(cpt_conversation *c, const cpt_entry *entries, size_t n);

/* Forget all messages from index n on: every answer is then as if they had never come. O(dropped).
 */
void cpt_conversation_truncate(cpt_conversation *c, size_t n);

/* Read message i again: it was pruned, or has finished streaming. Anchors behind it are
 * corrected by the difference of the two estimates. O(what follows i). */
bool cpt_conversation_set(cpt_conversation *c, size_t i, const cpt_entry *entry);

/* A prompt count for exactly the present messages, without a message of its own: usage that
 * came late, or the number in an overflow error. Output and reasoning are not read. */
bool cpt_conversation_observe(cpt_conversation *c, const cpt_usage *usage, uint64_t model);

/* What stands between the summary and the kept part after a compaction. */
typedef struct cpt_request {
  enum { CPT_NO_REQUEST, CPT_REQUEST_AT, CPT_REQUEST_ENTRY } kind;
  size_t index;           /* CPT_REQUEST_AT: a message before keep_from, carried over */
  const cpt_entry *entry; /* CPT_REQUEST_ENTRY: one that was cut */
} cpt_request;

/* Replace the messages behind the front (leading system and developer messages) and before
 * keep_from by a summary. *at becomes the index of the summary. keep_from must be a legal cut
 * not inside the front, and the request's index lie between. What was learned is kept, and
 * not undone by a later truncate. O(kept part). */
bool cpt_conversation_replace(cpt_conversation *c, size_t keep_from, const cpt_entry *summary,
                              cpt_request request, size_t *at);

/* Number of leading system and developer messages. */
size_t cpt_conversation_front(const cpt_conversation *c);

/* The model's context window, 0 = not known: a prompt of half of it is looked at twice. */
void cpt_conversation_set_limit(cpt_conversation *c, int64_t limit);

/* The model that the next request goes to (cpt_id of its name, 0 = not named): its scale is used.
 */
void cpt_conversation_set_model(cpt_conversation *c, uint64_t model);

/* The family by which messages are to be weighed before they are appended: the one that was set,
 * else that of the newest assistant message that named its model. O(1). */
cpt_family cpt_conversation_family(const cpt_conversation *c);
void cpt_conversation_set_family(cpt_conversation *c, cpt_family family);
void cpt_conversation_unset_family(cpt_conversation *c);
bool cpt_conversation_follows(
    const cpt_conversation *c); /* does a message that names its model change it? */

/* Tokens of every prompt that no message accounts for, until an anchor knows better. */
void cpt_conversation_set_fixed(cpt_conversation *c, int64_t tokens);

cpt_estimator cpt_conversation_estimator(const cpt_conversation *c);
size_t cpt_conversation_count(const cpt_conversation *c);
int64_t cpt_conversation_limit(const cpt_conversation *c);
size_t cpt_conversation_memory(const cpt_conversation *c); /* bytes held, slack included */

/* Tokens that the next prompt will hold. *anchored: does the answer rest on a prompt that a
 * provider counted, or on estimates alone? CPT_AUTO: O(1); CPT_SEED: O(what follows the anchor),
 * without one O(count) while a scale is known, as after a replace. */
int64_t cpt_conversation_used(const cpt_conversation *c, bool *anchored);

/* Tokens of messages first to last - 1. O(last - first). */
int64_t cpt_conversation_estimate(const cpt_conversation *c, size_t first, size_t last);

/* What heuristic sizes are multiplied with now. O(1). */
double cpt_conversation_scale(const cpt_conversation *c);

/* cpt_split_index_for_keep and cpt_first_index_in_budget on this conversation. O(kept part). */
size_t cpt_conversation_split_index_for_keep(const cpt_conversation *c, int64_t max_tokens);
size_t cpt_conversation_first_index_in_budget(const cpt_conversation *c, int64_t limit);

/*
 * Units: an assistant message with calls, and all their results, stay together. Calls and
 * results are paired as they come: by id; by order within the newest batch where ids are
 * missing, empty or repeated. A call is pending until it has its result or the next assistant
 * message comes; a late result still joins the newest open call with its id, if it
 * is among the 1,024 calls before the newest batch. Of one batch 4,096 open calls are looked at.
 */

/* May the list be cut before message i (i = count: at the end)? It must start a turn, break
 * no unit and leave no pending call behind. O(count - i). */
bool cpt_conversation_can_cut(const cpt_conversation *c, size_t i);

/* Number of calls that wait for a result. O(calls of the newest assistant message). */
size_t cpt_conversation_pending(const cpt_conversation *c);

/* First index of the largest suffix within max_tokens that starts on a legal cut; count if
 * there is none. O(kept part). */
size_t cpt_conversation_keep_from(const cpt_conversation *c, int64_t max_tokens);

/*
 * The plan: should the conversation be compacted now, where, and if not, why
 */

typedef enum cpt_force {
  CPT_AUTOMATIC, /* compact when the trigger is passed */
  CPT_NOW,       /* compact whatever the size; at least the last exchange is kept */
  CPT_MANUAL     /* the same, and nothing is kept where all would fit: a user asked for it */
} cpt_force;

/* What a host allows. Every field has a default: 0 for limit (the conversation's), threshold,
 * summarizer_limit (the limit), and below 0 for the others. Tokens. */
typedef struct cpt_budget {
  int64_t limit;            /* the model's context window */
  double threshold;         /* share of it at which to compact */
  int64_t reserve;          /* output that the host asks for; never over half of the limit */
  int64_t keep;             /* of the newest part, verbatim */
  int64_t summary;          /* the longest summary */
  int64_t min_gain;         /* a compaction that frees less is none */
  int64_t summarizer_limit; /* the summarising model's window */
  cpt_force force;
} cpt_budget;

/* Put the defaults for this conversation where nothing is said. O(front). */
void cpt_budget_default(const cpt_conversation *c, cpt_budget *b);

typedef enum cpt_action { CPT_NONE, CPT_COMPACT, CPT_DEFER, CPT_STUCK } cpt_action;

/*
 *   none    no_limit, fits, paused (compacted just now, and nothing was said since)
 *   compact trigger, forced
 *   defer   pending: calls wait for their results
 *   stuck   overhead: what is in every prompt leaves too little room; item: one message is too
 *           large; no_gain: no legal cut frees enough
 *
 * Fields from keep_from on speak of a compaction only. Sizes in tokens, indexes from 0.
 */
typedef struct cpt_verdict {
  cpt_action action;
  const char *reason;     /* one of the words above */
  int64_t used, limit;    /* the next prompt, and the window */
  int64_t trigger;        /* the size that is too large */
  int64_t target, floor;  /* the size aimed at; the least that can be reached */
  size_t keep_from;       /* first message to keep verbatim */
  size_t first, last;     /* messages to summarise: first to last - 1 */
  size_t summarizer_from; /* of these, the first that the summariser can read with all behind */
  int64_t summary;        /* tokens that the summary may have */
  int64_t after, gain;    /* the size then, below the trigger; and what is freed */
  bool has_request;       /* stands the last request before keep_from, to be carried over? */
  bool has_item;          /* stuck: is one message too large? compact: must the request be cut? */
  size_t request, item;
} cpt_verdict;

/* The verdict on the conversation as it is. Pure. O(kept part, and what follows the last request).
 */
cpt_verdict cpt_conversation_plan(const cpt_conversation *c, const cpt_budget *b);

/* What the next prompt is made of; the parts add up to cpt_conversation_used. O(count). */
typedef struct cpt_breakdown {
  int64_t system, user, assistant, reasoning, tool_calls, tool_results, attachments, summary, fixed;
} cpt_breakdown;
cpt_breakdown cpt_conversation_breakdown(const cpt_conversation *c);

/* What was learned. Counts of usage that was not taken at its word are over the whole
 * conversation; scale, mass and windows are of the present model. O(1). */
typedef struct cpt_learned {
  double scale;
  int64_t mass;    /* estimated tokens in the windows learned from */
  int64_t windows; /* number of these */
  int64_t fixed;   /* 0 if nothing is known */
  bool fixed_known;
  int64_t shrunk, model, clipped, aggregated, placeholder;
} cpt_learned;
cpt_learned cpt_conversation_learned(const cpt_conversation *c);

/* The conversation as bytes, the same on every machine. Returns the size; writes only if it
 * is at most `size`. O(count). */
size_t cpt_conversation_snapshot(const cpt_conversation *c, unsigned char *out, size_t size);

/* An equal conversation, or NULL with *reason (a static text; NULL if memory ran out) for
 * bytes that are cut, altered or none of ours. O(bytes). */
cpt_conversation *cpt_conversation_restore(cpt_alloc alloc, void *ud, const unsigned char *bytes,
                                           size_t size, const char **reason);

/*
 * Prompts for the summarising request: UTF-8, NUL-terminated. Sizes are without the NUL.
 */
extern const char cpt_system_prompt[];
extern const size_t cpt_system_prompt_bytes;
extern const char cpt_user_prompt[];
extern const size_t cpt_user_prompt_bytes;

#ifdef __cplusplus
}
#endif

#endif
