/*
 * A tokenizer's answer without a tokenizer: the sum over a text of a weight for each pair of
 * neighbouring bytes, from a table fitted to the tokenizer (src/tables/).
 */
#include "text.h"

#include <string.h>

#include "compaction.h"
#include "saturate.h"

static const uint8_t *const tables[] = {
    [CPT_OPENAI] = text_table_openai,     [CPT_OPENAI_LEGACY] = text_table_openai_legacy,
    [CPT_CLAUDE_4] = text_table_claude_4, [CPT_CLAUDE_5] = text_table_claude_5,
    [CPT_GEMINI] = text_table_gemini,     [CPT_DEEPSEEK] = text_table_deepseek,
    [CPT_LLAMA] = text_table_llama,       [CPT_QWEN] = text_table_qwen,
};

/* The pair at p as an index: previous byte low, current byte high, on every machine. */
static inline unsigned pair(const unsigned char *p) { return (unsigned)p[0] | (unsigned)p[1] << 8; }

/* Four sums at once keep the loads independent of each other. They cannot wrap: 2^32 / 255
 * steps are more than a block has. */
#define BLOCK 4096

static uint64_t sum_pairs(const uint8_t *table, const unsigned char *p, size_t pairs) {
  uint64_t sum = 0;
  while (pairs > 0) {
    size_t block = pairs < BLOCK ? pairs : BLOCK, i = 0;
    uint32_t a = 0, b = 0, c = 0, d = 0;
    for (; i + 4 <= block; i += 4) {
      a += table[pair(p + i)];
      b += table[pair(p + i + 1)];
      c += table[pair(p + i + 2)];
      d += table[pair(p + i + 3)];
    }
    for (; i < block; i++)
      a += table[pair(p + i)];
    sum += (uint64_t)a + b + c + d;
    p += block;
    pairs -= block;
  }
  return sum;
}

/* The weight of bytes that follow `previous`. */
static uint64_t weigh(const uint8_t *table, unsigned char previous, const unsigned char *p,
                      size_t bytes) {
  if (bytes == 0) return 0;
  return table[(unsigned)previous | (unsigned)p[0] << 8] + sum_pairs(table, p, bytes - 1);
}

void cpt_weight_init(cpt_weight *w, cpt_family family) {
  memset(w, 0, sizeof *w);
  w->family = family;
  w->previous = '\n';
}

void cpt_weight_add(cpt_weight *w, const char *text, size_t bytes) {
  const unsigned char *p = (const unsigned char *)text;
  if (bytes == 0) return;
  if (w->family == CPT_UNKNOWN) {
    w->sum[0] += weigh(tables[CPT_OPENAI], w->previous, p, bytes);
    w->sum[1] += weigh(tables[CPT_CLAUDE_4], w->previous, p, bytes);
  } else {
    w->sum[0] += weigh(tables[w->family], w->previous, p, bytes);
  }
  w->bytes += bytes;
  w->previous = p[bytes - 1];
}

/* Hundredths of a token: at most a token a byte, at least one token for any text. */
static uint64_t held(uint64_t sum, uint64_t bytes) {
  if (bytes == 0) return 0;
  if (sum < 100) return 100;
  return sum < 100 * bytes ? sum : 100 * bytes;
}

int64_t cpt_weight_hundredths(const cpt_weight *w, int which) {
  return (int64_t)held(w->sum[which], w->bytes);
}

int64_t cpt_text_tokens(const char *text, size_t bytes, cpt_family family) {
  cpt_weight w;
  cpt_weight_init(&w, family);
  cpt_weight_add(&w, text, bytes);
  int64_t a = cpt_weight_hundredths(&w, 0);
  int64_t b = family == CPT_UNKNOWN ? cpt_weight_hundredths(&w, 1) : 0;
  return ((a > b ? a : b) + 50) / 100;
}
