/* What a host sees of the Lua module from C: many states at once, memory that runs out. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

int luaopen_compaction_core(lua_State *L);

/* An allocator that counts, and refuses from its k-th new block on. */
struct memory {
  size_t used;  /* bytes handed out and not returned */
  long calls;   /* allocations and growths so far */
  long fail_at; /* 0: never */
};

static void *allocate(void *ud, void *block, size_t old, size_t size) {
  struct memory *memory = ud;
  if (block == NULL) old = 0; /* later versions tell the kind of object there */
  if (size == 0) {
    free(block);
    memory->used -= old;
    return NULL;
  }
  if (size > old && memory->fail_at > 0 && ++memory->calls >= memory->fail_at) return NULL;
  void *new = realloc(block, size);
  if (new != NULL) memory->used += size - old;
  return new;
}

static void open_module(lua_State *L) {
  lua_pushcfunction(L, luaopen_compaction_core);
  lua_call(L, 0, 1);
  lua_setglobal(L, "compaction");
}

/* The interpreter's libraries are opened without a budget, the script runs with one. */
static int open_libraries(lua_State *L) {
  luaL_openlibs(L);
  /* Lua 5.4's own buffers are spoilt for ever when memory runs out while the first large one
   * is made. That is not what is tested here: make it now. */
  if (luaL_loadstring(L, "return ('x'):rep(10000)") != 0) return lua_error(L);
  lua_call(L, 0, 0);
  return 0;
}

static const char script[] =
    "local messages = {}\n"
    "for i = 1, 12 do\n"
    "  messages[#messages + 1] = { role = 'user', content = ('x'):rep(i * 150) }\n"
    "  messages[#messages + 1] = { role = 'assistant', content = 'ok', model = 'm',\n"
    "    tool_calls = { { ['function'] = { name = 'f', arguments = '{}' } } },\n"
    "    usage = { input_tokens = i * i * 12, output_tokens = 40 } }\n"
    "end\n"
    "local proxy = setmetatable({}, { __index = messages, __len = function() return #messages end "
    "})\n"
    "local e = compaction.new_estimator(messages)\n"
    "local s = compaction.split_index_for_keep(messages, 700)\n"
    "assert(s == compaction.split_index_for_keep(proxy, 700))\n"
    "assert(compaction.new_estimator(ipairs(messages)):scale() == e:scale())\n"
    "assert(tostring(e):find 'scale')\n"
    "assert(not pcall(compaction.split_index_for_keep, { { role = 1 } }, 1))\n"
    "local c = compaction.conversation(proxy)\n"
    "for i = 1, 10 do\n"
    "  local n = c:snapshot()\n"
    "  if not pcall(c.append, c, messages) then assert(c:snapshot() == n) error('not enough "
    "memory', 0) end\n"
    "  c:append(messages[i])\n"
    "  if i == 6 then c:replace(9, messages[1], messages[3]) end\n"
    "  if i % 4 == 0 then c:set(5, messages[i]) end\n"
    "end\n"
    "assert(compaction.restore(c:snapshot()):used() == c:used())\n"
    "assert(c:breakdown().user > 0 and c:calibration().refused)\n"
    "c:truncate(3)\n"
    "return s, e:scale()\n";

struct run {
  struct memory *memory;
  long fail_at; /* the allocation from which on none succeeds; 0: all do */
  lua_Number split, scale;
};

static int run_script(lua_State *L) {
  struct run *run = lua_touserdata(L, 1);
  run->memory->calls = 0;
  run->memory->fail_at = run->fail_at;
  open_module(L);
  if (luaL_loadstring(L, script) != 0) return lua_error(L);
  lua_call(L, 0, 2);
  run->split = lua_tonumber(L, -2);
  run->scale = lua_tonumber(L, -1);
  return 0;
}

static int protected_run(lua_State *L, struct run *run) {
  lua_pushcfunction(L, run_script);
  lua_pushlightuserdata(L, run);
  int status = lua_pcall(L, 1, 0, 0);
  run->memory->fail_at = 0;
  return status;
}

static lua_State *new_state(struct memory *memory) {
#if defined(LUAJIT_VERSION) || LUA_VERSION_NUM >= 505
  (void)memory;
  lua_State *L = luaL_newstate();
#else
  lua_State *L = lua_newstate(allocate, memory);
#endif
  assert_non_null(L);
  lua_pushcfunction(L, open_libraries);
  assert_int_equal(lua_pcall(L, 0, 0, 0), 0);
  return L;
}

static void *one_thread(void *run) {
  struct memory memory = {0, 0, 0};
  ((struct run *)run)->memory = &memory;
  for (int i = 0; i < 20; i++) {
    lua_State *L = new_state(&memory);
    assert_int_equal(protected_run(L, run), 0);
    lua_close(L);
  }
  assert_int_equal(memory.used, 0);
  return NULL;
}

static void states_on_many_threads_do_not_meet(void **state) {
  (void)state;
  enum { THREADS = 8 };
  pthread_t threads[THREADS];
  struct run runs[THREADS] = {{0}};
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, one_thread, &runs[i]), 0);
  for (int i = 0; i < THREADS; i++)
    pthread_join(threads[i], NULL);
  for (int i = 0; i < THREADS; i++) {
    assert_true(runs[i].split > 1);
    assert_true(runs[i].split == runs[0].split && runs[i].scale == runs[0].scale);
  }
}

static void a_state_may_open_the_module_twice(void **state) {
  (void)state;
  struct memory memory = {0, 0, 0};
  struct run run = {&memory, 0, 0, 0};
  lua_State *L = new_state(&memory);
  assert_int_equal(protected_run(L, &run), 0);
  assert_int_equal(protected_run(L, &run), 0);
  lua_close(L);
}

/* For each k: from the k-th allocation on all fail, the error is Lua's own, the state goes
 * on once there is memory, and nothing is left when it closes. */
static void each_failing_allocation_is_an_error_without_a_leak(void **state) {
  (void)state;
  long errors = 0;
  for (long k = 1;; k++) {
    struct memory memory = {0, 0, 0};
    struct run run = {&memory, k, 0, 0};
    lua_State *L = new_state(&memory);
    int status = protected_run(L, &run);
    if (status != 0) {
      errors++;
      assert_string_equal(lua_tostring(L, -1), "not enough memory");
      lua_settop(L, 0);
      run.fail_at = 0;
      assert_int_equal(protected_run(L, &run), 0);
    }
    lua_close(L);
    assert_int_equal(memory.used, 0);
    if (status == 0) break;
    assert_true(k < 100000);
  }
  assert_true(errors > 100);
}

int main(void) {
  const struct CMUnitTest specs[] = {
      cmocka_unit_test(states_on_many_threads_do_not_meet),
      cmocka_unit_test(a_state_may_open_the_module_twice),
      cmocka_unit_test(each_failing_allocation_is_an_error_without_a_leak),
  };
  return cmocka_run_group_tests_name("states", specs, NULL, NULL);
}
