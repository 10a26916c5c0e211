/*
 * What usage taught. Each usage is a record on a stack, with the sums so far; the top one can
 * be taken off again, and every answer is then as if it had never come.
 *
 *   base anchor b            new anchor r
 *   [ prompt | answer | told, guessed, … | ] prompt of r
 *              `-------- the window -----'
 *
 * The provider charged prompt(r) - prompt(b) - answer(b) - told for what was guessed between.
 */
#include "conversation.h"

#include <math.h>

#include "estimate.h"

/* Scale = (tokens + charged) / (tokens + guessed): a few small windows move it little. Guesses by
 * the tables of a known family are right within a tenth, and evidence against them is mostly
 * something hidden; those for an unknown one may be off by half. Tried on the transcripts: 512
 * for all gives p95 0.97 %, 4,096 for known ones 0.66 %. A window further off than the bounds
 * is held there: it measures an injection or a pruned prompt, not the text. */
struct prior {
  double tokens, min_ratio, max_ratio;
};
static const struct prior prior_known = {4096, 0.6, 2.0}, prior_unknown = {512, 0.4, 3.0};

static const struct prior *prior_of(const tally *t) {
  return t->known ? &prior_known : &prior_unknown;
}

/* An answer this short is a recorder's placeholder if its text is worth much more. */
#define PLACEHOLDER_OUTPUT 8
#define PLACEHOLDER_FACTOR 4
#define PLACEHOLDER_SLACK  16

/* The same count again is no coincidence if more than this was appended. */
#define CLIPPED_GROWTH 40
/* Servers that clip keep half of their window, and a few tokens. */
#define CLIPPED_SLACK 4
/* … and far more was expected: more than this many times the count. */
#define CLIPPED_FACTOR 1.5

/* Counts summed over several requests. Real growth reaches 34 times its estimate and real
 * prompts 1.23 times the expected one, never both. */
#define AGGREGATED_PROMPT 1.5
#define AGGREGATED_GROWTH 4.0
#define AGGREGATED_SLACK  1000.0

/* A refusal is taken back when the next count grows from it as expected, within half and this. */
#define RETURN_SLACK 100.0

/* The forecast "reasoning is sent again" is believed once it is this much better; single errors
 * count up to the cap. */
#define RESENT_LEAD 1000
#define ERROR_CAP   2000.0

static record *at_link(const cpt_conversation *c, uint32_t link) {
  return link == 0 ? NULL : &c->records[link - 1];
}

static uint32_t link_of(const cpt_conversation *c, const record *r) {
  return (uint32_t)(r - c->records) + 1;
}

static bool has_message(const record *r) { return r->kind == SIZE || r->kind == ANCHOR; }

static bool same_model(uint64_t a, uint64_t b) { return a == 0 || b == 0 || a == b; }

/* Does the window behind an anchor start with its own message? So where its output is not
 * believed: then the message is guessed like those behind it. The seed leaves it out. */
static bool opens_with_itself(const cpt_conversation *c, const record *r) {
  return !c->seed && has_message(r) && !c->items[r->at].told;
}

int64_t told_after(const cpt_conversation *c, const record *r) {
  return sat_add(r->told, has_message(r) && c->items[r->at].told ? r->answer : 0);
}

int64_t guess_after(const cpt_conversation *c, const record *r) {
  bool skipped = has_message(r) && !c->items[r->at].told && !opens_with_itself(c, r);
  return sat_add(r->guess, skipped ? c->items[r->at].guess : 0);
}

/*
 * Tallies
 */

static uint8_t new_tally(cpt_conversation *c, record *r, uint64_t model) {
  cpt_family family = cpt_conversation_family(c);
  if (has_message(r) && !c->family_set) family = (cpt_family)c->items[r->at].family;
  c->tallies[c->tally_count] = (tally){.model = model, .known = family != CPT_UNKNOWN};
  r->flags |= NEW_MODEL;
  return (uint8_t)c->tally_count++;
}

/* The seed pools all models; an anchor without a name belongs to the model that the host named,
 * or to that of the anchor before it, whichever is newer. */
static uint8_t tally_of(cpt_conversation *c, record *r) {
  const record *before = at_link(c, r->previous);
  uint64_t model = c->seed ? 0 : r->model;
  bool told_since = c->model != 0 && r->previous <= c->model_mark; /* what the host said is newer */
  if (r->model == 0 && !c->seed && told_since)
    model = c->model;
  else if (r->model == 0 && before != NULL)
    return before->tally;
  for (size_t i = 0; i < c->tally_count; i++) {
    if (c->tallies[i].model == model) return (uint8_t)i;
  }
  return c->tally_count < MAX_TALLIES ? new_tally(c, r, model) : MAX_TALLIES - 1;
}

static const tally nothing_known;

static const tally *find_tally(const cpt_conversation *c, uint64_t model) {
  for (size_t i = 0; i < c->tally_count; i++) {
    if (c->tallies[i].model == model) return &c->tallies[i];
  }
  return &nothing_known;
}

/* Of the model that the next request goes to. */
const tally *present_tally(const cpt_conversation *c) {
  if (c->seed) return c->tally_count > 0 ? &c->tallies[0] : &nothing_known;
  if (c->model != 0 && c->newest <= c->model_mark) return find_tally(c, c->model);
  if (c->newest != 0) return &c->tallies[c->records[c->newest - 1].tally];
  return c->folded_tally != 0 ? &c->tallies[c->folded_tally - 1] : &nothing_known;
}

double cpt_conversation_scale(const cpt_conversation *c) {
  const tally *t = present_tally(c);
  int64_t measured = wide_get(t->measured), estimated = wide_get(t->estimated);
  if (c->seed) return seed_scale(measured, estimated);
  double prior = prior_of(t)->tokens;
  return (prior + (double)measured) / (prior + (double)estimated);
}

static void teach(cpt_conversation *c, record *r, int64_t measured, int64_t guessed) {
  tally *t = &c->tallies[r->tally];
  r->measured = measured;
  wide_add(&t->measured, measured);
  wide_add(&t->estimated, guessed);
  t->windows++;
}

static void forget(cpt_conversation *c, const record *r) {
  tally *t = &c->tallies[r->tally];
  wide_sub(&t->measured, r->measured);
  wide_sub(&t->estimated, window_guess(c, r));
  t->windows--;
}

/*
 * Windows
 */

/* The anchor at which the window of r opens: the newest one before it that is believed. */
static const record *window_base(const cpt_conversation *c, const record *r) {
  const record *b = at_link(c, r->previous);
  while (b != NULL && b->flags & REFUSED)
    b = at_link(c, b->previous);
  return b;
}

size_t window_start(const cpt_conversation *c, const record *r) {
  const record *b = window_base(c, r);
  if (b == NULL) return c->kept_from;
  return b->at + (has_message(b) && !opens_with_itself(c, b) ? 1u : 0u);
}

int64_t window_guess(const cpt_conversation *c, const record *r) {
  const record *b = window_base(c, r);
  return sat_sub(r->guess, b == NULL ? c->kept_guess : guess_after(c, b));
}

/* Tokens that the prompt and the answer of b put into the next prompt. */
int64_t base_total(const cpt_conversation *c, const record *b) {
  if (!has_message(b)) return b->prompt;
  if (!c->seed) return sat_add(b->prompt, b->answer);
  int64_t answer = sat_sub(b->output, b->reasoning);
  return sat_add(b->prompt, answer > 0 ? answer : 0);
}

/* The guesses in the window of r count from now on as what was charged for them. */
static void share(cpt_conversation *c, const record *r) {
  if (!(r->ratio > 0)) return;
  int64_t guessed = window_guess(c, r);
  c->shared += (uint64_t)sat_trunc((double)r->ratio * (double)guessed + 0.5);
  c->shared_guess += (uint64_t)guessed;
}

static void unshare(cpt_conversation *c, const record *r) {
  if (!(r->ratio > 0)) return;
  int64_t guessed = window_guess(c, r);
  c->shared -= (uint64_t)sat_trunc((double)r->ratio * (double)guessed + 0.5);
  c->shared_guess -= (uint64_t)guessed;
}

/*
 * Reasoning: is it sent again within its turn, or dropped at once?
 */

static bool is_resent(const tally *t) { return t->resent_error + RESENT_LEAD <= t->dropped_error; }

/* What a provider that resends reasoning puts on top of base_total(b): the reasoning of b, or,
 * once the user spoke, the turn's reasoning taken away. */
static double resent_change(const record *b, uint32_t users) {
  return users > b->users ? -(double)b->turn : (double)b->reasoning;
}

static int64_t expected_change(const cpt_conversation *c, const record *b, uint32_t users) {
  if (c->seed || !is_resent(&c->tallies[b->tally])) return 0;
  return sat_trunc(resent_change(b, users));
}

int64_t resent_reasoning(const cpt_conversation *c, const record *base) {
  return expected_change(c, base, c->users);
}

static uint16_t capped(double error) {
  error = fabs(error);
  return (uint16_t)(error < ERROR_CAP ? error : ERROR_CAP);
}

/* How good would each forecast of the prompt of r have been? `dropped` is the first one. */
static void score_forecasts(cpt_conversation *c, record *r, const record *b, double dropped) {
  tally *t = &c->tallies[b->tally];
  if (b->turn + (float)b->reasoning <= 0 || !same_model(r->model, b->model)) return;
  r->dropped_error = capped((double)r->prompt - dropped);
  r->resent_error = capped((double)r->prompt - dropped - resent_change(b, r->users));
  t->dropped_error += r->dropped_error;
  t->resent_error += r->resent_error;
}

static void meets(cpt_conversation *c, record *r, enum fate fate) {
  r->fate = (uint8_t)fate;
  r->flags |= COUNTED;
  c->fates[fate]++;
}

static void become_live(cpt_conversation *c, const record *r) {
  c->live = link_of(c, r);
  if (c->first_live != 0) return;
  c->first_live = c->live;
  c->first_settled = (int64_t)(c->told + c->shared);
  c->first_guess = (int64_t)(c->guess - c->shared_guess);
}

/*
 * The seed's anchors: all are believed
 */

static void seed_arrives(cpt_conversation *c, record *r) {
  const record *b = at_link(c, c->newest);
  if (b != NULL && !(b->flags & FOLDED)) {
    int64_t told = sat_sub(r->told, told_after(c, b));
    int64_t measured = sat_sub(sat_sub(r->prompt, base_total(c, b)), told);
    int64_t guessed = window_guess(c, r);
    if (measured < 0 || (measured == 0 && guessed > 0))
      meets(c, r, SHRUNK);
    else if (!same_model(b->model, r->model))
      meets(c, r, OTHER_MODEL);
    else if (measured > 0 && guessed > 0)
      teach(c, r, measured, guessed);
  }
  if (!(r->flags & DEAD)) become_live(c, r);
}

/*
 * Screened anchors
 */

/* Tokens by present knowledge that stand behind the prompt of b and before r, answer included. */
static double appended(const cpt_conversation *c, const record *b, const record *r) {
  double told = (double)sat_sub(r->told, told_after(c, b));
  double guessed = (double)sat_sub(r->guess, guess_after(c, b));
  double answer = (double)sat_sub(base_total(c, b), b->prompt);
  return answer + told + guessed * cpt_conversation_scale(c);
}

static bool is_taken_back(const record *before, const record *r, double growth) {
  double grown = (double)r->prompt - (double)before->prompt;
  return before->flags & REFUSED && same_model(before->model, r->model) && grown > 0 &&
         fabs(grown - growth) <= growth / 2 + RETURN_SLACK;
}

static bool is_clipped(const cpt_conversation *c, const record *before, const record *r,
                       double growth, double expected) {
  if (r->prompt == before->prompt && growth > CLIPPED_GROWTH) return true;
  double half = (double)c->limit / 2;
  return c->limit > 0 && fabs((double)r->prompt - half) <= CLIPPED_SLACK &&
         expected > CLIPPED_FACTOR * (double)r->prompt;
}

static bool is_aggregated(const record *b, const record *r, double growth, double expected) {
  return (double)r->prompt > AGGREGATED_PROMPT * expected &&
         (double)r->prompt - (double)b->prompt > AGGREGATED_GROWTH * growth + AGGREGATED_SLACK;
}

static void refuse(cpt_conversation *c, record *r, enum fate fate) {
  r->flags |= REFUSED;
  meets(c, r, fate);
}

/* What was measured, held near what was guessed. */
static int64_t held_ratio(const struct prior *prior, int64_t measured, int64_t guessed) {
  double ratio = (double)measured / (double)guessed;
  if (ratio < prior->min_ratio) return sat_trunc(prior->min_ratio * (double)guessed);
  if (ratio > prior->max_ratio) return sat_trunc(prior->max_ratio * (double)guessed);
  return measured;
}

/* Learn from the window between b and r, whose prompt is believed. `change` is what resent
 * reasoning was expected to change. */
static void close_window(cpt_conversation *c, record *r, const record *b, int64_t change) {
  int64_t told = sat_sub(r->told, told_after(c, b));
  int64_t charged = sat_sub(sat_sub(r->prompt, base_total(c, b)), told);
  int64_t measured = sat_sub(charged, change);
  int64_t guessed = window_guess(c, r);
  if (!same_model(b->model, r->model)) {
    meets(c, r, OTHER_MODEL);
    return;
  }
  if (measured < 0 || (measured == 0 && guessed > 0)) {
    meets(c, r, SHRUNK);
  } else if (measured > 0 && guessed > 0) {
    teach(c, r, held_ratio(prior_of(&c->tallies[r->tally]), measured, guessed), guessed);
  }
  if (charged > 0 && guessed > 0) {
    r->ratio = (float)((double)charged / (double)guessed);
    share(c, r);
  }
}

static void live_arrives(cpt_conversation *c, record *r) {
  record *b = at_link(c, c->live), *before = at_link(c, c->newest);
  if (b == NULL) { /* the first is never refused: nothing tells what it should be */
    become_live(c, r);
    return;
  }
  double growth = appended(c, before, r);
  if (is_taken_back(before, r, growth)) {
    before->flags &= (uint8_t)~REFUSED;
    c->fates[before->fate]--;
    r->flags |= FREED_PREVIOUS;
    b = before;
  } else {
    int64_t change = expected_change(c, b, r->users);
    double growth_of_base = appended(c, b, r);
    double expected = (double)b->prompt + growth_of_base + (double)change;
    if (is_clipped(c, before, r, growth, expected)) {
      refuse(c, r, CLIPPED);
      if (before == b && b->fate == SHRUNK && r->prompt == b->prompt && b->base != 0) {
        r->flags |= REFUSED_PREVIOUS; /* it was the clip that had made the prompt shrink */
        b->flags |= REFUSED;
        c->live = b->base;
      }
      return;
    }
    if (is_aggregated(b, r, growth_of_base, expected)) {
      refuse(c, r, AGGREGATED);
      return;
    }
  }
  int64_t change = expected_change(c, b, r->users);
  r->turn = r->users > b->users ? 0 : b->turn + (float)(b->reasoning > 0 ? b->reasoning : 0);
  if (window_base(c, r) == b) { /* no dead anchor lies between, with a window of its own */
    score_forecasts(c, r, b, (double)b->prompt + appended(c, b, r));
    close_window(c, r, b, change);
  }
  become_live(c, r);
}

/* The difference of two prompts is true whatever stood before both. */
static void dead_arrives(cpt_conversation *c, record *r) {
  const record *b = at_link(c, c->newest);
  if (b == NULL || !(b->flags & DEAD)) return;
  double growth = appended(c, b, r);
  if (is_aggregated(b, r, growth, (double)b->prompt + growth)) return;
  close_window(c, r, b, 0);
}

/*
 * Coming and going
 */

/* What the provider's rule of the seed says, with the envelope; 0: nothing usable. */
static int64_t reported(const item *message, const record *r) {
  int64_t size = message->stored ? r->output : sat_sub(r->output, r->reasoning);
  return size > 0 ? sat_add(size, ENVELOPE_TOKENS) : 0;
}

/* What does the message m of r count for? `visible` is the guess for the text that its output
 * must have paid for. An anchor's answer is exactly what it puts into the next prompt. */
struct answer judge_answer(const cpt_conversation *c, const item *m, const record *r,
                           int64_t visible) {
  int64_t answer = sat_sub(r->output, r->reasoning);
  int64_t least = answer > 0 ? answer : 0;
  double worth = (double)visible * cpt_conversation_scale(c);
  bool untrue = !c->seed && answer <= PLACEHOLDER_OUTPUT &&
                worth > PLACEHOLDER_FACTOR * (double)least + PLACEHOLDER_SLACK;
  if (untrue) return (struct answer){0, false, true};
  if (!c->seed && r->kind == ANCHOR) return (struct answer){least, true, false};
  int64_t size = reported(m, r);
  return (struct answer){size, size > 0, false};
}

static void set_answer(cpt_conversation *c, record *r, int64_t visible) {
  item *m = &c->items[r->at];
  struct answer judged = judge_answer(c, m, r, visible);
  r->answer = judged.tokens;
  m->told = judged.told;
  if (judged.untrue && r->output > 0) { /* an output of 0 is none told */
    r->flags |= PLACEHOLDER;
    c->placeholders++;
  }
  if (!judged.untrue || r->kind == SIZE) return;
  m->guess = visible > 0 ? visible : 1; /* its reasoning is not sent again */
  m->reasoning = 0;
}

void record_arrives(cpt_conversation *c, record *r, int64_t visible) {
  r->told = (int64_t)c->told;
  r->guess = (int64_t)c->guess;
  r->users = c->users;
  r->base = r->kind == MARKER ? c->marker : c->live;
  r->previous = c->newest;
  if (r->kind == MARKER) {
    c->marker = link_of(c, r);
    return;
  }
  if (is_prompt(r) && !(r->flags & FOLDED)) r->tally = tally_of(c, r);
  if (has_message(r) && !(r->flags & FOLDED)) set_answer(c, r, visible);
  if (!is_prompt(r)) return;
  if (r->flags & FOLDED)
    share(c, r);
  else if (c->seed)
    seed_arrives(c, r);
  else if (r->flags & DEAD)
    dead_arrives(c, r);
  else
    live_arrives(c, r);
  c->newest = link_of(c, r);
}

void record_leaves(cpt_conversation *c) {
  record *r = &c->records[c->record_count - 1];
  uint32_t link = link_of(c, r);
  bool folded = r->flags & FOLDED;
  if (r->kind == MARKER) c->marker = r->base;
  if (r->flags & PLACEHOLDER && !folded) c->placeholders--;
  if (is_prompt(r)) {
    record *before = at_link(c, r->previous);
    unshare(c, r);
    if (!folded) {
      if (r->measured > 0) forget(c, r);
      if (r->dropped_error > 0 || r->resent_error > 0) {
        tally *t = &c->tallies[window_base(c, r)->tally];
        t->dropped_error -= r->dropped_error;
        t->resent_error -= r->resent_error;
      }
      if (r->flags & COUNTED) c->fates[r->fate]--;
      if (r->flags & FREED_PREVIOUS) {
        before->flags |= REFUSED;
        c->fates[before->fate]++;
      }
      if (r->flags & REFUSED_PREVIOUS) before->flags &= (uint8_t)~REFUSED;
    }
    if (r->flags & NEW_MODEL && !folded) c->tally_count--;
    c->live = r->base;
    c->newest = r->previous;
    if (c->first_live == link) c->first_live = 0;
  }
  c->record_count--;
}

/*
 * The fixed part
 */

/* What is known: from the first live anchor or one before a replace, whichever had the least mass
 * before it; else from a marker (an anchor of the list before taught it), or what was said. */
struct fixed fixed_part(const cpt_conversation *c) {
  struct fixed best = {c->fixed_known, c->fixed_known ? c->fixed : 0, (double)c->fixed_mass};
  const record *marker = at_link(c, c->marker), *first = at_link(c, c->first_live);
  bool said = !c->fixed_known || c->fixed_mass == INT64_MAX; /* by no anchor of this list */
  if (said && marker != NULL && marker->prompt >= 0)
    best = (struct fixed){true, marker->prompt, (double)INT64_MAX};
  if (first == NULL) return best;
  double mass = (double)c->first_settled + (double)c->first_guess * cpt_conversation_scale(c);
  if (best.known && best.mass <= mass) return best;
  double tokens = (double)first->prompt - mass;
  return (struct fixed){true, tokens > 0 ? sat_trunc(tokens) : 0, mass};
}

/* The list is about to change; keep what is known. */
void fold_fixed_part(cpt_conversation *c) {
  struct fixed fixed = fixed_part(c);
  if (!fixed.known) return;
  c->fixed_known = true;
  c->fixed = fixed.tokens;
  c->fixed_mass = sat_trunc(fixed.mass);
}

cpt_learned cpt_conversation_learned(const cpt_conversation *c) {
  const tally *t = present_tally(c);
  cpt_learned learned = {
      .scale = cpt_conversation_scale(c),
      .mass = wide_get(t->estimated),
      .windows = t->windows,
      .shrunk = c->fates[SHRUNK],
      .model = c->fates[OTHER_MODEL],
      .clipped = c->fates[CLIPPED],
      .aggregated = c->fates[AGGREGATED],
      .placeholder = c->placeholders,
  };
  struct fixed fixed = fixed_part(c);
  learned.fixed = fixed.tokens;
  learned.fixed_known = fixed.known;
  return learned;
}
