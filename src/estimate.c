/* Tokens of one message: the provider's count where there is one, else a rule of thumb. */
#include "estimate.h"
#include "compaction.h"
#include "saturate.h"

/* English text has 4 to 4.5 bytes a token, code and JSON nearer 3. On the low side, so that
 * compaction comes early rather than late. */
#define BYTES_PER_TOKEN 3.5

int64_t cpt_heuristic(const cpt_message *m) {
  int64_t text = sat_trunc((double)m->bytes / BYTES_PER_TOKEN);
  int64_t attachments = (int64_t)m->attachments * ATTACHMENT_TOKENS; /* < 2^43 */
  return sat_add(text, attachments + ENVELOPE_TOKENS);
}

int64_t cpt_reported(const cpt_message *m) {
  int64_t size = m->reasoning_bytes > 0 ? m->output : sat_sub(m->output, m->reasoning);
  return size > 0 ? sat_add(size, ENVELOPE_TOKENS) : 0;
}

int64_t cpt_estimate(const cpt_message *m, double scale) {
  int64_t reported = cpt_reported(m);
  if (reported > 0) return reported;
  return sat_trunc((double)cpt_heuristic(m) * scale);
}
