/* The text estimator beside the bare table loop and memcpy, on 64 MB of mixed text. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "compaction.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* What the estimator cannot be faster than: four sums, unaligned loads, one look-up a byte. */
static uint64_t bare_loop(const uint8_t *table, const unsigned char *p, size_t pairs) {
  uint64_t a = 0, b = 0, c = 0, d = 0;
  for (size_t i = 0; i + 4 <= pairs; i += 4) {
    uint16_t w, x, y, z;
    memcpy(&w, p + i, 2);
    memcpy(&x, p + i + 1, 2);
    memcpy(&y, p + i + 2, 2);
    memcpy(&z, p + i + 3, 2);
    a += table[w];
    b += table[x];
    c += table[y];
    d += table[z];
  }
  return a + b + c + d;
}

static unsigned char *mixed_text(size_t bytes) {
  static const char *const files[] = {"README.md", "src/conversation.c", "spec/seed_spec.lua",
                                      "doc/examples/session.json", "prompts/compaction-system.txt"};
  unsigned char *text = malloc(bytes);
  size_t filled = 0;
  for (size_t i = 0; filled < bytes; i = (i + 1) % (sizeof files / sizeof *files)) {
    FILE *file = fopen(files[i], "rb");
    if (file == NULL) exit(1);
    filled += fread(text + filled, 1, bytes - filled, file);
    fclose(file);
  }
  return text;
}

int main(void) {
  const size_t bytes = (size_t)64 << 20;
  unsigned char *text = mixed_text(bytes), *to = malloc(bytes);
  uint8_t *table = malloc(65536);
  FILE *file = fopen("src/tables/o200k.u8", "rb");
  if (file == NULL || fread(table, 1, 65536, file) != 65536) return 1;
  fclose(file);
  double best[3] = {1e9, 1e9, 1e9};
  uint64_t kept = 0;
  for (int round = 0; round < 9; round++) {
    double t0 = now();
    kept += (uint64_t)cpt_text_tokens((const char *)text, bytes, CPT_OPENAI);
    double t1 = now();
    kept += bare_loop(table, text, bytes - 1);
    double t2 = now();
    memcpy(to, text, bytes);
    kept += to[bytes / 2];
    double t3 = now();
    double took[3] = {t1 - t0, t2 - t1, t3 - t2};
    for (int i = 0; i < 3; i++)
      best[i] = took[i] < best[i] ? took[i] : best[i];
  }
  double gb = (double)bytes / 1e9;
  printf("\ntext estimator, 64 MB: %.2f GB/s; %.2f x of the bare loop (%.2f GB/s), %.2f x of "
         "memcpy (%zu)\n",
         gb / best[0], best[1] / best[0], gb / best[1], best[2] / best[0], (size_t)(kept % 7));
  free(text);
  free(to);
  free(table);
  return 0;
}
