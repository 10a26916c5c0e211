/* Tokens of one message: the provider's count where there is one, else a rule of thumb. */
#include "estimate.h"
#include "compaction.h"
#include "saturate.h"

/* English text has 4 to 4.5 bytes a token, code and JSON nearer 3. On the low side, so that
 * compaction comes early rather than late. */
#define BYTES_PER_TOKEN 3.5

/* Here and not behind a call: it is most of the work on a list of digests. */
static inline int64_t rule_of_thumb(const cpt_message *m) {
  int64_t text = sat_trunc((double)m->bytes / BYTES_PER_TOKEN);
  int64_t attachments = (int64_t)m->attachments * ATTACHMENT_TOKENS; /* < 2^43 */
  return sat_add(text, attachments + ENVELOPE_TOKENS);
}

int64_t cpt_heuristic(const cpt_message *m) { return rule_of_thumb(m); }

/* What providers wrap around a tool result and around any other message, by family: measured on
 * the usage that they reported. */
static const struct {
  uint8_t tool, other;
} envelopes[CPT_FAMILIES] = {
    [CPT_UNKNOWN] = {12, 5},  [CPT_OPENAI] = {10, 5},   [CPT_OPENAI_LEGACY] = {10, 5},
    [CPT_CLAUDE_4] = {14, 5}, [CPT_CLAUDE_5] = {14, 5}, [CPT_GEMINI] = {10, 5},
    [CPT_DEEPSEEK] = {13, 5}, [CPT_LLAMA] = {9, 5},     [CPT_QWEN] = {9, 5},
};

int64_t cpt_guess(const cpt_message *m) {
  if (!m->weighs) return rule_of_thumb(m);
  int64_t weight = m->weight[0] > m->weight[1] ? m->weight[0] : m->weight[1];
  int64_t attachments = (int64_t)m->attachments * ATTACHMENT_TOKENS; /* < 2^43 */
  int64_t envelope = m->role == CPT_TOOL ? envelopes[m->family].tool : envelopes[m->family].other;
  return sat_add(weight / 100 + (weight % 100 + 50) / 100, attachments + envelope);
}

int64_t cpt_reported(const cpt_message *m) {
  int64_t size = m->reasoning_bytes > 0 ? m->output : sat_sub(m->output, m->reasoning);
  return size > 0 ? sat_add(size, ENVELOPE_TOKENS) : 0;
}

int64_t cpt_estimate(const cpt_message *m, double scale) {
  int64_t reported = cpt_reported(m);
  if (reported > 0) return reported;
  return sat_trunc((double)cpt_guess(m) * scale);
}
