/* A C host's conversation in a script's hands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "lua_compaction.h"

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  (void)ud, (void)old;
  if (size == 0) return free(block), NULL;
  return realloc(block, size);
}

static cpt_conversation *new_conversation(void) {
  cpt_conversation *c = cpt_conversation_new(allocate, NULL, CPT_AUTO);
  assert_non_null(c);
  return c;
}

/* Run a chunk with the values on the stack as its arguments. */
static void run(lua_State *L, int arguments, const char *chunk) {
  assert_int_equal(0, luaL_loadstring(L, chunk));
  lua_insert(L, -1 - arguments);
  if (lua_pcall(L, arguments, 0, 0) != 0) fail_msg("%s", lua_tostring(L, -1));
}

static lua_State *new_state(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  return L;
}

static void a_script_asks_and_changes_it(void **state) {
  (void)state;
  cpt_conversation *c = new_conversation();
  lua_State *L = new_state();
  cpt_lua_push(L, c);
  assert_int_equal(1, lua_gettop(L));
  assert_ptr_equal(c, cpt_lua_to(L, 1));
  run(L, 1,
      "local c = ...\n"
      "for i = 1, 100 do c:append { role = 'user', content = ('hello '):rep(i) } end\n"
      "assert(#c == 100 and c:used() > 5000 and c:plan({ limit = 1000 }).action == 'compact')\n"
      "held = c\n"
      "for i = 1, 3 do collectgarbage() end");
  assert_int_equal(100, cpt_conversation_count(c));
  cpt_lua_push(L, c);
  run(L, 1, "assert(... == held)");
  lua_close(L);
  bool anchored;
  assert_true(cpt_conversation_used(c, &anchored) > 5000); /* Lua did not free it */
  cpt_conversation_free(c);
}

static void a_loan_ends_when_the_host_says(void **state) {
  (void)state;
  cpt_conversation *c = new_conversation();
  lua_State *L = new_state();
  cpt_lua_take_back(L, c); /* was never lent */
  cpt_lua_push(L, c);
  lua_setglobal(L, "held");
  cpt_lua_take_back(L, c);
  cpt_lua_take_back(L, c);
  cpt_conversation_free(c);
  assert_int_equal(0, lua_gettop(L));
  run(L, 0,
      "local ok, message = pcall(held.append, held, { role = 'user', content = 'x' })\n"
      "assert(not ok and message:find('the conversation is closed', 1, true), message)\n"
      "assert(tostring(held):find 'closed')");
  lua_getglobal(L, "held");
  assert_null(cpt_lua_to(L, -1));
  c = new_conversation(); /* maybe at the same address */
  cpt_lua_push(L, c);
  run(L, 1, "local c = ... assert(c ~= held and c:append { role = 'user', content = 'x' } == 1)");
  lua_close(L);
  cpt_conversation_free(c);
}

static void a_loan_survives_the_script_that_dropped_it(void **state) {
  (void)state;
  cpt_conversation *c = new_conversation();
  lua_State *L = new_state();
  for (int i = 0; i < 100; i++) {
    cpt_lua_push(L, c);
    run(L, 1, "(...):append { role = 'user', content = 'again' }");
    lua_gc(L, LUA_GCCOLLECT, 0);
  }
  assert_int_equal(100, cpt_conversation_count(c));
  lua_close(L);
  cpt_conversation_free(c);
}

static void a_scripts_own_can_be_read(void **state) {
  (void)state;
  lua_State *L = new_state();
  assert_null(cpt_lua_to(L, 1));
  lua_newtable(L);
  lua_newuserdata(L, 8);
  lua_pushlightuserdata(L, L);
  lua_pushinteger(L, 5);
  for (int i = 1; i <= 5; i++)
    assert_null(cpt_lua_to(L, i));
  lua_settop(L, 0);
  lua_pushcfunction(L, luaopen_compaction_core);
  lua_call(L, 0, 1);
  lua_getfield(L, 1, "conversation");
  lua_newtable(L);
  lua_call(L, 1, 1);
  cpt_conversation *c = cpt_lua_to(L, -1);
  assert_non_null(c);
  assert_int_equal(0, cpt_conversation_count(c));
  cpt_lua_take_back(L, c); /* was not lent: stays open */
  assert_ptr_equal(c, cpt_lua_to(L, -1));
  lua_close(L);
}

static void two_states_may_hold_it_in_turn(void **state) {
  (void)state;
  cpt_conversation *c = new_conversation();
  for (int i = 1; i <= 3; i++) {
    lua_State *L = new_state();
    cpt_lua_push(L, c);
    run(L, 1, "(...):append { role = 'user', content = 'again' }");
    lua_close(L);
    assert_int_equal(i, cpt_conversation_count(c));
  }
  cpt_conversation_free(c);
}

/* Memory that runs out on the way. */
struct budget {
  long left;
};

static void *allocate_within(void *ud, void *block, size_t old, size_t size) {
  struct budget *budget = ud;
  if (block == NULL) old = 0;
  if (size > old && budget->left >= 0 && budget->left-- == 0) return budget->left = 0, NULL;
  return allocate(NULL, block, old, size);
}

static int push_argument(lua_State *L) {
  cpt_lua_push(L, lua_touserdata(L, 1));
  return 1;
}

static void lending_without_memory_changes_nothing(void **state) {
  (void)state;
  cpt_conversation *c = new_conversation();
  bool lent = false;
  for (long left = 0; !lent && left < 1000; left++) {
    struct budget budget = {-1};
#if LUA_VERSION_NUM >= 505
    lua_State *L = lua_newstate(allocate_within, &budget, 0);
#else
    lua_State *L = lua_newstate(allocate_within, &budget);
#endif
    lua_checkstack(L, 20);
    lua_pushcfunction(L, push_argument);
    lua_pushlightuserdata(L, c);
    budget.left = left;
    lent = lua_pcall(L, 1, 1, 0) == 0;
    budget.left = -1;
    if (lent) assert_ptr_equal(c, cpt_lua_to(L, -1));
    cpt_lua_take_back(L, c);
    lua_close(L);
  }
  assert_true(lent);
  cpt_conversation_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_script_asks_and_changes_it),
      cmocka_unit_test(a_loan_ends_when_the_host_says),
      cmocka_unit_test(a_loan_survives_the_script_that_dropped_it),
      cmocka_unit_test(a_scripts_own_can_be_read),
      cmocka_unit_test(two_states_may_hold_it_in_turn),
      cmocka_unit_test(lending_without_memory_changes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
