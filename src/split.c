/* Whether to compact, and where the kept part begins. */
#include "compaction.h"
#include "saturate.h"

bool cpt_should_compact(int64_t input, int64_t output, int64_t added, int64_t limit,
                        double threshold) {
  if (limit <= 0) return false; /* no limit known */
  if (!(threshold > 0.0 && threshold <= 1.0)) threshold = CPT_DEFAULT_THRESHOLD;
  int64_t used = sat_add(sat_add(input, output), added);
  return used > sat_trunc((double)limit * threshold);
}

/* Providers refuse a conversation that starts on a tool result. */
static bool starts_turn(const cpt_message *m) {
  return m->role == CPT_USER || m->role == CPT_ASSISTANT;
}

/* Walk back until the budget is spent. *first becomes the earliest index passed that starts
 * a turn, n if none does. Did everything fit? */
static bool walk_back(const cpt_message *m, size_t n, int64_t budget, size_t *first) {
  double scale = cpt_calibrate(m, n);
  int64_t sum = 0;
  *first = n;
  for (size_t i = n; i-- > 0;) {
    sum = sat_add(sum, cpt_estimate(&m[i], scale));
    if (sum > budget) return false;
    if (starts_turn(&m[i])) *first = i;
  }
  return true;
}

size_t cpt_split_index_for_keep(const cpt_message *m, size_t n, int64_t max_tokens) {
  size_t first;
  return walk_back(m, n, max_tokens, &first) ? n : first;
}

size_t cpt_first_index_in_budget(const cpt_message *m, size_t n, int64_t limit) {
  size_t first;
  walk_back(m, n, limit, &first);
  return first;
}
