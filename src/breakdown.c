/* What the next prompt is made of. */
#include "conversation.h"

/* The part to which a message's own text belongs. */
static int64_t *text_part(cpt_breakdown *b, const item *m) {
  if (m->summary) return &b->summary;
  switch (m->role) {
  case CPT_SYSTEM:
  case CPT_DEVELOPER:
    return &b->system;
  case CPT_ASSISTANT:
    return &b->assistant;
  case CPT_TOOL:
    return &b->tool_results;
  default:
    return &b->user;
  }
}

/* Take a share of the message's size from what is left of it. */
static int64_t take(int64_t *rest, int64_t size, double share) {
  int64_t part = sat_trunc((double)size * share);
  if (part > *rest) part = *rest;
  *rest -= part;
  return part;
}

static void add_message(cpt_breakdown *b, const item *m, int64_t size) {
  int64_t rest = size;
  if (!m->summary) {
    b->attachments = sat_add(b->attachments, take(&rest, size, m->attachments / 255.0));
    b->reasoning = sat_add(b->reasoning, take(&rest, size, m->reasoning / 65535.0));
    b->tool_calls = sat_add(b->tool_calls, take(&rest, size, m->calls / 255.0));
  }
  int64_t *text = text_part(b, m);
  *text = sat_add(*text, rest);
}

/* Take all parts down so that they add up to used; the largest part takes the rounding. */
static void shrink(cpt_breakdown *b, int64_t sum, int64_t used) {
  int64_t *parts[] = {&b->system,     &b->user,         &b->assistant,   &b->reasoning,
                      &b->tool_calls, &b->tool_results, &b->attachments, &b->summary};
  int64_t rest = used, *largest = parts[0];
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    *parts[i] = sat_trunc((double)*parts[i] * ((double)used / (double)sum));
    if (*parts[i] > rest) *parts[i] = rest;
    rest -= *parts[i];
    if (*parts[i] > *largest) largest = parts[i];
  }
  *largest += rest;
}

cpt_breakdown cpt_conversation_breakdown(const cpt_conversation *c) {
  cpt_breakdown b = {0};
  bool anchored;
  int64_t used = cpt_conversation_used(c, &anchored), sum = 0;
  walk w = walk_from(c, c->count);
  for (size_t i = c->count; i-- > 0;) {
    int64_t size = walk_size(&w, i);
    add_message(&b, &c->items[i], size);
    sum = sat_add(sum, size);
  }
  if (sum > used)
    shrink(&b, sum, used);
  else
    b.fixed = sat_sub(used, sum);
  return b;
}
