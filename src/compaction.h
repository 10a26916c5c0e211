/*
 * compaction.h: size a conversation, say when it must be compacted and where to cut it.
 *
 * This is the whole C API. It needs no Lua, allocates nothing, keeps no state between
 * calls and is safe to call from any number of threads on different data.
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
 *   bytes        of text that the provider will see: content, reasoning, calls
 *   prompt       tokens of the prompt that produced it; > 0 makes the message an anchor
 *   output       tokens reported for it, reasoning included
 *   reasoning    tokens of that which were reasoning
 *   model        a hash of the model's name; 0 = not named
 *   attachments  images and binary documents
 */
typedef struct cpt_message {
  int64_t bytes;
  int64_t prompt;
  int64_t output;
  int64_t reasoning;
  uint64_t model;
  uint32_t attachments;
  uint8_t role;            /* a cpt_role */
  uint8_t keeps_reasoning; /* 1: its reasoning is stored with it and sent again */
  uint16_t reserved;       /* 0 */
} cpt_message;

/* Make *m the digest of an empty message. */
void cpt_message_init(cpt_message *m, cpt_role role);

/* Add text of the message: content, text parts, the text of a document, the name and
 * arguments of a call. The bytes are read during the call and not kept; text may be
 * invalid UTF-8 or hold NUL. O(1). */
void cpt_add_text(cpt_message *m, const char *text, size_t bytes);

/* Add reasoning text that is stored with the message. Empty reasoning is none. O(1). */
void cpt_add_reasoning(cpt_message *m, const char *text, size_t bytes);

/* Add one attachment: an image, a file, a document's binary data. */
void cpt_add_attachment(cpt_message *m);

/* Name the model that wrote the message; bytes = 0 means not named. O(bytes). */
void cpt_set_model(cpt_message *m, const char *name, size_t bytes);

/* Attach the provider's counts. Any value is taken, negative ones too: what cannot be
 * true is not used. */
void cpt_set_usage(cpt_message *m, const cpt_usage *usage);

/*
 * Sizes
 */

/* Tokens of the message by rule of thumb: trunc(bytes / 3.5) + 1500 an attachment + 5. */
int64_t cpt_heuristic(const cpt_message *m);

/* Tokens of the message as its provider reported them, plus 5 for the envelope; 0 if the
 * provider said nothing usable. Reasoning that is not stored with the message is left
 * out: it is not sent again. */
int64_t cpt_reported(const cpt_message *m);

/* Tokens of the message: the reported size if there is one (never scaled), else
 * trunc(heuristic × scale). Scale 1 is the uncalibrated estimate. */
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
