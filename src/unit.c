/* Calls and their results stay together. */
#include "conversation.h"

/* A late result looks through this many calls for its own; a hostile list of open calls and
 * orphans must not cost their product. */
#define CALLS_SEARCHED 1024
/* … and through this many of its own batch; no model calls so many tools at once. */
#define BATCH_SEARCHED 4096

static bool is_open(const call *call) { return call->result == 0; }

/* The newest batch: the calls of the newest assistant message. Its first call; call_count if
 * that message calls nothing. */
static size_t batch_start(const cpt_conversation *c, size_t count) {
  if (count == 0 || c->items[count - 1].since == MAX_SINCE) return c->call_count;
  size_t assistant = count - 1 - c->items[count - 1].since, low = 0, high = c->call_count;
  while (low < high) { /* calls are in the order of their messages */
    size_t middle = low + (high - low) / 2;
    if (c->calls[middle].message < assistant)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* How far the newest batch is searched. */
static size_t batch_end(const cpt_conversation *c) {
  bool large = c->call_count - c->first_open > BATCH_SEARCHED;
  return large ? c->first_open + BATCH_SEARCHED : c->call_count;
}

/* By id: in order within the batch (ids may repeat), else the newest open call. */
static call *find_by_id(cpt_conversation *c, size_t batch, uint64_t id) {
  for (size_t i = c->first_open, end = batch_end(c); i < end; i++) {
    if (c->calls[i].id == id && is_open(&c->calls[i])) return &c->calls[i];
  }
  size_t stop = batch > CALLS_SEARCHED ? batch - CALLS_SEARCHED : 0;
  for (size_t i = batch; i-- > stop;) {
    if (c->calls[i].id == id && is_open(&c->calls[i])) return &c->calls[i];
  }
  return NULL;
}

/* By order: the first open call of the batch without an id, or any for a result without one. */
static call *find_by_order(cpt_conversation *c, uint64_t id) {
  size_t end = batch_end(c);
  for (size_t i = c->first_open; i < end; i++) {
    if (is_open(&c->calls[i]) && c->calls[i].id == 0) return &c->calls[i];
  }
  for (size_t i = c->first_open; id == 0 && i < end; i++) {
    if (is_open(&c->calls[i])) return &c->calls[i];
  }
  return NULL;
}

/* Message i was appended: if it is a result, find its call. */
void pair_message(cpt_conversation *c, size_t i) {
  item *result = &c->items[i];
  if (result->role != CPT_TOOL) return;
  size_t batch = batch_start(c, i + 1);
  if (c->first_open < batch || c->first_open > c->call_count) c->first_open = batch;
  while (c->first_open < c->call_count && !is_open(&c->calls[c->first_open]))
    c->first_open++;
  call *call = result->id != 0 ? find_by_id(c, batch, result->id) : NULL;
  if (call == NULL) call = find_by_order(c, result->id);
  if (call == NULL) return; /* an orphan */
  call->result = (uint32_t)i + 1;
  result->call = (uint32_t)(call - c->calls) + 1;
}

/* Message i, the last, goes. */
void unpair_message(cpt_conversation *c, size_t i) {
  if (c->items[i].call != 0) c->calls[c->items[i].call - 1].result = 0;
  while (c->call_count > 0 && c->calls[c->call_count - 1].message >= i)
    c->call_count--;
}

size_t cpt_conversation_pending(const cpt_conversation *c) {
  size_t pending = 0;
  for (size_t i = batch_start(c, c->count); i < c->call_count; i++)
    pending += is_open(&c->calls[i]);
  return pending;
}

size_t tied_to(const cpt_conversation *c, size_t i) {
  return c->items[i].call != 0 ? c->calls[c->items[i].call - 1].message : i;
}

size_t last_cut(const cpt_conversation *c) {
  if (cpt_conversation_pending(c) == 0) return c->count;
  return c->calls[c->call_count - 1].message;
}

bool cpt_conversation_can_cut(const cpt_conversation *c, size_t i) {
  if (i > last_cut(c) || (i < c->count && !starts_turn(&c->items[i]))) return false;
  for (size_t k = i; k < c->count; k++) {
    if (tied_to(c, k) < i) return false;
  }
  return true;
}

size_t cpt_conversation_keep_from(const cpt_conversation *c, int64_t max_tokens) {
  size_t keep = c->count, last = last_cut(c), tied = c->count;
  walk w = walk_from(c, c->count);
  int64_t sum = 0;
  for (size_t i = c->count; i-- > 0;) {
    sum = sat_add(sum, walk_size(&w, i));
    if (sum > max_tokens) break;
    if (tied_to(c, i) < tied) tied = tied_to(c, i);
    if (tied >= i && i <= last && starts_turn(&c->items[i])) keep = i;
  }
  return keep;
}
