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

#endif
