/* cpt_conversation_* from C alone, and with memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compaction.h"

struct memory {
  size_t used;
  long calls, fail_at; /* the allocation from which on none succeeds; 0: all do */
};

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  struct memory *memory = ud;
  if (size == 0) {
    free(block);
    memory->used -= old;
    return NULL;
  }
  memory->calls++;
  if (memory->fail_at > 0 && memory->calls >= memory->fail_at) return NULL;
  void *new = realloc(block, size);
  if (new != NULL) memory->used += size - (block != NULL ? old : 0);
  return new;
}

static cpt_entry entry(cpt_role role, size_t bytes, int64_t prompt, int64_t output) {
  static char letters[100000];
  cpt_entry e = {.calls = NULL};
  cpt_message_init(&e.message, role);
  cpt_add_text(&e.message, letters, bytes);
  cpt_set_usage(&e.message, &(cpt_usage){.input_tokens = prompt, .output_tokens = output});
  return e;
}

static size_t snapshot_of(const cpt_conversation *c, unsigned char *out, size_t size) {
  size_t bytes = cpt_conversation_snapshot(c, out, size);
  assert_true(bytes <= size);
  return bytes;
}

static void a_host_without_lua_runs_an_agent(void **state) {
  (void)state;
  struct memory memory = {0};
  cpt_conversation *c = cpt_conversation_new(allocate, &memory, CPT_AUTO);
  const uint64_t calls[] = {cpt_id("a", 1), cpt_id("b", 1)};
  bool anchored;
  cpt_entry turn[4] = {entry(CPT_USER, 350, 0, 0), entry(CPT_ASSISTANT, 100, 5000, 50),
                       entry(CPT_TOOL, 3500, 0, 0), entry(CPT_TOOL, 3500, 0, 0)};
  turn[1].calls = calls;
  turn[1].call_count = 2;
  turn[2].answers = calls[1];
  assert_true(cpt_conversation_append(c, turn, 3));
  assert_int_equal(cpt_conversation_used(c, &anchored), 5000 + 50 + 1005);
  assert_true(anchored);
  assert_int_equal(cpt_conversation_pending(c), 1);
  assert_false(cpt_conversation_can_cut(c, 3));
  assert_true(cpt_conversation_can_cut(c, 1));
  turn[3].answers = calls[0];
  assert_true(cpt_conversation_append(c, &turn[3], 1));
  assert_int_equal(cpt_conversation_pending(c), 0);
  assert_int_equal(cpt_conversation_keep_from(c, 10000), 0);
  assert_int_equal(cpt_conversation_keep_from(c, 2100), 1);
  assert_int_equal(cpt_conversation_keep_from(c, 2000), 4);
  size_t at;
  cpt_entry summary = entry(CPT_USER, 700, 0, 0);
  assert_true(
      cpt_conversation_replace(c, 1, &summary, (cpt_request){CPT_REQUEST_AT, 0, NULL}, &at));
  assert_int_equal(at, 0);
  assert_int_equal(cpt_conversation_count(c), 5);
  assert_int_equal(cpt_conversation_used(c, &anchored), 4895 + 205 + 105 + 50 + 2010);
  assert_false(anchored);
  cpt_conversation_free(c);
  cpt_conversation_free(NULL);
  assert_int_equal(memory.used, 0);
}

static void sums_of_huge_counts_come_back(void **state) {
  (void)state;
  struct memory memory = {0};
  bool anchored;
  cpt_conversation *c = cpt_conversation_new(allocate, &memory, CPT_AUTO);
  cpt_entry small = entry(CPT_USER, 350, 0, 0),
            huge = entry(CPT_ASSISTANT, 10, INT64_MAX, INT64_MAX);
  cpt_entry low = entry(CPT_ASSISTANT, 10, INT64_MIN, INT64_MIN);
  huge.message.reasoning = INT64_MIN;
  huge.message.bytes = INT64_MAX;
  cpt_conversation_append(c, &small, 1);
  for (int i = 0; i < 50; i++) {
    assert_true(cpt_conversation_append(c, i % 3 ? &huge : &low, 1));
    assert_true(cpt_conversation_used(c, &anchored) >= 0);
    cpt_breakdown b = cpt_conversation_breakdown(c);
    assert_true(b.assistant >= 0 && b.fixed >= 0);
    cpt_conversation_keep_from(c, INT64_MAX);
  }
  cpt_conversation_truncate(c, 1);
  assert_int_equal(cpt_conversation_used(c, &anchored), 105);
  cpt_conversation_free(c);
}

static void a_host_weighs_texts_by_family(void **state) {
  (void)state;
  static const char text[] = "static int main(void) { return 0; }";
  struct memory memory = {0};
  cpt_conversation *c = cpt_conversation_new(allocate, &memory, CPT_AUTO);
  cpt_family family = CPT_UNKNOWN;
  assert_true(cpt_family_named("claude-5", 8, &family));
  assert_int_equal(family, CPT_CLAUDE_5);
  assert_false(cpt_family_named("claude-6", 8, &family));
  assert_int_equal(cpt_family_of("gpt-5", 5), CPT_OPENAI);
  assert_int_equal(cpt_conversation_family(c), CPT_UNKNOWN);
  cpt_entry e = {.calls = NULL, .names_model = true, .model_family = CPT_QWEN};
  cpt_message_init(&e.message, CPT_ASSISTANT);
  cpt_message_weigh(&e.message, CPT_QWEN);
  cpt_add_text(&e.message, text, sizeof text - 1);
  assert_int_equal(cpt_guess(&e.message), cpt_text_tokens(text, sizeof text - 1, CPT_QWEN) + 5);
  assert_int_equal(cpt_heuristic(&e.message), 10 + 5);
  assert_true(cpt_conversation_append(c, &e, 1));
  assert_int_equal(cpt_conversation_family(c), CPT_QWEN);
  assert_int_equal(cpt_conversation_estimate(c, 0, 1), cpt_guess(&e.message));
  cpt_conversation_set_family(c, CPT_LLAMA);
  assert_int_equal(cpt_conversation_family(c), CPT_LLAMA);
  cpt_conversation_unset_family(c);
  cpt_conversation_truncate(c, 0);
  assert_int_equal(cpt_conversation_family(c), CPT_UNKNOWN);
  cpt_conversation_free(c);

  /* in pieces as in one */
  cpt_weight w;
  cpt_weight_init(&w, CPT_UNKNOWN);
  for (size_t i = 0; i < sizeof text - 1; i++)
    cpt_weight_add(&w, text + i, 1);
  int64_t a = cpt_weight_hundredths(&w, 0), b = cpt_weight_hundredths(&w, 1);
  assert_int_equal(((a > b ? a : b) + 50) / 100,
                   cpt_text_tokens(text, sizeof text - 1, CPT_UNKNOWN));
  for (int f = 0; f < CPT_FAMILIES; f++) {
    const char *name = cpt_family_name((cpt_family)f);
    assert_true(cpt_family_named(name, strlen(name), &family) && family == (cpt_family)f);
    assert_int_equal(cpt_text_tokens("", 0, (cpt_family)f), 0);
  }
}

/* All that allocates, on a conversation of some length. False at the first that fails. */
static bool work(cpt_conversation *c) {
  cpt_entry u = entry(CPT_USER, 350, 0, 0), a = entry(CPT_ASSISTANT, 350, 5000, 50), many[20];
  const uint64_t calls[3] = {1, 2, 3};
  size_t at;
  a.calls = calls;
  a.call_count = 3;
  for (size_t i = 0; i < 20; i++)
    many[i] = i % 2 ? u : a;
  return cpt_conversation_append(c, &u, 1) && cpt_conversation_append(c, many, 20) &&
         cpt_conversation_set(c, 3, &a) &&
         cpt_conversation_observe(c, &(cpt_usage){900, 0, 0, 0, 0}, 7) &&
         cpt_conversation_append(c, many + 1, 1) &&
         cpt_conversation_set(c, cpt_conversation_count(c) - 2, &u) &&
         cpt_conversation_replace(c, 15, &u, (cpt_request){CPT_REQUEST_ENTRY, 0, &u}, &at);
}

static void each_failing_allocation_changes_nothing(void **state) {
  (void)state;
  static unsigned char before[20000], after[20000];
  long failures = 0;
  for (long k = 1;; k++) {
    struct memory memory = {0, 0, k};
    cpt_conversation *c = cpt_conversation_new(allocate, &memory, CPT_AUTO);
    if (c == NULL) {
      assert_int_equal(memory.used, 0);
      failures++;
      continue;
    }
    /* step by step, so that the state before the failing one is known */
    cpt_entry u = entry(CPT_USER, 350, 0, 0), a = entry(CPT_ASSISTANT, 350, 5000, 50);
    cpt_entry pair[2] = {u, a};
    size_t at;
    bool ok = true;
    for (int step = 0; step < 40 && ok; step++) {
      size_t n = snapshot_of(c, before, sizeof before);
      a.message.prompt += 100;
      pair[1] = a;
      if (step < 30)
        ok = cpt_conversation_append(c, pair, 2);
      else if (step % 3 == 0)
        ok = cpt_conversation_set(c, 5, &u);
      else if (step % 3 == 1)
        ok = cpt_conversation_observe(c, &(cpt_usage){900, 0, 0, 0, 0}, 7);
      else
        ok = cpt_conversation_replace(c, 6, &u, (cpt_request){CPT_REQUEST_ENTRY, 0, &u}, &at);
      if (ok) continue;
      assert_int_equal(snapshot_of(c, after, sizeof after), n);
      assert_memory_equal(before, after, n);
      memory.fail_at = 0;
      assert_true(work(c)); /* it goes on once there is memory */
    }
    cpt_conversation_free(c);
    assert_int_equal(memory.used, 0);
    if (ok) break;
    failures++;
  }
  assert_true(failures > 20);
}

static void each_failing_allocation_of_restore_is_told(void **state) {
  (void)state;
  static unsigned char bytes[20000];
  struct memory memory = {0};
  cpt_conversation *c = cpt_conversation_new(allocate, &memory, CPT_AUTO);
  assert_true(work(c));
  size_t n = snapshot_of(c, bytes, sizeof bytes);
  cpt_conversation_free(c);
  for (long k = 1;; k++) {
    struct memory short_of = {0, 0, k};
    const char *reason = "untouched";
    c = cpt_conversation_restore(allocate, &short_of, bytes, n, &reason);
    if (c == NULL) assert_null(reason);
    bool ok = c != NULL;
    cpt_conversation_free(c);
    assert_int_equal(short_of.used, 0);
    if (ok) break;
  }
}

int main(void) {
  const struct CMUnitTest specs[] = {
      cmocka_unit_test(a_host_without_lua_runs_an_agent),
      cmocka_unit_test(a_host_weighs_texts_by_family),
      cmocka_unit_test(sums_of_huge_counts_come_back),
      cmocka_unit_test(each_failing_allocation_changes_nothing),
      cmocka_unit_test(each_failing_allocation_of_restore_is_told),
  };
  return cmocka_run_group_tests_name("conversation", specs, NULL, NULL);
}
