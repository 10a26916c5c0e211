/* libFuzzer: snapshots forged with a right checksum. They may be refused or give a wrong
 * conversation, but nothing that is done with it may break. */
#include <stdlib.h>
#include <string.h>

#include "compaction.h"

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  (void)ud;
  (void)old;
  if (size == 0) {
    free(block);
    return NULL;
  }
  return realloc(block, size);
}

static void use(cpt_conversation *c) {
  bool anchored;
  size_t n = cpt_conversation_count(c), at;
  cpt_entry e = {.message = {.bytes = 100, .role = CPT_USER}};
  cpt_conversation_used(c, &anchored);
  cpt_conversation_breakdown(c);
  cpt_conversation_learned(c);
  cpt_conversation_estimate(c, 0, n);
  cpt_conversation_keep_from(c, 1000);
  cpt_conversation_split_index_for_keep(c, 1000);
  cpt_conversation_pending(c);
  for (size_t i = 0; i <= n && i < 50; i++)
    cpt_conversation_can_cut(c, i);
  if (n > 0) cpt_conversation_set(c, n / 2, &e);
  e.message.prompt = 700;
  e.message.role = CPT_ASSISTANT;
  cpt_conversation_append(c, &e, 1);
  n = cpt_conversation_count(c);
  if (n > 3 && cpt_conversation_can_cut(c, n) && cpt_conversation_front(c) < n)
    cpt_conversation_replace(c, n, &e, (cpt_request){CPT_NO_REQUEST, 0, NULL}, &at);
  cpt_conversation_truncate(c, cpt_conversation_count(c) / 2);
  cpt_conversation_truncate(c, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  size_t whole = size + 8;
  unsigned char *bytes = malloc(whole);
  const char *reason;
  uint64_t sum = 0xcbf29ce484222325u;
  if (size > 0) memcpy(bytes, data, size);
  for (size_t i = 0; i < size; i++)
    sum = (sum ^ bytes[i]) * 0x100000001b3u;
  for (int i = 0; i < 8; i++)
    bytes[size + (size_t)i] = (unsigned char)(sum >> (8 * i));
  cpt_conversation *c = cpt_conversation_restore(allocate, NULL, bytes, whole, &reason);
  if (c != NULL) use(c);
  cpt_conversation_free(c);
  free(bytes);
  return 0;
}
