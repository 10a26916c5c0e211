/* The Lua module compaction.core: the seed functions and the estimator; the rest is opened here. */
#include "lua_compaction.h"

#include "lua_conversation.h"
#include "lua_json.h"
#include "lua_message.h"
#include "lua_text.h"

#include <string.h>

static int64_t check_tokens(lua_State *L, int index, const char *function, const char *name) {
  ARGUMENT(at, function, index, name);
  return check_count(L, index, &at);
}

/* compaction.estimate_message_tokens(message) --> tokens */
static int l_estimate_message_tokens(lua_State *L) {
  ARGUMENT(at, "estimate_message_tokens", 1, "message");
  cpt_message m;
  reserve_stack(L);
  read_message(L, 1, &m, NULL, &at);
  compat_push_int64(L, cpt_estimate(&m, 1.0));
  return 1;
}

/* The threshold may be absent; the C core replaces what is out of range. */
static double opt_threshold(lua_State *L, int index) {
  ARGUMENT(at, "should_compact", index, "threshold");
  if (is_absent(L, index)) return CPT_DEFAULT_THRESHOLD;
  if (lua_type(L, index) != LUA_TNUMBER) bad_type(L, index, &at, "number");
  return (double)lua_tonumber(L, index);
}

/* compaction.should_compact(input, output, added, limit, threshold) --> boolean */
static int l_should_compact(lua_State *L) {
  int64_t input = check_tokens(L, 1, "should_compact", "input");
  int64_t output = check_tokens(L, 2, "should_compact", "output");
  int64_t added = check_tokens(L, 3, "should_compact", "added");
  int64_t limit = check_tokens(L, 4, "should_compact", "limit");
  lua_pushboolean(L, cpt_should_compact(input, output, added, limit, opt_threshold(L, 5)));
  return 1;
}

/* compaction.split_index_for_keep(messages, max_tokens) --> index, #messages + 1 for none */
static int l_split_index_for_keep(lua_State *L) {
  ARGUMENT(at, "split_index_for_keep", 1, "messages");
  int64_t max_tokens = check_tokens(L, 2, "split_index_for_keep", "max_tokens");
  size_t n;
  const cpt_message *m = read_messages(L, 1, &n, &at);
  size_t index = cpt_split_index_for_keep(m, n, max_tokens);
  compat_push_int64(L, (int64_t)index + 1); /* C counts from 0, Lua from 1 */
  return 1;
}

/* compaction.first_index_in_budget(messages, limit) --> index, #messages + 1 for none */
static int l_first_index_in_budget(lua_State *L) {
  ARGUMENT(at, "first_index_in_budget", 1, "messages");
  int64_t limit = check_tokens(L, 2, "first_index_in_budget", "limit");
  size_t n;
  const cpt_message *m = read_messages(L, 1, &n, &at);
  size_t index = cpt_first_index_in_budget(m, n, limit);
  compat_push_int64(L, (int64_t)index + 1); /* C counts from 0, Lua from 1 */
  return 1;
}

/* core.count_messages(messages, function) --> length of a list of messages, checked as such; what
 * the Lua files share with the core, not for hosts */
static int l_count_messages(lua_State *L) {
  ARGUMENT(at, luaL_checkstring(L, 2), 1, "messages");
  compat_push_int64(L, check_messages(L, 1, &at).length);
  return 1;
}

/* core.length(list) --> its length; __len is honoured on every version */
static int l_length(lua_State *L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  if (luaL_callmeta(L, 1, "__len")) return 1;
  compat_push_int64(L, compat_rawlen(L, 1));
  return 1;
}

/*
 * The estimator: a learned scale, immutable
 */

#define ESTIMATOR "compaction.Estimator"

struct estimator {
  double scale;
  bool weighs;       /* texts, by the newest family met; else bytes are counted */
  bool follows;      /* models that messages name */
  cpt_family family; /* of the newest model */
  text_source text;
};

/* push an estimator that has learned nothing; +1 */
static struct estimator *push_estimator(lua_State *L) {
  struct estimator *e = lua_newuserdata(L, sizeof *e);
  memset(e, 0, sizeof *e);
  e->scale = 1.0;
  luaL_getmetatable(L, ESTIMATOR);
  lua_setmetatable(L, -2);
  return e;
}

/* Read new_estimator's options, where there are any. */
static void read_estimator_options(lua_State *L, int self, int index) {
  ARGUMENT(at, "new_estimator", index, "options");
  static const char *const known[] = {"estimator", "families", "model"};
  where model_at = {&at, "model", 0};
  struct estimator *e = lua_touserdata(L, self);
  if (is_absent(L, index)) return;
  check_options(L, index, known, 3, &at);
  e->weighs = read_text_options(L, self, index, CPT_AUTO, &e->text, &at) == CPT_AUTO;
  lua_getfield(L, index, "model");
  size_t bytes;
  const char *name = opt_text(L, lua_gettop(L), &bytes, &model_at);
  e->follows = !e->text.one_family && bytes == 0;
  e->family = e->text.family;
  if (!e->text.one_family && bytes > 0) {
    text_rule rule = {CPT_UNKNOWN, false, 0, 0};
    push_host_values(L, self, &e->text, &rule);
    e->family = family_of_model(L, rule.families, name, bytes);
  }
}

/* How the estimator at self sizes texts. What the rule refers to is pushed; +2 or +0 */
static text_rule *text_rule_of(lua_State *L, int self, text_rule *rule) {
  const struct estimator *e = lua_touserdata(L, self);
  if (!e->weighs) return NULL;
  *rule = (text_rule){e->family, e->follows, 0, 0};
  push_host_values(L, self, &e->text, rule);
  return rule;
}

/* Learn from a list of messages at index 1. */
static void calibrate_list(lua_State *L, cpt_calibration *c, text_rule *rule, const where *at) {
  message_list list = check_messages(L, 1, at);
  for (lua_Integer i = 1; i <= list.length; i++) {
    cpt_message m;
    read_nth_message(L, list, i, &m, rule, at);
    cpt_calibration_add(c, &m);
  }
}

/* Learn from an iterator triplet at 1 to 3, as `for` would run it. The message is the
 * second value of each step (ipairs, pairs), or the first where there is no second. */
static void calibrate_iterator(lua_State *L, cpt_calibration *c, text_rule *rule, const where *at) {
  where here = *at;
  reserve_stack(L);
  for (here.index = 1;; here.index++) {
    cpt_message m;
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_pushvalue(L, 3);
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) return;
    lua_pushvalue(L, -2);
    lua_replace(L, 3); /* the control variable of the next step */
    int message = lua_isnil(L, -1) ? lua_gettop(L) - 1 : lua_gettop(L);
    read_message(L, message, &m, rule, &here);
    cpt_calibration_add(c, &m);
    lua_pop(L, 2);
  }
}

/* compaction.new_estimator(messages, options) --> estimator
 * compaction.new_estimator(iterator, state, control, options) --> estimator */
static int l_new_estimator(lua_State *L) {
  ARGUMENT(at, "new_estimator", 1, "messages");
  bool iterator = lua_type(L, 1) == LUA_TFUNCTION;
  if (!iterator && lua_type(L, 1) != LUA_TTABLE) bad_type(L, 1, &at, "table or iterator");
  lua_settop(L, 4);
  reserve_stack(L);
  if (!iterator) check_messages(L, 1, &at);
  struct estimator *e = push_estimator(L);
  int self = lua_gettop(L), options = iterator ? 4 : 2;
  /* an iterator may come with a closing value, which is no table of options */
  if (!iterator || lua_type(L, options) == LUA_TTABLE) read_estimator_options(L, self, options);
  cpt_calibration c;
  cpt_calibration_init(&c);
  text_rule storage, *rule = text_rule_of(L, self, &storage);
  if (iterator)
    calibrate_iterator(L, &c, rule, &at);
  else
    calibrate_list(L, &c, rule, &at);
  e->scale = cpt_calibration_scale(&c);
  if (rule != NULL) e->family = rule->family;
  lua_settop(L, self);
  return 1;
}

/* compaction.new_slice_estimator(messages) --> estimator */
static int l_new_slice_estimator(lua_State *L) {
  ARGUMENT(at, "new_slice_estimator", 1, "messages");
  cpt_calibration c;
  cpt_calibration_init(&c);
  calibrate_list(L, &c, NULL, &at);
  push_estimator(L)->scale = cpt_calibration_scale(&c);
  return 1;
}

static const struct estimator *check_estimator(lua_State *L) {
  if (!is_object(L, 1)) luaL_checkudata(L, 1, ESTIMATOR); /* raises */
  return lua_touserdata(L, 1);
}

/* estimator:estimate_message_tokens(message) --> tokens */
static int l_estimator_estimate(lua_State *L) {
  ARGUMENT(at, "estimate_message_tokens", 1, "message");
  const struct estimator *e = check_estimator(L);
  cpt_message m;
  text_rule storage;
  lua_settop(L, 2);
  reserve_stack(L);
  read_message(L, 2, &m, text_rule_of(L, 1, &storage), &at);
  compat_push_int64(L, cpt_estimate(&m, e->scale));
  return 1;
}

/* estimator:scale() --> number */
static int l_estimator_scale(lua_State *L) {
  lua_pushnumber(L, check_estimator(L)->scale);
  return 1;
}

/* tostring(estimator) --> "compaction.Estimator(scale 1.23)" */
static int l_estimator_tostring(lua_State *L) {
  int percent = (int)(check_estimator(L)->scale * 100 + 0.5);
  char fraction[3] = {(char)('0' + percent % 100 / 10), (char)('0' + percent % 10), '\0'};
  lua_pushfstring(L, ESTIMATOR "(scale %d.%s)", percent / 100, fraction);
  return 1;
}

static const luaL_Reg estimator_methods[] = {
    {"estimate_message_tokens", l_estimator_estimate},
    {"scale", l_estimator_scale},
    {NULL, NULL},
};

static const luaL_Reg estimator_metamethods[] = {
    {"__tostring", l_estimator_tostring},
    {NULL, NULL},
};

static void create_estimator_class(lua_State *L) {
  luaL_newmetatable(L, ESTIMATOR);
  int class = lua_gettop(L);
  register_functions(L, estimator_metamethods, class);
  lua_newtable(L);
  register_functions(L, estimator_methods, class);
  lua_setfield(L, class, "__index");
  lua_pop(L, 1);
}

/*
 * The module
 */

static const luaL_Reg functions[] = {
    {"estimate_message_tokens", l_estimate_message_tokens},
    {"should_compact", l_should_compact},
    {"split_index_for_keep", l_split_index_for_keep},
    {"first_index_in_budget", l_first_index_in_budget},
    {"new_estimator", l_new_estimator},
    {"new_slice_estimator", l_new_slice_estimator},
    {"count_messages", l_count_messages},
    {"length", l_length},
    {NULL, NULL},
};

LUALIB_API int luaopen_compaction_core(lua_State *L) {
  compat_check_version(L);
  create_estimator_class(L);
  lua_newtable(L);
  register_functions(L, functions, 0);
  lua_pushliteral(L, "compaction " CPT_VERSION);
  lua_setfield(L, -2, "_VERSION");
  lua_pushnumber(L, CPT_DEFAULT_THRESHOLD);
  lua_setfield(L, -2, "DEFAULT_THRESHOLD");
  lua_pushlstring(L, cpt_system_prompt, cpt_system_prompt_bytes);
  lua_setfield(L, -2, "SYSTEM_PROMPT");
  lua_pushlstring(L, cpt_user_prompt, cpt_user_prompt_bytes);
  lua_setfield(L, -2, "USER_PROMPT");
  open_json(L);
  open_text(L);
  open_conversation(L);
  return 1;
}
