/* A C host without Lua: includes the header, links libcompaction.a and nothing else. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compaction.h"

static cpt_message text(cpt_role role, size_t bytes) {
  static char letters[100000];
  cpt_message m;
  cpt_message_init(&m, role);
  cpt_add_text(&m, letters, bytes);
  return m;
}

static cpt_message anchor(int64_t prompt, int64_t output, const char *model) {
  cpt_message m = text(CPT_ASSISTANT, 0);
  cpt_set_usage(&m, &(cpt_usage){.input_tokens = prompt, .output_tokens = output});
  cpt_set_model(&m, model, strlen(model));
  return m;
}

static void a_digest_is_small_and_comparable(void **state) {
  (void)state;
  assert_true(sizeof(cpt_message) <= 80);
  cpt_message a = text(CPT_USER, 10), b;
  memset(&b, 0xff, sizeof b);
  b = text(CPT_USER, 10);
  assert_memory_equal(&a, &b, sizeof a);
}

static void roles_are_known_by_their_whole_name(void **state) {
  (void)state;
  assert_int_equal(cpt_role_of("user", 4), CPT_USER);
  assert_int_equal(cpt_role_of("tool", 4), CPT_TOOL);
  assert_int_equal(cpt_role_of("system", 6), CPT_SYSTEM);
  assert_int_equal(cpt_role_of("assistant", 9), CPT_ASSISTANT);
  assert_int_equal(cpt_role_of("developer", 9), CPT_DEVELOPER);
  const char *others[] = {"", "use", "users", "User", "model", "function", "assistent", "sys\0em"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    assert_int_equal(cpt_role_of(others[i], i == 7 ? 6 : strlen(others[i])), CPT_OTHER);
}

static void the_heuristic_counts_bytes_attachments_and_an_envelope(void **state) {
  (void)state;
  cpt_message m = text(CPT_USER, 0);
  assert_int_equal(cpt_heuristic(&m), 5);
  m = text(CPT_USER, 7);
  assert_int_equal(cpt_heuristic(&m), 7);
  m = text(CPT_USER, 10); /* 2.857 */
  assert_int_equal(cpt_heuristic(&m), 7);
  cpt_add_reasoning(&m, "abcd", 4);
  assert_int_equal(cpt_heuristic(&m), 9);
  cpt_add_attachment(&m);
  assert_int_equal(cpt_heuristic(&m), 1509);
}

static void reported_sizes_leave_out_reasoning_that_is_not_stored(void **state) {
  (void)state;
  cpt_message m = text(CPT_ASSISTANT, 100);
  cpt_set_usage(&m, &(cpt_usage){.output_tokens = 50, .reasoning_tokens = 20});
  assert_int_equal(cpt_reported(&m), 35);
  cpt_add_reasoning(&m, "", 0);
  assert_int_equal(cpt_reported(&m), 35);
  cpt_add_reasoning(&m, "why", 3);
  assert_int_equal(cpt_reported(&m), 55);
  assert_int_equal(cpt_estimate(&m, 2.0), 55); /* never scaled */
  cpt_set_usage(&m, &(cpt_usage){.output_tokens = 0});
  assert_int_equal(cpt_reported(&m), 0);
  assert_int_equal(cpt_estimate(&m, 2.0), 2 * (29 + 5));
}

static void models_are_told_apart_by_name(void **state) {
  (void)state;
  cpt_message a = text(CPT_USER, 0), b = a;
  cpt_set_model(&a, "anthropic/claude-sonnet-4.5", 27);
  cpt_set_model(&b, "anthropic/claude-sonnet-4.6", 27);
  assert_true(a.model != b.model);
  cpt_set_model(&b, "anthropic/claude-sonnet-4.", 26);
  assert_true(a.model != b.model);
  cpt_set_model(&b, "anthropic/claude-sonnet-4.5", 27);
  assert_true(a.model == b.model);
  cpt_set_model(&b, "", 0);
  assert_true(b.model == 0);
  for (size_t n = 1; n < 19; n++) { /* runs of zero bytes are names too */
    static const char zeros[19];
    assert_true(cpt_id(zeros, n) != 0);
    assert_true(cpt_id(zeros, n) != cpt_id(zeros, n + 1));
  }
}

/* Names that differ anywhere are told apart; sums that would wrap are exact at the ends. */
static void names_differ_in_any_byte(void **state) {
  (void)state;
  static const char base[] = "abcdefghijklmnopqrstu";
  for (size_t n = 1; n <= 21; n++) {
    uint64_t id = cpt_id(base, n);
    assert_true(id != cpt_id(base, n - 1));
    for (size_t i = 0; i < n; i++) {
      char other[21];
      memcpy(other, base, n);
      other[i] = '!';
      assert_true(id != cpt_id(other, n));
      if (i + 1 == n) continue;
      other[i] = base[i + 1];
      other[i + 1] = base[i];
      assert_true(id != cpt_id(other, n));
    }
  }
}

static void sums_are_exact_up_to_the_ends(void **state) {
  (void)state;
  cpt_message m = text(CPT_USER, 0);
  m.attachments = UINT32_MAX;
  assert_true(cpt_heuristic(&m) == (int64_t)UINT32_MAX * 1500 + 5);
  assert_true(cpt_estimate(&m, (double)NAN) == INT64_MAX);
  assert_true(cpt_estimate(&m, -1e300) == INT64_MIN);
  cpt_message half = text(CPT_USER, 0);
  cpt_set_usage(&half, &(cpt_usage){.output_tokens = INT64_MAX / 2 + 1});
  cpt_message halves[3] = {half, half, half};
  assert_int_equal(cpt_split_index_for_keep(halves, 3, INT64_MAX / 2 + 100), 2);
  assert_int_equal(cpt_split_index_for_keep(halves, 3, INT64_MAX - 1), 2);
  assert_true(cpt_should_compact(INT64_MAX, 1, 0, INT64_MAX / 2, 1));
  assert_false(cpt_should_compact(INT64_MIN, -1, 0, 10, 1));
  /* a window whose reported part is larger than any prompt */
  cpt_message told = text(CPT_TOOL, 0), guess = text(CPT_TOOL, 3500);
  cpt_set_usage(&told, &(cpt_usage){.output_tokens = INT64_MAX - 10});
  cpt_message window[4] = {anchor(INT64_MAX - 5, 100, "m"), told, guess, anchor(1000, 1, "m")};
  assert_true(cpt_calibrate(window, 4) == 1.0);
  /* and windows whose guesses add up beyond any count */
  cpt_message huge = text(CPT_TOOL, 0);
  huge.bytes = INT64_MAX;
  cpt_message list[12];
  for (int i = 0; i < 12; i++)
    list[i] = i % 2 ? huge : anchor(1000 * (i + 1), 1, "m");
  assert_true(cpt_calibrate(list, 12) == 0.75);
}

static void the_scale_is_learned_between_anchors(void **state) {
  (void)state;
  cpt_message m[4] = {anchor(1000, 100, "m"), text(CPT_TOOL, 3500), anchor(2608, 10, "m"),
                      text(CPT_USER, 3500)};
  assert_true(cpt_calibrate(m, 4) == 1508.0 / 1005.0);
  cpt_calibration c;
  cpt_calibration_init(&c);
  for (size_t i = 0; i < 3; i++)
    cpt_calibration_add(&c, &m[i]);
  assert_int_equal(c.windows, 1);
  m[2] = anchor(2608, 10, "other");
  assert_true(cpt_calibrate(m, 4) == 1.0);
}

static void sums_stop_at_the_ends(void **state) {
  (void)state;
  cpt_message m = text(CPT_USER, 5);
  m.bytes = INT64_MAX;
  cpt_add_text(&m, NULL, SIZE_MAX);
  assert_true(m.bytes == INT64_MAX);
  m.attachments = UINT32_MAX;
  cpt_add_attachment(&m);
  assert_true(m.attachments == UINT32_MAX);
  assert_true(cpt_heuristic(&m) > 0);
  assert_true(cpt_estimate(&m, 1e300) == INT64_MAX);
  cpt_set_usage(&m, &(cpt_usage){.input_tokens = INT64_MAX,
                                 .cached_input_tokens = INT64_MAX,
                                 .cached_write_tokens = 7,
                                 .output_tokens = INT64_MAX,
                                 .reasoning_tokens = INT64_MIN});
  assert_true(m.prompt == INT64_MAX);
  assert_true(cpt_reported(&m) == INT64_MAX);
  cpt_message many[3] = {m, m, m};
  assert_true(cpt_calibrate(many, 3) == 1.0);
  assert_int_equal(cpt_split_index_for_keep(many, 3, 100), 3);
  assert_int_equal(cpt_split_index_for_keep(many, 3, INT64_MAX), 3);
  assert_int_equal(cpt_first_index_in_budget(many, 3, INT64_MAX), 0);
  cpt_set_usage(&m, &(cpt_usage){.input_tokens = INT64_MIN,
                                 .cached_input_tokens = INT64_MIN,
                                 .output_tokens = INT64_MIN,
                                 .reasoning_tokens = INT64_MAX});
  assert_false(cpt_is_anchor(&m));
  assert_true(cpt_reported(&m) == 0);
  assert_true(cpt_should_compact(INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 0.5));
  assert_false(cpt_should_compact(INT64_MIN, INT64_MIN, INT64_MIN, 10, 0.5));
}

static void an_empty_conversation_has_nothing_to_keep(void **state) {
  (void)state;
  assert_int_equal(cpt_split_index_for_keep(NULL, 0, 100), 0);
  assert_int_equal(cpt_first_index_in_budget(NULL, 0, 100), 0);
  assert_true(cpt_calibrate(NULL, 0) == 1.0);
}

static void prompts_end_with_nul(void **state) {
  (void)state;
  assert_int_equal(strlen(cpt_system_prompt), cpt_system_prompt_bytes);
  assert_int_equal(strlen(cpt_user_prompt), cpt_user_prompt_bytes);
  assert_true(cpt_system_prompt_bytes > 500 && cpt_user_prompt_bytes > 500);
}

int main(void) {
  const struct CMUnitTest specs[] = {
      cmocka_unit_test(a_digest_is_small_and_comparable),
      cmocka_unit_test(roles_are_known_by_their_whole_name),
      cmocka_unit_test(the_heuristic_counts_bytes_attachments_and_an_envelope),
      cmocka_unit_test(reported_sizes_leave_out_reasoning_that_is_not_stored),
      cmocka_unit_test(models_are_told_apart_by_name),
      cmocka_unit_test(names_differ_in_any_byte),
      cmocka_unit_test(sums_are_exact_up_to_the_ends),
      cmocka_unit_test(the_scale_is_learned_between_anchors),
      cmocka_unit_test(sums_stop_at_the_ends),
      cmocka_unit_test(an_empty_conversation_has_nothing_to_keep),
      cmocka_unit_test(prompts_end_with_nul),
  };
  return cmocka_run_group_tests_name("core", specs, NULL, NULL);
}
