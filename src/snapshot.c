/*
 * A conversation as bytes: "CPTC", a version, all state field by field, a checksum.
 *
 * Numbers are written seven bits a byte, low bits first, signed ones folded onto unsigned
 * ones, so that the bytes are the same on every machine and most fields take one or two.
 * One function names the fields and serves both directions. What is read is checked so that
 * no link leaves its array: bytes that were forged with a right checksum may hold wrong
 * counts, but never break anything.
 */
#include "conversation.h"

#include <string.h>

#define VERSION 1

static const unsigned char magic[4] = {'C', 'P', 'T', 'C'};

#define CHECKSUM_BYTES 8

/* Bytes on their way in or out. Writing without room only counts. */
struct stream {
  bool reading, failed;
  unsigned char *out;
  const unsigned char *in;
  size_t at, size;
};

static void byte(struct stream *s, unsigned char *b) {
  if (s->reading) {
    if (s->at >= s->size) {
      s->failed = true;
      *b = 0;
      return;
    }
    *b = s->in[s->at];
  } else if (s->at < s->size) {
    s->out[s->at] = *b;
  }
  s->at++;
}

static void u64(struct stream *s, uint64_t *n) {
  uint64_t left = s->reading ? 0 : *n;
  for (unsigned shift = 0;; shift += 7) {
    unsigned char b = (unsigned char)((left & 127) | (left > 127 ? 128 : 0));
    byte(s, &b);
    if (s->reading) {
      if (shift == 63 && b > 1) s->failed = true;
      left |= shift < 64 ? (uint64_t)(b & 127) << shift : 0;
      if (b < 128 || s->failed) break;
    } else {
      left >>= 7;
      if (b < 128) return;
    }
  }
  *n = left;
}

static void i64(struct stream *s, int64_t *n) {
  uint64_t folded = ((uint64_t)*n << 1) ^ (*n < 0 ? UINT64_MAX : 0);
  u64(s, &folded);
  *n = (int64_t)((folded >> 1) ^ (0 - (folded & 1)));
}

static void u32(struct stream *s, uint32_t *n) {
  uint64_t wide = *n;
  u64(s, &wide);
  if (wide > UINT32_MAX) s->failed = true;
  *n = (uint32_t)wide;
}

static void u16(struct stream *s, uint16_t *n) {
  uint32_t wide = *n;
  u32(s, &wide);
  if (wide > UINT16_MAX) s->failed = true;
  *n = (uint16_t)wide;
}

static void flag(struct stream *s, bool *b) {
  unsigned char n = *b;
  byte(s, &n);
  if (n > 1) s->failed = true;
  *b = n == 1;
}

/* A hash has no small values: eight bytes as they are. */
static void hash(struct stream *s, uint64_t *n) {
  uint64_t read = 0;
  for (unsigned i = 0; i < 8; i++) {
    unsigned char b = (unsigned char)(*n >> (8 * i));
    byte(s, &b);
    read |= (uint64_t)b << (8 * i);
  }
  *n = read;
}

/* Finite and not negative: all floats here are counts or ratios. */
static void number(struct stream *s, float *f) {
  uint32_t bits;
  memcpy(&bits, f, sizeof bits);
  for (unsigned i = 0; i < 4; i++) {
    unsigned char b = (unsigned char)(bits >> (8 * i));
    byte(s, &b);
    bits = (bits & ~(255u << (8 * i))) | (uint32_t)b << (8 * i);
  }
  memcpy(f, &bits, sizeof bits);
  if (s->reading && !(*f >= 0.0f && *f < 1e30f)) s->failed = true;
}

static void wide_number(struct stream *s, wide *w) {
  u64(s, &w->low);
  i64(s, &w->high);
}

/*
 * The fields
 */

static void item_fields(struct stream *s, item *m) {
  uint32_t bits = m->role | (uint32_t)m->told << 3 | (uint32_t)m->stored << 4 |
                  (uint32_t)m->summary << 5 | (uint32_t)m->named << 6 | (uint32_t)m->family << 7;
  uint32_t since = m->since;
  i64(s, &m->guess);
  bool named = m->id != 0;
  flag(s, &named);
  if (named)
    hash(s, &m->id);
  else
    m->id = 0;
  u32(s, &m->record);
  u32(s, &m->call);
  u32(s, &bits);
  u32(s, &since);
  if (bits > 2047 || since > MAX_SINCE) s->failed = true;
  m->role = bits & 7;
  m->told = bits >> 3 & 1;
  m->stored = bits >> 4 & 1;
  m->summary = bits >> 5 & 1;
  m->named = bits >> 6 & 1;
  m->family = bits >> 7 & 15;
  m->since = since & MAX_SINCE;
  u16(s, &m->reasoning);
  byte(s, &m->calls);
  byte(s, &m->attachments);
}

static void record_fields(struct stream *s, record *r) {
  i64(s, &r->prompt);
  i64(s, &r->output);
  i64(s, &r->reasoning);
  hash(s, &r->model);
  i64(s, &r->told);
  i64(s, &r->guess);
  i64(s, &r->answer);
  i64(s, &r->measured);
  number(s, &r->turn);
  number(s, &r->stir);
  number(s, &r->ratio);
  u32(s, &r->at);
  u32(s, &r->base);
  u32(s, &r->previous);
  u32(s, &r->users);
  int64_t shift = r->shift;
  i64(s, &shift);
  if (shift < INT32_MIN || shift > INT32_MAX) s->failed = true;
  if (s->reading) r->shift = s->failed ? 0 : (int32_t)shift;
  u16(s, &r->dropped_error);
  u16(s, &r->resent_error);
  byte(s, &r->kind);
  byte(s, &r->fate);
  byte(s, &r->flags);
  byte(s, &r->tally);
}

static void call_fields(struct stream *s, call *k) {
  hash(s, &k->id);
  u32(s, &k->message);
  u32(s, &k->result);
}

static void tally_fields(struct stream *s, tally *t) {
  hash(s, &t->model);
  wide_number(s, &t->measured);
  wide_number(s, &t->estimated);
  i64(s, &t->windows);
  flag(s, &t->known);
  i64(s, &t->dropped_error);
  i64(s, &t->resent_error);
}

/* Everything but the arrays. */
static void state_fields(struct stream *s, cpt_conversation *c) {
  uint32_t family = c->family;
  flag(s, &c->seed);
  flag(s, &c->family_set);
  u32(s, &family);
  if (family >= CPT_FAMILIES) s->failed = true;
  if (s->reading) c->family = s->failed ? CPT_UNKNOWN : (cpt_family)family;
  i64(s, &c->limit);
  u64(s, &c->told);
  u64(s, &c->guess);
  u64(s, &c->shared);
  u64(s, &c->shared_guess);
  u32(s, &c->users);
  u32(s, &c->live);
  u32(s, &c->newest);
  u32(s, &c->marker);
  u32(s, &c->first_live);
  i64(s, &c->first_settled);
  i64(s, &c->first_guess);
  flag(s, &c->fixed_known);
  i64(s, &c->fixed);
  i64(s, &c->fixed_mass);
  u32(s, &c->kept_from);
  u32(s, &c->kept_end);
  i64(s, &c->kept_guess);
  u32(s, &c->folded_tally);
  hash(s, &c->model);
  u32(s, &c->model_mark);
  for (int fate = 0; fate < FATES; fate++)
    i64(s, &c->fates[fate]);
  i64(s, &c->placeholders);
}

static void array_fields(struct stream *s, cpt_conversation *c) {
  for (size_t i = 0; i < c->count && !s->failed; i++)
    item_fields(s, &c->items[i]);
  for (size_t i = 0; i < c->record_count && !s->failed; i++)
    record_fields(s, &c->records[i]);
  for (size_t i = 0; i < c->call_count && !s->failed; i++)
    call_fields(s, &c->calls[i]);
  for (size_t i = 0; i < c->tally_count && !s->failed; i++)
    tally_fields(s, &c->tallies[i]);
}

static uint64_t checksum(const unsigned char *bytes, size_t size) {
  uint64_t sum = 0xcbf29ce484222325u;
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ bytes[i]) * 0x100000001b3u;
  return sum;
}

size_t cpt_conversation_snapshot(const cpt_conversation *c, unsigned char *out, size_t size) {
  cpt_conversation *fields = (cpt_conversation *)(uintptr_t)c; /* only read: the stream writes */
  struct stream s = {.out = out, .size = out == NULL ? 0 : size};
  uint64_t counts[] = {VERSION, c->count, c->record_count, c->call_count, c->tally_count};
  for (size_t i = 0; i < sizeof magic; i++) {
    unsigned char b = magic[i];
    byte(&s, &b);
  }
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    u64(&s, &counts[i]);
  state_fields(&s, fields);
  array_fields(&s, fields);
  uint64_t sum = s.at <= s.size ? checksum(out, s.at) : 0;
  hash(&s, &sum);
  return s.at;
}

/*
 * Reading
 */

static bool link_within(uint32_t link, size_t count) { return link <= count; }

/* Does the link lead to an anchor among the first n records, or nowhere? */
static bool anchor_link(const cpt_conversation *c, uint32_t link, size_t n) {
  if (link == 0) return true;
  return link <= n && is_prompt(&c->records[link - 1]) &&
         c->records[link - 1].tally < c->tally_count;
}

/* Is there an anchor before it that is believed? */
static bool has_believed_base(const cpt_conversation *c, const record *r) {
  uint32_t link = r->previous;
  while (link != 0 && c->records[link - 1].flags & REFUSED)
    link = c->records[link - 1].previous;
  return link != 0;
}

static bool marker_link(const cpt_conversation *c, uint32_t link, size_t n) {
  return link == 0 || (link <= n && c->records[link - 1].kind == MARKER);
}

static bool item_is_sound(const cpt_conversation *c, size_t i) {
  const item *m = &c->items[i];
  if (!link_within(m->record, c->record_count) || !link_within(m->call, c->call_count))
    return false;
  if (m->told && m->record == 0) return false;
  if (m->record != 0 && c->records[m->record - 1].at != i) return false;
  if (m->call != 0 && c->calls[m->call - 1].result != i + 1) return false;
  return m->role <= CPT_TOOL && m->family < CPT_FAMILIES &&
         (m->since == MAX_SINCE || m->since <= i) && m->guess > 0;
}

static bool record_is_sound(const cpt_conversation *c, size_t k) {
  const record *r = &c->records[k];
  if (k > 0 && r->at < c->records[k - 1].at) return false;
  if (r->kind > MARKER || r->fate >= FATES || r->answer < 0) return false;
  if (r->kind == OBSERVED ? r->at > c->count : r->at >= c->count) return false;
  if (r->flags & (FREED_PREVIOUS | REFUSED_PREVIOUS) && r->previous == 0) return false;
  if (is_prompt(r) && r->tally >= c->tally_count) return false;
  /* Links go back: no chain is endless. */
  if (r->flags & NEW_MODEL && !is_prompt(r)) return false;
  if (!anchor_link(c, r->previous, k)) return false;
  if ((r->dropped_error > 0 || r->resent_error > 0) && !has_believed_base(c, r)) return false;
  if (r->kind == MARKER) return marker_link(c, r->base, k);
  return anchor_link(c, r->base, k) && r->base <= r->previous;
}

static bool call_is_sound(const cpt_conversation *c, size_t k) {
  const call *call = &c->calls[k];
  if (k > 0 && call->message < c->calls[k - 1].message) return false;
  if (call->message >= c->count || call->result > c->count) return false;
  return call->result == 0 ||
         (call->result - 1 > call->message && c->items[call->result - 1].call == k + 1);
}

static bool is_sound(const cpt_conversation *c) {
  if (c->tally_count > MAX_TALLIES || c->kept_from > c->count || c->kept_end > c->count)
    return false;
  if (!link_within(c->folded_tally, c->tally_count)) return false;
  size_t n = c->record_count;
  if (!anchor_link(c, c->live, n) || !anchor_link(c, c->newest, n)) return false;
  if (c->live > c->newest) return false;
  if (!anchor_link(c, c->first_live, n) || !marker_link(c, c->marker, n)) return false;
  for (size_t k = 0; k < n; k++) {
    if (!record_is_sound(c, k)) return false;
  }
  for (size_t k = 0; k < c->tally_count; k++) { /* a scale is never negative */
    if (c->tallies[k].measured.high < 0 || c->tallies[k].estimated.high < 0) return false;
  }
  for (size_t i = 0; i < c->count; i++) {
    if (!item_is_sound(c, i)) return false;
  }
  for (size_t k = 0; k < c->call_count; k++) {
    if (!call_is_sound(c, k)) return false;
  }
  return true;
}

/* Each element takes more than one byte: a count beyond the bytes is a lie that would cost memory.
 */
static bool counts_fit(const uint64_t *counts, size_t size) {
  uint64_t all = 0;
  for (int i = 0; i < 4; i++) {
    if (counts[i] > size || counts[i] > MAX_COUNT) return false;
    all += counts[i];
  }
  return all <= size;
}

static void clear(void *array, size_t bytes) {
  if (bytes > 0) memset(array, 0, bytes);
}

static const char *read_all(cpt_conversation *c, struct stream *s) {
  uint64_t counts[4];
  for (int i = 0; i < 4; i++)
    u64(s, &counts[i]);
  state_fields(s, c);
  if (s->failed || !counts_fit(counts, s->size - s->at)) return "the snapshot is damaged";
  if (counts[3] > MAX_TALLIES) return "the snapshot is damaged";
  if (!reserve_room(c, (size_t)counts[0], (size_t)counts[1], (size_t)counts[2])) return NULL;
  if (c->tally_capacity < counts[3]) {
    if (!reserve_room(c, 0, (size_t)counts[3], 0)) return NULL;
  }
  c->count = (size_t)counts[0];
  c->record_count = (size_t)counts[1];
  c->call_count = (size_t)counts[2];
  c->tally_count = (size_t)counts[3];
  /* Fields are written over what is there, and a bool must be one before that. */
  clear(c->items, c->count * sizeof *c->items);
  clear(c->records, c->record_count * sizeof *c->records);
  clear(c->calls, c->call_count * sizeof *c->calls);
  clear(c->tallies, c->tally_count * sizeof *c->tallies);
  array_fields(s, c);
  bool whole = !s->failed && s->at == s->size;
  return whole && is_sound(c) ? "" : "the snapshot is damaged";
}

cpt_conversation *cpt_conversation_restore(cpt_alloc alloc, void *ud, const unsigned char *bytes,
                                           size_t size, const char **reason) {
  struct stream s = {.reading = true, .in = bytes, .size = size};
  uint64_t version;
  if (size < sizeof magic || memcmp(bytes, magic, sizeof magic) != 0) {
    *reason = "not a snapshot of a conversation";
    return NULL;
  }
  s.at = sizeof magic;
  u64(&s, &version);
  if (!s.failed && version != VERSION) {
    *reason = "the snapshot is of another version";
    return NULL;
  }
  *reason = "the snapshot is damaged";
  if (size < s.at + CHECKSUM_BYTES) return NULL;
  struct stream tail = {.reading = true, .in = bytes, .size = size, .at = size - CHECKSUM_BYTES};
  uint64_t sum = 0;
  hash(&tail, &sum);
  s.size = size - CHECKSUM_BYTES;
  if (s.failed || sum != checksum(bytes, s.size)) return NULL;
  cpt_conversation *c = cpt_conversation_new(alloc, ud, CPT_AUTO);
  *reason = c == NULL ? NULL : read_all(c, &s);
  if (*reason != NULL && **reason == '\0') return c;
  cpt_conversation_free(c);
  return NULL;
}
