/* The core alone, on digests: what is left when Lua's tables are read; and its memory. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "compaction.h"

static size_t held;

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  (void)ud;
  held += size - (block != NULL ? old : 0);
  if (size > 0) return realloc(block, size);
  free(block);
  return NULL;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* A third assistant messages with usage and a call, as the Lua benchmarks have. */
static cpt_entry message(size_t i, int64_t *prompt) {
  static const uint64_t id = 7;
  const cpt_role roles[] = {CPT_ASSISTANT, CPT_TOOL, CPT_USER};
  const int64_t bytes[] = {450, 1800, 300};
  cpt_entry e = {.answers = i % 3 == 1 ? id : 0};
  cpt_message_init(&e.message, roles[i % 3]);
  e.message.bytes = bytes[i % 3];
  if (i % 3 == 0) {
    cpt_set_usage(&e.message, &(cpt_usage){.input_tokens = *prompt, .output_tokens = 150});
    cpt_set_model(&e.message, "m", 1);
    e.calls = &id;
    e.call_count = 1;
    *prompt += 150 + 2100 / 3;
  }
  return e;
}

int main(void) {
  enum { N = 10000, ROUNDS = 200 };
  static cpt_message m[N];
  int64_t prompt = 6000;
  double best = 1e9;
  size_t index = 0;
  for (size_t i = 0; i < N; i++)
    m[i] = message(i, &prompt).message;
  for (int round = 0; round < ROUNDS; round++) {
    double started = now();
    index += cpt_split_index_for_keep(m, N, 20000); /* calibrates over all, then walks */
    double took = now() - started;
    if (took < best) best = took;
  }
  printf("\nC core: calibrate and split over %d digests: %.1f ns per message (%zu)\n", N,
         best / N * 1e9, index % 7);

  puts("memory of a conversation, a third anchors, a third with one call:");
  for (size_t n = 1000; n <= 1000000; n *= 10) {
    held = 0;
    prompt = 6000;
    cpt_conversation *c = cpt_conversation_new(allocate, NULL, CPT_AUTO);
    size_t most = 0;
    for (size_t i = 0; i < n; i++) {
      cpt_entry e = message(i, &prompt);
      if (!cpt_conversation_append(c, &e, 1)) return 1;
      size_t each = held / (i + 1);
      if (i >= 1000 && each > most) most = each;
    }
    printf("  %8zu messages: %zu bytes a message, slack included; at most %zu on the way\n", n,
           held / n, most);
    cpt_conversation_free(c);
  }
  return 0;
}
