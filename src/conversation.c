/* The growing list: messages come, go, and are replaced; sizes are walked from the end. */
#include "conversation.h"
#include "estimate.h"

#include <string.h>

/*
 * Memory
 */

/* Room for `more` behind `count`; grows by half, so that appending is O(1) amortised. */
static bool reserve(cpt_conversation *c, void **block, size_t *capacity, size_t count, size_t more,
                    size_t size) {
  if (more > MAX_COUNT - count) return false;
  size_t needed = count + more;
  if (needed <= *capacity) return true;
  size_t grown = *capacity + *capacity / 2;
  if (grown < needed) grown = needed;
  if (grown < 4) grown = 4;
  if (grown > SIZE_MAX / size) return false;
  void *new = c->alloc(c->ud, *block, *capacity * size, grown * size);
  if (new == NULL) return false;
  *block = new;
  *capacity = grown;
  return true;
}

static bool has_room(const cpt_conversation *c, size_t items, size_t records, size_t calls) {
  return c->count + items <= c->item_capacity && c->record_count + records <= c->record_capacity &&
         c->call_count + calls <= c->call_capacity && c->tally_count + records <= c->tally_capacity;
}

bool reserve_room(cpt_conversation *c, size_t items, size_t records, size_t calls) {
  if (has_room(c, items, records, calls)) return true;
  void *i = c->items, *r = c->records, *k = c->calls, *t = c->tallies;
  bool enough = reserve(c, &i, &c->item_capacity, c->count, items, sizeof *c->items);
  c->items = i;
  if (!enough) return false;
  enough = reserve(c, &r, &c->record_capacity, c->record_count, records, sizeof *c->records);
  c->records = r;
  if (!enough) return false;
  enough = reserve(c, &k, &c->call_capacity, c->call_count, calls, sizeof *c->calls);
  c->calls = k;
  if (!enough) return false;
  size_t tallies = records < MAX_TALLIES ? records : MAX_TALLIES;
  if (tallies > MAX_TALLIES - c->tally_count) tallies = MAX_TALLIES - c->tally_count;
  enough = reserve(c, &t, &c->tally_capacity, c->tally_count, tallies, sizeof *c->tallies);
  c->tallies = t;
  return enough;
}

cpt_conversation *cpt_conversation_new(cpt_alloc alloc, void *ud, cpt_estimator estimator) {
  cpt_conversation *c = alloc(ud, NULL, 0, sizeof *c);
  if (c == NULL) return NULL;
  memset(c, 0, sizeof *c);
  c->alloc = alloc;
  c->ud = ud;
  c->seed = estimator == CPT_SEED;
  return c;
}

static void release(const cpt_conversation *c, void *block, size_t size) {
  if (block != NULL) c->alloc(c->ud, block, size, 0);
}

void cpt_conversation_free(cpt_conversation *c) {
  if (c == NULL) return;
  release(c, c->items, c->item_capacity * sizeof *c->items);
  release(c, c->records, c->record_capacity * sizeof *c->records);
  release(c, c->calls, c->call_capacity * sizeof *c->calls);
  release(c, c->tallies, c->tally_capacity * sizeof *c->tallies);
  c->alloc(c->ud, c, sizeof *c, 0);
}

size_t cpt_conversation_memory(const cpt_conversation *c) {
  return sizeof *c + c->item_capacity * sizeof *c->items + c->record_capacity * sizeof *c->records +
         c->call_capacity * sizeof *c->calls + c->tally_capacity * sizeof *c->tallies;
}

/*
 * Coming
 */

/* A message as it goes into the list, from outside or from a copy of the list itself. */
struct arrival {
  item item; /* links and told are not set yet */
  bool has_usage, has_marker, dead;
  record usage, marker;
  int64_t visible; /* the guess without stored reasoning: what its output must have paid for */
};

/* Tokens of the guess that these bytes of the text make. */
static double part_of(const cpt_message *m, int64_t bytes, int64_t guess) {
  if (bytes == 0) return 0;
  cpt_message bare = *m;
  bare.bytes = bare.weight[0] = bare.weight[1] = 0;
  double text = (double)sat_sub(guess, cpt_guess(&bare));
  return text * ((double)bytes / (double)m->bytes);
}

/* A part of a guess in `units`ths of it. A guess is at least its envelope, never 0. */
static int64_t share_of(double part, int64_t guess, int units) {
  return sat_trunc(part / (double)guess * units + 0.5);
}

/* The guess for a message's text without its stored reasoning. */
static int64_t without_reasoning(const item *m) {
  return m->guess - (int64_t)((double)m->guess * m->reasoning / 65535.0);
}

static void prepare(const cpt_conversation *c, struct arrival *a, const cpt_entry *e) {
  const cpt_message *m = &e->message;
  int64_t guess = c->seed ? cpt_heuristic(m) : cpt_guess(m);
  int64_t prompt = e->summary ? 0 : m->prompt; /* a summary's usage is of the summarising request */
  a->item = (item){.guess = guess, .id = e->answers, .role = m->role & 7u};
  a->item.stored = m->reasoning_bytes > 0;
  double reasoning = part_of(m, m->reasoning_bytes, guess);
  a->item.reasoning = (uint16_t)share_of(reasoning, guess, UINT16_MAX);
  a->visible = guess - sat_trunc(reasoning + 0.5);
  a->item.named = e->names_model;
  a->item.family = (unsigned)e->model_family & 15u;
  a->item.summary = e->summary;
  a->item.calls = (uint8_t)share_of(part_of(m, m->call_bytes, guess), guess, UINT8_MAX);
  a->item.attachments =
      (uint8_t)share_of((double)m->attachments * ATTACHMENT_TOKENS, guess, UINT8_MAX);
  a->dead = false;
  a->has_usage = prompt > 0 || m->output != 0;
  a->has_marker = e->summary;
  if (a->has_usage)
    a->usage = (record){.prompt = prompt > 0 ? prompt : 0,
                        .output = m->output,
                        .reasoning = m->reasoning,
                        .model = m->model,
                        .kind = prompt > 0 ? ANCHOR : SIZE};
  if (a->has_marker)
    a->marker = (record){.prompt = e->has_fixed ? e->fixed : -1, .output = e->kept, .kind = MARKER};
}

/* Was message i kept by a compaction that the list has lived through elsewhere? */
static bool is_dead(const cpt_conversation *c, size_t i) {
  if (c->marker == 0) return false;
  const record *marker = &c->records[c->marker - 1];
  return i > marker->at && i - marker->at <= (uint64_t)marker->output;
}

static void add_record(cpt_conversation *c, const record *r, int64_t visible) {
  record *top = &c->records[c->record_count++];
  *top = *r;
  record_arrives(c, top, visible);
}

static void count_item(cpt_conversation *c, const item *m) {
  if (m->told)
    c->told += (uint64_t)c->records[m->record - 1].answer;
  else
    c->guess += (uint64_t)m->guess;
  c->users += m->role == CPT_USER;
}

static void uncount_item(cpt_conversation *c, const item *m) {
  if (m->told)
    c->told -= (uint64_t)c->records[m->record - 1].answer;
  else
    c->guess -= (uint64_t)m->guess;
  c->users -= m->role == CPT_USER;
}

static void add_call(cpt_conversation *c, uint64_t id) {
  size_t i = c->count - 1;
  if (c->items[i].role != CPT_ASSISTANT) return; /* calls of others are not answered */
  c->calls[c->call_count++] = (call){.id = id, .message = (uint32_t)i};
}

/* Room is reserved. Its calls are added next. */
static void add(cpt_conversation *c, struct arrival *a) {
  size_t i = c->count++;
  item *m = &c->items[i];
  *m = a->item;
  m->record = m->call = 0;
  if (!a->has_usage || !(a->usage.flags & FOLDED)) m->told = 0;
  m->since = i == 0 ? MAX_SINCE : c->items[i - 1].since;
  if (m->since < MAX_SINCE) m->since++;
  if (m->role == CPT_ASSISTANT) m->since = 0;
  if (!m->named) m->family = i > 0 ? c->items[i - 1].family : 0u;
  if (a->has_usage) {
    m->record = (uint32_t)c->record_count + 1;
    a->usage.at = (uint32_t)i;
    if (a->dead || is_dead(c, i)) a->usage.flags |= DEAD;
    add_record(c, &a->usage, a->visible);
  }
  if (a->has_marker) {
    a->marker.at = (uint32_t)i;
    add_record(c, &a->marker, 0);
  }
  count_item(c, m);
  pair_message(c, i);
}

bool cpt_conversation_append(cpt_conversation *c, const cpt_entry *entries, size_t n) {
  size_t records = 0, calls = 0;
  for (size_t i = 0; i < n; i++) {
    records += 2; /* usage and marker */
    calls += entries[i].call_count;
  }
  if (n == 1 && !entries->summary)
    records = entries->message.prompt > 0 || entries->message.output != 0 ? 1 : 0;
  if (!reserve_room(c, n, records, calls)) return false;
  for (size_t i = 0; i < n; i++) {
    struct arrival a;
    prepare(c, &a, &entries[i]);
    add(c, &a);
    for (size_t k = 0; k < entries[i].call_count; k++)
      add_call(c, entries[i].calls[k]);
  }
  return true;
}

bool cpt_conversation_observe(cpt_conversation *c, const cpt_usage *usage, uint64_t model) {
  cpt_message m;
  cpt_message_init(&m, CPT_OTHER);
  cpt_set_usage(&m, usage);
  if (!cpt_is_anchor(&m)) return true; /* nothing was said */
  if (!reserve_room(c, 0, 1, 0)) return false;
  add_record(
      c, &(record){.prompt = m.prompt, .model = model, .at = (uint32_t)c->count, .kind = OBSERVED},
      0);
  return true;
}

/*
 * Going
 */

static bool covers_more_than(const record *r, size_t n) {
  return r->kind == OBSERVED ? r->at > n : r->at >= n;
}

static void drop_records(cpt_conversation *c, size_t n) {
  while (c->record_count > 0 && covers_more_than(&c->records[c->record_count - 1], n))
    record_leaves(c);
}

void cpt_conversation_truncate(cpt_conversation *c, size_t n) {
  while (c->count > n) {
    size_t i = c->count - 1;
    uncount_item(c, &c->items[i]);
    unpair_message(c, i);
    drop_records(c, i);
    c->count = i;
  }
  if (c->kept_from > n) c->kept_from = (uint32_t)n;
  if (c->kept_end > n) c->kept_end = (uint32_t)n;
  if (c->model_mark > c->record_count) c->model_mark = (uint32_t)c->record_count;
  c->first_open = 0;
}

/*
 * Sizes
 */

/* A record that says something about the messages before it. */
static bool is_believed(const record *r) { return is_prompt(r) && !(r->flags & REFUSED); }

static void close_walk(walk *w, const record *r) {
  w->closing = r;
  w->closing_start = r->ratio > 0 ? window_start(w->c, r) : UINT32_MAX;
}

walk walk_from(const cpt_conversation *c, size_t end) {
  walk w = {.c = c, .scale = cpt_conversation_scale(c)};
  size_t low = 0, high = c->record_count; /* the first record that lies at `end` or behind */
  if (high > 0 && c->records[high - 1].at < end) low = high; /* none does: the common case */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (c->records[middle].at < end)
      low = middle + 1;
    else
      high = middle;
  }
  w.next = low;
  for (size_t k = low; k < c->record_count; k++) {
    if (!is_believed(&c->records[k])) continue;
    close_walk(&w, &c->records[k]);
    break;
  }
  return w;
}

double walk_rate(const walk *w, size_t i) {
  bool measured = w->closing != NULL && i >= w->closing_start;
  return measured ? (double)w->closing->ratio : w->scale;
}

static int64_t guessed_size(walk *w, size_t i) {
  const cpt_conversation *c = w->c;
  for (; w->next > 0 && c->records[w->next - 1].at > i; w->next--) {
    if (is_believed(&c->records[w->next - 1])) close_walk(w, &c->records[w->next - 1]);
  }
  return sat_trunc((double)c->items[i].guess * walk_rate(w, i) + 0.5);
}

static inline int64_t size_of(walk *w, size_t i) {
  const cpt_conversation *c = w->c;
  const item *m = &c->items[i];
  if (m->told) return c->records[m->record - 1].answer;
  return c->seed ? sat_trunc((double)m->guess * w->scale) : guessed_size(w, i);
}

int64_t walk_size(walk *w, size_t i) { return size_of(w, i); }

int64_t cpt_conversation_estimate(const cpt_conversation *c, size_t first, size_t last) {
  walk w = walk_from(c, last);
  int64_t sum = 0;
  for (size_t i = last; i-- > first;)
    sum = sat_add(sum, size_of(&w, i));
  return sum;
}

int64_t all_messages(const cpt_conversation *c) {
  if (c->seed && cpt_conversation_scale(c) != 1.0) return cpt_conversation_estimate(c, 0, c->count);
  int64_t settled = sat_add((int64_t)c->told, (int64_t)c->shared);
  double guessed = (double)(int64_t)(c->guess - c->shared_guess);
  return sat_add(settled, sat_trunc(guessed * cpt_conversation_scale(c) + 0.5));
}

/* Σ over the messages behind an anchor and its own. */
static int64_t messages_after(const cpt_conversation *c, const record *r) {
  if (c->seed) return cpt_conversation_estimate(c, r->at + (r->kind == ANCHOR ? 1u : 0u), c->count);
  int64_t told = sat_sub((int64_t)c->told, told_after(c, r));
  int64_t guessed = sat_sub((int64_t)c->guess, guess_after(c, r));
  return sat_add(told, sat_trunc((double)guessed * cpt_conversation_scale(c) + 0.5));
}

int64_t cpt_conversation_used(const cpt_conversation *c, bool *anchored) {
  int64_t used;
  *anchored = c->live != 0;
  if (c->live == 0) {
    used = sat_add(fixed_part(c).tokens, all_messages(c));
  } else {
    const record *live = &c->records[c->live - 1];
    used = sat_add(base_total(c, live), resent_reasoning(c, live));
    used = sat_add(used, messages_after(c, live));
  }
  return used > 0 ? used : 0;
}

/* The seed's walk, on this conversation's sizes. */
static bool walk_back(const cpt_conversation *c, int64_t budget, size_t *first) {
  walk w = walk_from(c, c->count);
  int64_t sum = 0;
  *first = c->count;
  for (size_t i = c->count; i-- > 0;) {
    sum = sat_add(sum, size_of(&w, i));
    if (sum > budget) return false;
    if (starts_turn(&c->items[i])) *first = i;
  }
  return true;
}

size_t cpt_conversation_split_index_for_keep(const cpt_conversation *c, int64_t max_tokens) {
  size_t first;
  return walk_back(c, max_tokens, &first) ? c->count : first;
}

size_t cpt_conversation_first_index_in_budget(const cpt_conversation *c, int64_t limit) {
  size_t first;
  walk_back(c, limit, &first);
  return first;
}

/*
 * Taking the list apart: what lies behind an index is copied and appended once more
 */

struct tail {
  item *items;
  record *records;
  call *calls;
  size_t count, record_count, call_count;
  size_t first; /* index of items[0] in the list it was copied from */
};

/* A copy of n elements from the first on; NULL for none. */
static void *copy(const cpt_conversation *c, const void *array, size_t first, size_t n, size_t size,
                  bool *enough) {
  if (n == 0) return NULL;
  void *to = c->alloc(c->ud, NULL, 0, n * size);
  if (to == NULL)
    *enough = false;
  else
    memcpy(to, (const char *)array + first * size, n * size);
  return to;
}

static void free_tail(const cpt_conversation *c, struct tail *t) {
  release(c, t->items, t->count * sizeof *t->items);
  release(c, t->records, t->record_count * sizeof *t->records);
  release(c, t->calls, t->call_count * sizeof *t->calls);
}

static bool copy_tail(const cpt_conversation *c, size_t first, struct tail *t) {
  size_t r = c->record_count, k = c->call_count;
  while (r > 0 && covers_more_than(&c->records[r - 1], first))
    r--;
  while (k > 0 && c->calls[k - 1].message >= first)
    k--;
  bool enough = true;
  *t = (struct tail){.count = c->count - first,
                     .record_count = c->record_count - r,
                     .call_count = c->call_count - k,
                     .first = first};
  t->items = copy(c, c->items, first, t->count, sizeof *t->items, &enough);
  t->records = copy(c, c->records, r, t->record_count, sizeof *t->records, &enough);
  t->calls = copy(c, c->calls, k, t->call_count, sizeof *t->calls, &enough);
  if (!enough) free_tail(c, t);
  return enough;
}

/* A record as it was before anything followed from it; what is folded stays as it was learned. */
static record unlearned(const record *r) {
  if (r->flags & FOLDED) return *r;
  return (record){.prompt = r->prompt,
                  .output = r->output,
                  .reasoning = r->reasoning,
                  .model = r->model,
                  .stir = r->stir,
                  .shift = r->shift,
                  .kind = r->kind,
                  .flags = r->flags & DEAD};
}

/* Append the copied messages from t->items[from] on. Room is reserved. */
static void append_tail(cpt_conversation *c, const struct tail *t, size_t from) {
  size_t r = 0, k = 0;
  for (size_t i = 0; i <= t->count; i++) {
    size_t index = t->first + i;
    for (; r < t->record_count && t->records[r].kind == OBSERVED && t->records[r].at == index;
         r++) {
      record again = unlearned(&t->records[r]);
      again.at = (uint32_t)c->count;
      if (i > 0) add_record(c, &again, 0);
    }
    if (i == t->count) return;
    struct arrival a = {.item = t->items[i], .visible = without_reasoning(&t->items[i])};
    for (; r < t->record_count && t->records[r].at == index && t->records[r].kind != OBSERVED;
         r++) {
      bool marker = t->records[r].kind == MARKER;
      *(marker ? &a.has_marker : &a.has_usage) = true;
      *(marker ? &a.marker : &a.usage) = unlearned(&t->records[r]);
    }
    if (i >= from) add(c, &a);
    for (; k < t->call_count && t->calls[k].message == index; k++) {
      if (i >= from) add_call(c, t->calls[k].id);
    }
  }
}

/*
 * Reading a message again
 */

static int32_t add_shift(int32_t shift, int64_t more) {
  int64_t sum = sat_add(shift, more);
  return sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : (int32_t)sum;
}

/* Message i is an anchor and read again: its prompt was counted when messages before it were
 * others, as that of the usage it had. */
static void correct_usage(struct arrival *a, const cpt_conversation *c, size_t i) {
  const item *old = &c->items[i];
  a->dead = i < c->kept_end; /* its prompt speaks of the list before the compaction */
  if (old->record == 0 || !a->has_usage || a->usage.kind != ANCHOR) return;
  const record *r = &c->records[old->record - 1];
  if (r->kind != ANCHOR || r->flags & FOLDED) return;
  int64_t corrected = sat_add(a->usage.prompt, r->shift);
  a->usage.prompt = corrected > 1 ? corrected : 1;
  a->usage.shift = r->shift;
  a->usage.stir = r->stir;
  if (r->flags & DEAD) a->dead = true;
}

/* The prompts in the tail were counted when its first message was another one. Correct them by
 * the difference; they are no base any more where the corrections have become a larger guess
 * than sizing the unmeasured messages before them would be. */
static void correct_prompts(const cpt_conversation *c, struct tail *t, int64_t difference) {
  double scale = cpt_conversation_scale(c);
  int64_t measured = (int64_t)c->shared_guess;
  size_t offset = c->record_count - t->record_count;
  for (size_t k = t->record_count; k-- > 0;) {
    const record *old = &c->records[offset + k];
    record *r = &t->records[k];
    double unmeasured = (double)sat_sub(old->guess, measured) * scale;
    if (old->ratio > 0) measured = sat_sub(measured, window_guess(c, old));
    if (!is_prompt(r) || r->at <= t->first) continue;
    int64_t corrected = sat_add(r->prompt, difference);
    r->prompt = corrected > 1 ? corrected : 1;
    r->shift = add_shift(r->shift, difference);
    r->stir += (float)(difference < 0 ? -(double)difference : (double)difference);
    if ((double)r->stir > unmeasured) r->flags |= DEAD;
  }
}

/* How much larger is the prompt with *a in place of message i? Both by the same rate. */
static int64_t size_change(const cpt_conversation *c, size_t i, const struct arrival *a) {
  walk w = walk_from(c, i + 1);
  int64_t before = walk_size(&w, i);
  if (a->has_usage) {
    struct answer judged = judge_answer(c, &a->item, &a->usage, a->visible);
    if (judged.told) return sat_sub(judged.tokens, before);
    if (judged.untrue && a->usage.kind == ANCHOR)
      return sat_sub(sat_trunc((double)a->visible * walk_rate(&w, i) + 0.5), before);
  }
  return sat_sub(sat_trunc((double)a->item.guess * walk_rate(&w, i) + 0.5), before);
}

bool cpt_conversation_set(cpt_conversation *c, size_t i, const cpt_entry *entry) {
  struct tail t;
  if (!reserve_room(c, 1, 2, entry->call_count) || !copy_tail(c, i, &t)) return false;
  struct arrival a;
  prepare(c, &a, entry);
  if (c->items[i].summary) a.item.summary = 1; /* put in by replace, which needs no mark */
  correct_usage(&a, c, i);
  correct_prompts(c, &t, size_change(c, i, &a));
  bool first_dies = c->first_live != 0 && c->records[c->first_live - 1].at > i &&
                    t.records[c->first_live - 1 - (c->record_count - t.record_count)].flags & DEAD;
  if (first_dies) fold_fixed_part(c);
  uint32_t model_mark = c->model_mark, kept_from = c->kept_from, kept_end = c->kept_end;
  int64_t before = c->items[i].told ? 0 : c->items[i].guess;
  cpt_conversation_truncate(c, i);
  c->kept_from = kept_from;
  c->kept_end = kept_end;
  add(c, &a);
  if (i < kept_from) c->kept_guess += (c->items[i].told ? 0 : c->items[i].guess) - before;
  for (size_t k = 0; k < entry->call_count; k++)
    add_call(c, entry->calls[k]);
  append_tail(c, &t, 1);
  c->model_mark = model_mark < c->record_count ? model_mark : (uint32_t)c->record_count;
  free_tail(c, &t);
  return true;
}

/*
 * Compaction
 */

size_t cpt_conversation_front(const cpt_conversation *c) {
  size_t front = 0;
  while (front < c->count &&
         (c->items[front].role == CPT_SYSTEM || c->items[front].role == CPT_DEVELOPER))
    front++;
  return front;
}

/* Keep the first n messages, and all that was ever learned. */
static void keep_front(cpt_conversation *c, size_t n) {
  fold_fixed_part(c);
  const record *newest = c->newest != 0 ? &c->records[c->newest - 1] : NULL;
  if (newest != NULL) c->folded_tally = newest->tally + 1u;
  if (newest != NULL && c->newest > c->model_mark) c->model = c->tallies[newest->tally].model;
  c->told = c->guess = c->shared = c->shared_guess = 0;
  c->live = c->newest = c->marker = c->first_live = c->users = 0;
  c->model_mark = 0;
  c->first_open = 0;
  c->count = n;
  c->record_count = c->call_count = 0;
  for (size_t i = 0; i < n; i++) { /* system messages: what they cost is all that matters */
    item *m = &c->items[i];
    m->told = 0;
    m->record = m->call = 0;
    count_item(c, m);
  }
}

/* A message that is carried over: its size is as it was measured. */
static struct arrival carried_over(const cpt_conversation *c, size_t i) {
  struct arrival a = {.item = c->items[i], .has_usage = true};
  a.usage =
      (record){.kind = SIZE, .flags = FOLDED, .answer = cpt_conversation_estimate(c, i, i + 1)};
  a.item.told = 1;
  return a;
}

/* All anchors of the kept part speak of a list that is gone; what they taught stays. */
static void retire(struct tail *t) {
  size_t kept = 0;
  for (size_t k = 0; k < t->record_count; k++) {
    if (t->records[k].kind == MARKER) continue;
    record *r = &t->records[kept++];
    *r = t->records[k];
    r->flags = (r->flags & (REFUSED | PLACEHOLDER)) | DEAD | FOLDED;
    r->dropped_error = r->resent_error = 0;
  }
  t->record_count = kept;
}

/* A message that a compaction makes: whatever its usage says of a prompt is of another request,
 * and it needs no mark, since what it would say is known here. */
static void prepare_made(const cpt_conversation *c, struct arrival *a, const cpt_entry *e,
                         bool summary) {
  cpt_entry made = *e;
  made.message.prompt = 0;
  made.summary = summary;
  prepare(c, a, &made);
  a->has_marker = false;
}

/* Windows whose anchor went away start here: at the kept part, or where that of the compaction
 * before starts, if it lies within. */
static void start_kept_part(cpt_conversation *c, const struct tail *t, size_t earlier) {
  c->kept_from = (uint32_t)(c->count + earlier);
  c->kept_guess = (int64_t)c->guess;
  for (size_t i = 0; i < earlier && i < t->count; i++)
    c->kept_guess = sat_add(c->kept_guess, t->items[i].told ? 0 : t->items[i].guess);
}

bool cpt_conversation_replace(cpt_conversation *c, size_t keep_from, const cpt_entry *summary,
                              cpt_request request, size_t *at) {
  struct tail t;
  const cpt_entry *cut = request.kind == CPT_REQUEST_ENTRY ? request.entry : NULL;
  if (!reserve_room(c, 2, 3, summary->call_count + (cut != NULL ? cut->call_count : 0)) ||
      !copy_tail(c, keep_from, &t))
    return false;
  size_t all_records = t.record_count;
  size_t earlier = c->kept_end > 0 && c->kept_from > keep_from ? c->kept_from - keep_from : 0;
  struct arrival put, carried;
  prepare_made(c, &put, summary, true);
  if (request.kind == CPT_REQUEST_AT) carried = carried_over(c, request.index);
  if (cut != NULL) prepare_made(c, &carried, cut, false);
  retire(&t);
  *at = cpt_conversation_front(c);
  keep_front(c, *at);
  add(c, &put);
  if (request.kind != CPT_NO_REQUEST) add(c, &carried);
  start_kept_part(c, &t, earlier);
  append_tail(c, &t, 0);
  c->kept_end = (uint32_t)c->count;
  if (c->model != 0) c->model_mark = (uint32_t)c->record_count; /* the same model as before */
  t.record_count = all_records;
  free_tail(c, &t);
  return true;
}

/*
 * What the host says
 */

cpt_estimator cpt_conversation_estimator(const cpt_conversation *c) {
  return c->seed ? CPT_SEED : CPT_AUTO;
}

size_t cpt_conversation_count(const cpt_conversation *c) { return c->count; }

int64_t cpt_conversation_limit(const cpt_conversation *c) { return c->limit; }

void cpt_conversation_set_limit(cpt_conversation *c, int64_t limit) { c->limit = limit; }

void cpt_conversation_set_model(cpt_conversation *c, uint64_t model) {
  c->model = model;
  c->model_mark = (uint32_t)c->record_count;
}

cpt_family cpt_conversation_family(const cpt_conversation *c) {
  if (c->family_set) return c->family;
  return c->count > 0 ? (cpt_family)c->items[c->count - 1].family : CPT_UNKNOWN;
}

void cpt_conversation_set_family(cpt_conversation *c, cpt_family family) {
  c->family_set = true;
  c->family = family;
}

bool cpt_conversation_follows(const cpt_conversation *c) { return !c->family_set; }

void cpt_conversation_unset_family(cpt_conversation *c) { c->family_set = false; }

void cpt_conversation_set_fixed(cpt_conversation *c, int64_t tokens) {
  const int64_t said = INT64_MAX;                      /* any anchor knows better … */
  if (c->fixed_known && c->fixed_mass != said) return; /* … and did, before a replace */
  c->fixed_known = true;
  c->fixed = tokens;
  c->fixed_mass = said;
}
