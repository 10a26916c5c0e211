/* Arithmetic on counts that strangers report: it stops at the ends instead of overflowing. */
#ifndef CPT_SATURATE_H
#define CPT_SATURATE_H

#include <stdint.h>

static inline int64_t sat_add(int64_t a, int64_t b) {
  if (b > 0 && a > INT64_MAX - b) return INT64_MAX;
  if (b < 0 && a < INT64_MIN - b) return INT64_MIN;
  return a + b;
}

static inline int64_t sat_sub(int64_t a, int64_t b) {
  if (b < 0 && a > INT64_MAX + b) return INT64_MAX;
  if (b > 0 && a < INT64_MIN + b) return INT64_MIN;
  return a - b;
}

/* Cut the fraction off. NaN, which no caller should have, becomes the largest count: too
 * large compacts early, too small overflows. */
static inline int64_t sat_trunc(double d) {
  if (!(d < 9223372036854775808.0)) return INT64_MAX;
  if (d < -9223372036854775808.0) return INT64_MIN;
  return (int64_t)d;
}

/* A sum of counts that is also taken back: exact whatever comes between, since it has twice
 * their width. */
typedef struct wide {
  uint64_t low;
  int64_t high;
} wide;

static inline void wide_add(wide *w, int64_t n) {
  uint64_t low = w->low + (uint64_t)n;
  w->high += (n < 0 ? -1 : 0) + (low < w->low ? 1 : 0);
  w->low = low;
}

static inline void wide_sub(wide *w, int64_t n) {
  uint64_t low = w->low - (uint64_t)n;
  w->high -= (n < 0 ? -1 : 0) + (low > w->low ? 1 : 0);
  w->low = low;
}

/* The sum, held to the ends. */
static inline int64_t wide_get(wide w) {
  if (w.high > 0 || (w.high == 0 && w.low > INT64_MAX)) return INT64_MAX;
  if (w.high < -1 || (w.high == -1 && w.low < (uint64_t)INT64_MIN)) return INT64_MIN;
  return (int64_t)w.low;
}

#endif
