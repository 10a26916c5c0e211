/* A message digested to what it costs. */
#include "compaction.h"

#include <string.h>

#include "saturate.h"

static bool is(const char *name, size_t bytes, const char *role) {
  return memcmp(name, role, bytes) == 0;
}

cpt_role cpt_role_of(const char *name, size_t bytes) {
  switch (bytes) {
  case 4:
    if (is(name, bytes, "user")) return CPT_USER;
    if (is(name, bytes, "tool")) return CPT_TOOL;
    break;
  case 6:
    if (is(name, bytes, "system")) return CPT_SYSTEM;
    break;
  case 9:
    if (is(name, bytes, "assistant")) return CPT_ASSISTANT;
    if (is(name, bytes, "developer")) return CPT_DEVELOPER;
    break;
  }
  return CPT_OTHER;
}

void cpt_message_init(cpt_message *m, cpt_role role) {
  memset(m, 0, sizeof *m); /* every byte: digests may be compared as memory */
  m->role = (uint8_t)role;
}

void cpt_add_text(cpt_message *m, const char *text, size_t bytes) {
  int64_t count = bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes;
  if (!m->weighs) {
    m->bytes = sat_add(m->bytes, count);
    return;
  }
  cpt_weight w;
  cpt_weight_init(&w, (cpt_family)m->family);
  cpt_weight_add(&w, text, bytes);
  cpt_add_weighed(m, count, cpt_weight_hundredths(&w, 0), cpt_weight_hundredths(&w, 1));
}

void cpt_add_weighed(cpt_message *m, int64_t bytes, int64_t weight, int64_t other) {
  m->bytes = sat_add(m->bytes, bytes);
  m->weight[0] = sat_add(m->weight[0], weight);
  m->weight[1] = sat_add(m->weight[1], other);
}

void cpt_message_weigh(cpt_message *m, cpt_family family) {
  m->family = (uint8_t)family;
  m->weighs = 1;
}

void cpt_add_reasoning(cpt_message *m, const char *text, size_t bytes) {
  int64_t before = m->bytes;
  cpt_add_text(m, text, bytes);
  m->reasoning_bytes += m->bytes - before; /* what the sum took in: no overflow */
}

void cpt_add_call_text(cpt_message *m, const char *text, size_t bytes) {
  int64_t before = m->bytes;
  cpt_add_text(m, text, bytes);
  m->call_bytes += m->bytes - before;
}

void cpt_add_attachment(cpt_message *m) {
  if (m->attachments < UINT32_MAX) m->attachments++;
}

/* Eight bytes as one number, the same on every machine. One load where bytes lie that way. */
static uint64_t word(const unsigned char *p) {
  return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 |
         (uint64_t)p[4] << 32 | (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

static uint64_t mix(uint64_t hash, uint64_t next) {
  hash = (hash ^ next) * 0x9e3779b97f4a7c15u;
  return hash ^ hash >> 32;
}

uint64_t cpt_id(const char *id, size_t bytes) {
  const unsigned char *p = (const unsigned char *)id;
  uint64_t hash = bytes;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8)
    hash = mix(hash, word(p + i));
  for (; i < bytes; i++)
    hash = mix(hash, p[i]);
  return bytes > 0 && hash == 0 ? 1 : hash; /* 0 says "no name" */
}

void cpt_set_model(cpt_message *m, const char *name, size_t bytes) {
  m->model = cpt_id(name, bytes);
}

void cpt_set_usage(cpt_message *m, const cpt_usage *usage) {
  m->prompt =
      sat_add(sat_add(usage->input_tokens, usage->cached_input_tokens), usage->cached_write_tokens);
  m->output = usage->output_tokens;
  m->reasoning = usage->reasoning_tokens;
}

bool cpt_is_anchor(const cpt_message *m) { return m->prompt > 0; }
