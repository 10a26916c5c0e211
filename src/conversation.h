/*
 * What the files of the conversation share. Not for hosts.
 *
 *   conversation.c  the list: append, truncate, set, replace; sizes and walks
 *   tally.c         what usage taught: a stack of records, undone from its top
 *   unit.c          calls and their results
 *   plan.c          the verdict: compact, defer, stuck, nothing to do
 *   snapshot.c      all of it as bytes
 *
 *   items    [ system ][ user ][ assistant ][ tool ][ user ][ assistant ]
 *                                  |           |                |
 *   records                     [ #0 ]         |             [ #1 ]     one a usage, with the
 *   calls                       [ #0 ]<--------+                        sums before it
 */
#ifndef CPT_CONVERSATION_H
#define CPT_CONVERSATION_H

#include "compaction.h"
#include "saturate.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Numbers of messages, records and calls are 32 bits wide, and 0 says "none" in links. */
#define MAX_COUNT (UINT32_MAX - 1)

/* Further back than this, an assistant message's calls are no batch any more. */
#define MAX_SINCE ((1u << 20) - 1)

/* One message. */
typedef struct item {
  int64_t guess;   /* tokens by rule of thumb, not scaled */
  uint64_t id;     /* of a tool message: cpt_id of the call it names; 0 = none */
  uint32_t record; /* link to its usage */
  uint32_t call;   /* link to the call that it answers */
  uint32_t role : 3;
  uint32_t told : 1;          /* its size is the answer in its record, not a guess */
  uint32_t stored : 1;        /* its reasoning is stored with it and sent again */
  uint32_t summary : 1;       /* stands for others that were compacted */
  uint32_t named : 1;         /* names its model, whose family is: */
  uint32_t family : 4;        /* of the newest model named so far, a cpt_family */
  uint32_t since : 20;        /* messages since the newest assistant message; 0: it is one */
  uint16_t reasoning;         /* share of its guess that is stored reasoning, in 65535ths */
  uint8_t calls, attachments; /* other shares, in 255ths */
} item;

/* Providers refuse a conversation that starts on anything else. */
static inline bool starts_turn(const item *m) {
  return m->role == CPT_USER || m->role == CPT_ASSISTANT;
}

enum record_kind {
  SIZE,     /* a message's output alone */
  ANCHOR,   /* a message's prompt and output */
  OBSERVED, /* a prompt without a message */
  MARKER    /* a summary: prompt = the fixed part then (-1 = unknown), output = messages kept */
};

enum fate { TAKEN, SHRUNK, OTHER_MODEL, CLIPPED, AGGREGATED, FATES };

enum record_flag {
  REFUSED = 1,           /* its prompt is not believed */
  DEAD = 2,              /* its prompt speaks of a list that is gone */
  PLACEHOLDER = 4,       /* its output is not believed */
  FOLDED = 8,            /* what it taught is not undone when it goes */
  FREED_PREVIOUS = 16,   /* it took the refusal of the anchor before back */
  REFUSED_PREVIOUS = 32, /* it refused the anchor before as well */
  COUNTED = 64,          /* it stands in the conversation's count of its fate */
  NEW_MODEL = 128        /* its tally came with it */
};

/* What one usage said, and what followed from it. Links count from 1, 0 = none. */
typedef struct record {
  int64_t prompt, output, reasoning;
  uint64_t model;
  int64_t told, guess; /* sums over the items before it */
  int64_t answer;      /* tokens that its message counts for, if that is told */
  int64_t measured;    /* what its window added to the scale; 0: nothing */
  float turn;          /* reasoning of the turn so far, its own not included */
  float stir;          /* sum of |corrections| that set made to its prompt */
  float ratio;         /* charged / guessed in its window; 0: not measured */
  uint32_t at;         /* messages that its prompt covers; the index of its own message */
  uint32_t base;       /* link: live anchor when it came (of a MARKER: the marker before) */
  uint32_t previous;   /* link: anchor before it, live or not */
  uint32_t users;      /* user messages before it */
  int32_t shift;       /* sum of these corrections, signed */
  uint16_t dropped_error, resent_error; /* of the two forecasts of reasoning */
  uint8_t kind, fate, flags, tally;
} record;

/* Does it tell a prompt, of a message's own or observed? */
static inline bool is_prompt(const record *r) { return r->kind == ANCHOR || r->kind == OBSERVED; }

typedef struct call {
  uint64_t id;
  uint32_t message; /* index of the assistant message */
  uint32_t result;  /* link to the message that answers it; 0: open */
} call;

/* What is known of one model's tokenizer. */
typedef struct tally {
  uint64_t model;
  wide measured, estimated;
  int64_t windows;
  int64_t dropped_error, resent_error;
  bool known; /* its family: the guesses are good from the start */
} tally;

/* Models beyond these share the last tally: no agent has so many, a hostile list may. */
#define MAX_TALLIES 64

struct cpt_conversation {
  cpt_alloc alloc;
  void *ud;
  bool seed;
  int64_t limit;

  item *items;
  size_t count, item_capacity;
  record *records;
  size_t record_count, record_capacity;
  call *calls;
  size_t call_count, call_capacity;
  tally *tallies;
  size_t tally_count, tally_capacity;

  /* Sums over all items, modulo 2^64: differences and undoing are exact. */
  uint64_t told, guess;
  uint64_t shared, shared_guess; /* of guesses in measured windows: charged, guessed */
  uint32_t users;

  uint32_t live;   /* link: the anchor that `used` rests on */
  uint32_t newest; /* link: the newest anchor, live or not */
  uint32_t marker; /* link: the newest marker */

  /* The live anchor with the least mass before it is the first one. */
  uint32_t first_live;
  int64_t first_settled, first_guess; /* the mass before it: told or measured, guessed */

  /* What set_fixed or an earlier list said, and the mass that stood before the anchor then. */
  bool fixed_known;
  int64_t fixed, fixed_mass;

  /* Behind a replace: where the kept part starts, and the guesses before it. */
  uint32_t kept_from, kept_end; /* … and ends */
  uint32_t folded_tally;        /* link: of the model then */
  int64_t kept_guess;

  bool family_set; /* by the host */
  cpt_family family;
  uint64_t model;      /* set_model, and when; newer anchors overrule it */
  uint32_t model_mark; /* records at that time */

  size_t first_open; /* all calls of the newest batch before this one are answered */

  int64_t fates[FATES];
  int64_t placeholders;
};

/* A walk back over the items, which knows at each the anchor that measured it. */
typedef struct walk {
  const cpt_conversation *c;
  const record *closing; /* the believed anchor behind the item; NULL: none yet */
  size_t closing_start;  /* where the window of closing starts */
  size_t next;           /* records from here on lie behind the item */
  double scale;
} walk;

/* conversation.c */
/* Room for so many more of each; false if memory runs out. */
bool reserve_room(cpt_conversation *c, size_t items, size_t records, size_t calls);
walk walk_from(const cpt_conversation *c, size_t end);
/* Tokens of item i. Each call goes further back, beginning before `end`. */
int64_t walk_size(walk *w, size_t i);
/* What a guess at i is multiplied with, after walk_size(w, i). */
double walk_rate(const walk *w, size_t i);
/* Σ over all messages, from the running sums. */
int64_t all_messages(const cpt_conversation *c);

/* tally.c */
void record_arrives(cpt_conversation *c, record *r, int64_t visible);
void record_leaves(cpt_conversation *c);
size_t window_start(const cpt_conversation *c, const record *r);
struct answer {
  int64_t tokens;
  bool told;   /* false: a guess counts */
  bool untrue; /* the output reported cannot be what the text cost */
};
struct answer judge_answer(const cpt_conversation *c, const item *m, const record *r,
                           int64_t visible);
int64_t window_guess(const cpt_conversation *c, const record *r);
int64_t resent_reasoning(const cpt_conversation *c, const record *base);
struct fixed {
  bool known;
  int64_t tokens; /* 0 if not known */
  double mass;    /* estimated tokens before the anchor that taught it */
};
struct fixed fixed_part(const cpt_conversation *c);
void fold_fixed_part(cpt_conversation *c);
int64_t base_total(const cpt_conversation *c, const record *base);
const tally *present_tally(const cpt_conversation *c);
/* Sums over the items behind a record and its own message. */
int64_t told_after(const cpt_conversation *c, const record *r);
int64_t guess_after(const cpt_conversation *c, const record *r);

/* unit.c */
void pair_message(cpt_conversation *c, size_t i);
void unpair_message(cpt_conversation *c, size_t i);
/* The message that message i is tied to: that of the call which it answers, or itself. */
size_t tied_to(const cpt_conversation *c, size_t i);
/* A cut must not fall behind this index: the message whose calls wait for results. */
size_t last_cut(const cpt_conversation *c);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
