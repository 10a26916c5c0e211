/*
 * The verdict: should the conversation be compacted now, where, and if not, why.
 *
 *   0        fixed   front                    keep_from        count
 *   |----------|-------|-- first … last ----------|--- kept ------|      before
 *   |----------|-------| summary | request |------|--- kept ------|      after
 *                                                                   < trigger
 *
 * A cut further right keeps less: what the result costs never grows, and what is gained never
 * shrinks. So the smallest legal keep decides whether any cut will do, and the largest within the
 * budget that does is taken.
 */
#include "conversation.h"
#include "text.h"

/* What the host sends besides the list is no part of the window that sizes may be wrong about. */
#define INPUT_SHARE 0.95
/* … and beyond this, a compaction that was just made does not bar the next one. */
#define PAUSE_SHARE 0.97

#define KEEP_TOKENS    20000 /* of the newest part, verbatim: enough for the work at hand */
#define KEEP_OF_WINDOW 0.2
#define KEEP_OF_ROOM   0.4

#define SUMMARY_TOKENS    16000 /* longer ones are not read */
#define SUMMARY_OF_WINDOW 0.25
#define SUMMARY_OF_ROOM   0.3

#define GAIN_OF_WINDOW 0.05 /* less is not worth a request and a lost cache */
#define GAIN_OF_ROOM   0.2

#define REQUEST_OF_ROOM 0.15 /* a longer request is cut in its middle */

#define LEAST_SUMMARY 100 /* tokens; with less nothing can be said */
#define LEAST_ROOM                                                                                 \
  8 /* the room must be this part of the window, else the overhead is too large                    \
     */

/* Words around the conversation in a summarising request, besides the two prompts. */
#define REQUEST_OVERHEAD 200

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t part(double share, int64_t of) { return of > 0 ? sat_trunc(share * (double)of) : 0; }

/* What is known of the conversation for a plan. */
struct survey {
  const cpt_conversation *c;
  const cpt_budget *b;
  int64_t used, all; /* tokens of the next prompt; of all messages behind the front */
  int64_t base;      /* tokens of every prompt: fixed part and front */
  int64_t trigger, room;
  size_t front;
  bool asked;     /* is there a request? */
  size_t request; /* its index */
  int64_t request_size, carried_size;
};

static int64_t trigger_of(int64_t limit, double threshold, int64_t reserve) {
  return least(sat_trunc(threshold * (double)limit), part(INPUT_SHARE, limit - reserve));
}

static int64_t base_of(const cpt_conversation *c) {
  return sat_add(fixed_part(c).tokens, cpt_conversation_estimate(c, 0, cpt_conversation_front(c)));
}

void cpt_budget_default(const cpt_conversation *c, cpt_budget *b) {
  if (b->limit <= 0) b->limit = cpt_conversation_limit(c);
  if (!(b->threshold > 0 && b->threshold <= 1)) b->threshold = CPT_DEFAULT_THRESHOLD;
  if (b->reserve < 0) b->reserve = 0;
  b->reserve = least(b->reserve, b->limit / 2); /* at least half of the window stays for input */
  int64_t room = trigger_of(b->limit, b->threshold, b->reserve) - base_of(c);
  if (b->keep < 0)
    b->keep = least(least(KEEP_TOKENS, part(KEEP_OF_WINDOW, b->limit)), part(KEEP_OF_ROOM, room));
  if (b->summary < 0)
    b->summary = least(least(SUMMARY_TOKENS, part(SUMMARY_OF_WINDOW, b->limit)),
                       part(SUMMARY_OF_ROOM, room));
  if (b->min_gain < 0)
    b->min_gain = least(part(GAIN_OF_WINDOW, b->limit), part(GAIN_OF_ROOM, room));
  if (b->summarizer_limit <= 0) b->summarizer_limit = b->limit;
}

/* The last thing that a user asked for; a summary is never one. */
static bool find_request(const cpt_conversation *c, size_t front, size_t *request) {
  for (size_t i = c->count; i-- > front;) {
    if (c->items[i].role != CPT_USER || c->items[i].summary) continue;
    *request = i;
    return true;
  }
  return false;
}

static struct survey look(const cpt_conversation *c, const cpt_budget *b) {
  bool anchored;
  struct survey s = {.c = c, .b = b, .front = cpt_conversation_front(c)};
  s.used = cpt_conversation_used(c, &anchored);
  s.base = base_of(c);
  s.trigger = trigger_of(b->limit, b->threshold, b->reserve);
  s.room = s.trigger - s.base;
  s.all = sat_sub(all_messages(c), cpt_conversation_estimate(c, 0, s.front));
  s.asked = find_request(c, s.front, &s.request);
  if (!s.asked) return s;
  s.request_size = cpt_conversation_estimate(c, s.request, s.request + 1);
  s.carried_size = least(s.request_size, part(REQUEST_OF_ROOM, s.room));
  return s;
}

/* Was the conversation compacted, and has nobody said anything since? */
static bool is_fresh(const cpt_conversation *c) {
  size_t end = c->kept_end;
  if (c->marker != 0) {
    const record *marker = &c->records[c->marker - 1];
    size_t kept = (size_t)marker->output;
    end = kept < c->count - marker->at ? marker->at + 1 + kept : c->count;
  }
  if (end == 0) return false;
  for (size_t i = c->count; i-- > end;) {
    if (starts_turn(&c->items[i])) return false;
  }
  return true;
}

/* A way to compact: keep what stands at `from` and behind. */
struct cut {
  size_t from;
  int64_t kept, summary, after, gain;
  bool will_do;
};

static struct cut weigh_cut(const struct survey *s, size_t from, int64_t kept) {
  bool carried = s->asked && s->request < from;
  int64_t rest = sat_add(sat_add(s->base, carried ? s->carried_size : 0), kept);
  int64_t range = most(sat_sub(s->all, kept), 0);
  int64_t allowed = sat_sub(s->trigger - 1, rest);
  int64_t least_summary = least(LEAST_SUMMARY, least(s->b->summary, range));
  struct cut cut = {.from = from, .kept = kept};
  cut.summary = most(least(least(s->b->summary, range), allowed), 0);
  cut.after = sat_add(rest, cut.summary);
  cut.gain = sat_sub(s->used, cut.after);
  int64_t wanted = s->b->force == CPT_AUTOMATIC ? s->b->min_gain : 1;
  cut.will_do = allowed >= least_summary && from > s->front && cut.gain >= most(wanted, 1);
  return cut;
}

/* Legal cuts from the end towards the front, with what each keeps. */
struct cuts {
  const cpt_conversation *c;
  walk w;
  size_t next, tied, last;
  int64_t kept;
};

static struct cuts legal_cuts(const cpt_conversation *c) {
  return (struct cuts){
      .c = c, .w = walk_from(c, c->count), .next = c->count, .tied = c->count, .last = last_cut(c)};
}

/* The next legal cut behind the front; false if there is none. */
static bool next_cut(struct cuts *k, size_t front, size_t *from) {
  while (k->next > front) {
    size_t i = --k->next;
    k->kept = sat_add(k->kept, walk_size(&k->w, i));
    if (tied_to(k->c, i) < k->tied) k->tied = tied_to(k->c, i);
    if (k->tied < i || i > k->last || !starts_turn(&k->c->items[i])) continue;
    *from = i;
    return true;
  }
  return false;
}

/* The cut to take, and the smallest legal keep: the newest unit. */
static struct cut choose(const struct survey *s, struct cut *newest) {
  struct cuts k = legal_cuts(s->c);
  size_t from;
  struct cut best = {0};
  if (!next_cut(&k, s->front, &from)) { /* all of it is one unit */
    *newest = weigh_cut(s, s->front, most(s->all, 0));
    return s->b->force == CPT_MANUAL ? weigh_cut(s, s->c->count, 0) : *newest;
  }
  *newest = weigh_cut(s, from, k.kept);
  if (s->b->force == CPT_MANUAL) {
    struct cut nothing = weigh_cut(s, s->c->count, 0);
    if (s->all <= s->b->keep || !newest->will_do) return nothing;
  }
  best = *newest;
  while (next_cut(&k, s->front, &from) && k.kept <= s->b->keep) {
    struct cut larger = weigh_cut(s, from, k.kept);
    if (!larger.will_do) break;
    best = larger;
  }
  return best;
}

/* The largest message of the newest unit. */
static size_t largest_message(const struct survey *s, size_t first, int64_t *size) {
  size_t largest = first;
  *size = 0;
  for (size_t i = first; i < s->c->count; i++) {
    int64_t n = cpt_conversation_estimate(s->c, i, i + 1);
    if (n <= *size) continue;
    *size = n;
    largest = i;
  }
  return largest;
}

static void judge(cpt_verdict *v, cpt_action action, const char *reason) {
  v->action = action;
  v->reason = reason;
}

/* No cut will do. Is it one message's fault? */
static void name_obstacle(const struct survey *s, cpt_verdict *v, size_t unit) {
  int64_t size;
  size_t item = largest_message(s, unit, &size);
  judge(v, CPT_STUCK, "no_gain");
  if (v->floor < s->trigger || sat_sub(v->floor, size) >= s->trigger) return;
  judge(v, CPT_STUCK, "item");
  v->has_item = true;
  v->item = item;
}

/* The first message of the range that the summariser can read together with all behind it. */
static size_t summarizer_from(const struct survey *s, size_t from, int64_t summary) {
  int64_t prompts = cpt_text_tokens(cpt_system_prompt, cpt_system_prompt_bytes, CPT_UNKNOWN) +
                    cpt_text_tokens(cpt_user_prompt, cpt_user_prompt_bytes, CPT_UNKNOWN);
  int64_t room = sat_sub(s->b->summarizer_limit, sat_add(prompts + REQUEST_OVERHEAD, summary));
  int64_t range = sat_sub(s->all, cpt_conversation_estimate(s->c, from, s->c->count));
  if (range <= room) return s->front; /* the common case needs no walk */
  walk w = walk_from(s->c, from);
  int64_t sum = 0;
  size_t i = from;
  while (i > s->front) {
    sum = sat_add(sum, walk_size(&w, i - 1));
    if (sum > room) break;
    i--;
  }
  return i;
}

static void take_cut(const struct survey *s, cpt_verdict *v, const struct cut *cut) {
  judge(v, CPT_COMPACT, s->b->force == CPT_AUTOMATIC ? "trigger" : "forced");
  v->keep_from = cut->from;
  v->first = s->front;
  v->last = cut->from; /* behind the last one */
  v->after = cut->after;
  v->gain = cut->gain;
  v->summary = cut->summary;
  v->summarizer_from = summarizer_from(s, cut->from, cut->summary);
  v->has_request = s->asked && s->request < cut->from;
  v->request = s->request;
  v->has_item = v->has_request && s->carried_size < s->request_size;
  v->item = s->request;
}

cpt_verdict cpt_conversation_plan(const cpt_conversation *c, const cpt_budget *given) {
  cpt_verdict v = {0};
  cpt_budget b = *given;
  bool anchored;
  cpt_budget_default(c, &b);
  v.limit = b.limit;
  v.used = cpt_conversation_used(c, &anchored);
  judge(&v, CPT_NONE, "no_limit");
  if (b.limit <= 0) return v;

  struct survey s = look(c, &b);
  struct cut newest, cut = choose(&s, &newest);
  bool carried = s.asked && s.request < newest.from;
  v.trigger = s.trigger;
  v.target = sat_add(sat_add(s.base, b.summary), b.keep);
  v.floor =
      sat_add(sat_add(s.base, carried ? s.carried_size : 0), sat_add(newest.kept, LEAST_SUMMARY));
  if (b.force == CPT_AUTOMATIC && s.used <= s.trigger) {
    v.reason = "fits";
  } else if (b.force == CPT_AUTOMATIC && is_fresh(c) &&
             s.used <= part(PAUSE_SHARE, b.limit - b.reserve)) {
    v.reason = "paused";
  } else if (cpt_conversation_pending(c) > 0) {
    judge(&v, CPT_DEFER, "pending");
  } else if (s.room < b.limit / LEAST_ROOM) {
    judge(&v, CPT_STUCK, "overhead");
  } else if (cut.will_do) {
    take_cut(&s, &v, &cut);
  } else {
    name_obstacle(&s, &v, newest.from);
  }
  return v;
}
