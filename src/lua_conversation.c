/* The conversation as a userdata. Arguments are read first, in whole; only then is the object
 * touched, and it either changes in whole or not at all. */
#include "lua_conversation.h"

#include <stdio.h>
#include <string.h>

#include "lua_compaction.h"
#include "lua_text.h"

#define CONVERSATION "compaction.Conversation"

struct handle {
  cpt_conversation *c; /* NULL once closed */
  bool lent;           /* by a C host, whose it stays */
  size_t reported;     /* bytes that the collector has been told of */
  text_source text;
};

static struct handle *check_handle(lua_State *L) {
  if (!is_object(L, 1)) luaL_checkudata(L, 1, CONVERSATION); /* raises */
  struct handle *h = lua_touserdata(L, 1);
  if (h->c == NULL) luaL_error(L, "the conversation is closed");
  return h;
}

/* To be asked again after arguments were read: their __index may have closed it. */
static cpt_conversation *check_conversation(lua_State *L) { return check_handle(L)->c; }

/* What Lua itself says. */
static int memory_error(lua_State *L) {
  lua_pushliteral(L, "not enough memory");
  return lua_error(L);
}

/* The core's memory is not the collector's; without this, dropped conversations pile up while
 * it believes that little was allocated. */
static void tell_collector(lua_State *L, struct handle *h) {
  const size_t kilobyte = 1024;
  if (h->lent) return;
  size_t held = cpt_conversation_memory(h->c);
  if (held < h->reported + 16 * kilobyte) return;
  int grown = (int)((held - h->reported) / kilobyte);
  h->reported = held;
#if LUA_VERSION_NUM >= 502
  if (!lua_gc(L, LUA_GCISRUNNING, 0)) return; /* a step would start it again */
#endif
  lua_gc(L, LUA_GCSTEP, grown);
}

static int done(lua_State *L, bool enough) {
  if (!enough) return memory_error(L);
  tell_collector(L, lua_touserdata(L, 1));
  return 0;
}

/* How the texts of the next messages are sized. What the rule refers to is pushed; +2 or +0 */
static text_rule *text_rule_of(lua_State *L, int self, text_rule *rule) {
  const struct handle *h = lua_touserdata(L, self);
  if (cpt_conversation_estimator(h->c) == CPT_SEED) return NULL;
  *rule = (text_rule){cpt_conversation_family(h->c), cpt_conversation_follows(h->c), 0, 0};
  push_host_values(L, self, &h->text, rule);
  return rule;
}

/* An index from `first` to `last` (1-based) as one from 0; other values raise. */
static size_t check_index(lua_State *L, int arg, const char *function, size_t first, size_t last) {
  ARGUMENT(at, function, arg - 1, "index");
  int64_t i = check_count(L, arg, &at);
  if (i < (int64_t)first || i > (int64_t)last) {
    char text[80];
    snprintf(text, sizeof text, "index from %lu to %lu expected, got %lld", (unsigned long)first,
             (unsigned long)last, (long long)i);
    bad_value(L, &at, "%s", text);
  }
  return (size_t)i - 1; /* C counts from 0, Lua from 1 */
}

static int64_t check_size(lua_State *L, int arg, const char *function) {
  ARGUMENT(at, function, arg - 1, "tokens");
  return check_count(L, arg, &at);
}

static int64_t check_limit(lua_State *L, int arg, const where *at) {
  if (is_absent(L, arg)) return 0;
  int64_t limit = check_count(L, arg, at);
  if (limit < 0) bad_value(L, at, "a limit is never negative");
  return limit;
}

static uint64_t opt_model(lua_State *L, int arg, const where *at) {
  size_t bytes;
  const char *name = opt_text(L, arg, &bytes, at);
  return cpt_id(name, bytes);
}

static int push_index(lua_State *L, size_t i) {
  compat_push_int64(L, (int64_t)i + 1); /* C counts from 0, Lua from 1 */
  return 1;
}

static int push_tokens(lua_State *L, int64_t n) {
  compat_push_int64(L, n);
  return 1;
}

/*
 * Coming and going
 */

/* After arguments were read: their __index may have closed it. */
static cpt_conversation *still_open(lua_State *L, const struct handle *h) {
  if (h->c == NULL) luaL_error(L, "the conversation is closed");
  return h->c;
}

static bool append_argument(lua_State *L, const struct handle *h, int arg, const where *at) {
  text_rule storage, *rule = text_rule_of(L, 1, &storage);
  if (is_message(L, arg)) {
    cpt_entry e;
    id_list ids;
    where message = {at->up, "message", 0};
    read_single_entry(L, arg, &e, &ids, rule, &message);
    return cpt_conversation_append(still_open(L, h), &e, 1);
  }
  size_t n;
  const cpt_entry *e = read_entries(L, arg, &n, rule, at);
  return cpt_conversation_append(still_open(L, h), e, n);
}

/* conversation:append(message_or_list) --> new length */
static int l_append(lua_State *L) {
  ARGUMENT(at, "append", 1, "messages");
  struct handle *h = check_handle(L);
  lua_settop(L, 2);
  reserve_stack(L);
  if (!append_argument(L, h, 2, &at)) return memory_error(L);
  size_t n = cpt_conversation_count(h->c);
  tell_collector(L, h);
  return push_tokens(L, (int64_t)n);
}

/* conversation:set(i, message) */
static int l_set(lua_State *L) {
  ARGUMENT(at, "set", 2, "message");
  cpt_entry e;
  id_list ids;
  check_index(L, 2, "set", 1, cpt_conversation_count(check_conversation(L)));
  lua_settop(L, 3);
  reserve_stack(L);
  text_rule storage, *rule = text_rule_of(L, 1, &storage);
  read_single_entry(L, 3, &e, &ids, rule, &at);
  size_t i = check_index(L, 2, "set", 1, cpt_conversation_count(check_conversation(L)));
  return done(L, cpt_conversation_set(check_conversation(L), i, &e));
}

/* conversation:truncate(n) */
static int l_truncate(lua_State *L) {
  cpt_conversation *c = check_conversation(L);
  size_t n = check_index(L, 2, "truncate", 0, cpt_conversation_count(c)) + 1;
  cpt_conversation_truncate(c, n);
  return 0;
}

/* Where keep_from may be: a legal cut behind the front. */
static size_t check_keep_from(lua_State *L, const cpt_conversation *c) {
  ARGUMENT(at, "replace", 1, "keep_from");
  size_t i =
      check_index(L, 2, "replace", cpt_conversation_front(c) + 1, cpt_conversation_count(c) + 1);
  if (!cpt_conversation_can_cut(c, i))
    bad_value(L, &at, "no legal cut: it would start on a %s",
              "result or other message, break a unit, or leave a pending call behind");
  return i;
}

/* conversation:replace(keep_from, message, request) --> index of the message, new length */
static int l_replace(lua_State *L) {
  ARGUMENT(message_at, "replace", 2, "message");
  ARGUMENT(request_at, "replace", 3, "request");
  cpt_entry summary, cut;
  id_list summary_ids, cut_ids;
  cpt_request request = {CPT_NO_REQUEST, 0, NULL};
  lua_settop(L, 4);
  check_keep_from(L, check_conversation(L));
  reserve_stack(L);
  text_rule storage, *rule = text_rule_of(L, 1, &storage);
  read_single_entry(L, 3, &summary, &summary_ids, rule, &message_at);
  if (lua_type(L, 4) == LUA_TTABLE && !is_absent(L, 4)) {
    read_single_entry(L, 4, &cut, &cut_ids, rule, &request_at);
    request = (cpt_request){CPT_REQUEST_ENTRY, 0, &cut};
  } else if (!is_absent(L, 4)) {
    request.kind = CPT_REQUEST_AT;
  }
  cpt_conversation *c = check_conversation(L);
  size_t keep_from = check_keep_from(L, c), at;
  if (request.kind == CPT_REQUEST_AT)
    request.index = check_index(L, 4, "replace", cpt_conversation_front(c) + 1, keep_from);
  done(L, cpt_conversation_replace(c, keep_from, &summary, request, &at));
  push_index(L, at);
  push_tokens(L, (int64_t)cpt_conversation_count(c));
  return 2;
}

/*
 * What the host knows
 */

/* conversation:observe(usage, model) */
static int l_observe(lua_State *L) {
  ARGUMENT(at, "observe", 1, "usage");
  ARGUMENT(model_at, "observe", 2, "model");
  cpt_usage usage = {0};
  lua_settop(L, 3);
  reserve_stack(L);
  if (lua_type(L, 2) != LUA_TTABLE) bad_type(L, 2, &at, "table");
  read_usage(L, 2, &usage, &at);
  uint64_t model = opt_model(L, 3, &model_at);
  return done(L, cpt_conversation_observe(check_conversation(L), &usage, model));
}

/* conversation:set_limit(tokens) */
static int l_set_limit(lua_State *L) {
  ARGUMENT(at, "set_limit", 1, "tokens");
  int64_t limit = check_limit(L, 2, &at);
  cpt_conversation_set_limit(check_conversation(L), limit);
  return 0;
}

/* The model at index weighs what comes, unless the host named a family for all. */
static void weigh_by_model(lua_State *L, int self, int index, const where *at) {
  const struct handle *h = lua_touserdata(L, self);
  text_rule storage, *rule = text_rule_of(L, self, &storage);
  size_t bytes;
  const char *name = opt_text(L, index, &bytes, at);
  if (rule == NULL || h->text.one_family) return;
  if (bytes == 0)
    cpt_conversation_unset_family(h->c);
  else
    cpt_conversation_set_family(h->c, family_of_model(L, rule->families, name, bytes));
}

/* conversation:set_model(name) */
static int l_set_model(lua_State *L) {
  ARGUMENT(at, "set_model", 1, "name");
  lua_settop(L, 2);
  cpt_conversation *c = check_conversation(L);
  cpt_conversation_set_model(c, opt_model(L, 2, &at));
  weigh_by_model(L, 1, 2, &at);
  return 0;
}

/* conversation:set_fixed { system = text, tools = list }, conversation:set_fixed(tokens) */
static int l_set_fixed(lua_State *L) {
  ARGUMENT(at, "set_fixed", 1, "fixed");
  if (lua_type(L, 2) == LUA_TNUMBER) {
    int64_t tokens = check_count(L, 2, &at);
    if (tokens < 0) bad_value(L, &at, "tokens expected, got a negative number");
    cpt_conversation_set_fixed(check_conversation(L), tokens);
    return 0;
  }
  static const char *const known[] = {"system", "tools"};
  where system = {&at, "system", 0}, tools = {&at, "tools", 0};
  cpt_message m;
  text_rule storage, *rule;
  check_handle(L);
  lua_settop(L, 2);
  reserve_stack(L);
  check_options(L, 2, known, 2, &at);
  lua_getfield(L, 2, "system");
  lua_getfield(L, 2, "tools");
  cpt_message_init(&m, CPT_SYSTEM);
  rule = text_rule_of(L, 1, &storage);
  if (lua_type(L, 3) == LUA_TTABLE) bad_type(L, 3, &system, "string");
  read_sent(L, 3, &m, rule, &system);
  read_sent(L, 4, &m, rule, &tools);
  cpt_conversation_set_fixed(check_conversation(L), cpt_guess(&m));
  return 0;
}

/*
 * Questions
 */

/* #conversation, conversation:len() */
static int l_len(lua_State *L) {
  return push_tokens(L, (int64_t)cpt_conversation_count(check_conversation(L)));
}

/* conversation:used() --> tokens, "anchor" | "estimate" */
static int l_used(lua_State *L) {
  bool anchored;
  push_tokens(L, cpt_conversation_used(check_conversation(L), &anchored));
  lua_pushstring(L, anchored ? "anchor" : "estimate");
  return 2;
}

/* conversation:estimate(i, j) --> tokens of messages i to j, both included */
static int l_estimate(lua_State *L) {
  const cpt_conversation *c = check_conversation(L);
  size_t count = cpt_conversation_count(c);
  size_t first = check_index(L, 2, "estimate", 1, count + 1);
  size_t last = check_index(L, 3, "estimate", first, count) + 1;
  return push_tokens(L, cpt_conversation_estimate(c, first, last));
}

/* conversation:scale() --> number */
static int l_scale(lua_State *L) {
  lua_pushnumber(L, cpt_conversation_scale(check_conversation(L)));
  return 1;
}

/* conversation:split_index_for_keep(max_tokens) --> index, #conversation + 1 for none */
static int l_split_index_for_keep(lua_State *L) {
  int64_t max = check_size(L, 2, "split_index_for_keep");
  return push_index(L, cpt_conversation_split_index_for_keep(check_conversation(L), max));
}

/* conversation:first_index_in_budget(limit) --> index, #conversation + 1 for none */
static int l_first_index_in_budget(lua_State *L) {
  int64_t limit = check_size(L, 2, "first_index_in_budget");
  return push_index(L, cpt_conversation_first_index_in_budget(check_conversation(L), limit));
}

/* conversation:keep_from(max_tokens) --> index, #conversation + 1 for none */
static int l_keep_from(lua_State *L) {
  int64_t max = check_size(L, 2, "keep_from");
  return push_index(L, cpt_conversation_keep_from(check_conversation(L), max));
}

/* conversation:can_cut(i) --> boolean */
static int l_can_cut(lua_State *L) {
  const cpt_conversation *c = check_conversation(L);
  size_t i = check_index(L, 2, "can_cut", 1, cpt_conversation_count(c) + 1);
  lua_pushboolean(L, cpt_conversation_can_cut(c, i));
  return 1;
}

/* conversation:pending() --> number of calls that wait for a result */
static int l_pending(lua_State *L) {
  return push_tokens(L, (int64_t)cpt_conversation_pending(check_conversation(L)));
}

static void set_tokens(lua_State *L, const char *name, int64_t tokens) {
  compat_push_int64(L, tokens);
  lua_setfield(L, -2, name);
}

/* conversation:breakdown() --> { system = …, … }: parts that add up to used() */
static int l_breakdown(lua_State *L) {
  cpt_breakdown b = cpt_conversation_breakdown(check_conversation(L));
  lua_createtable(L, 0, 9);
  set_tokens(L, "system", b.system);
  set_tokens(L, "user", b.user);
  set_tokens(L, "assistant", b.assistant);
  set_tokens(L, "reasoning", b.reasoning);
  set_tokens(L, "tool_calls", b.tool_calls);
  set_tokens(L, "tool_results", b.tool_results);
  set_tokens(L, "attachments", b.attachments);
  set_tokens(L, "summary", b.summary);
  set_tokens(L, "fixed", b.fixed);
  return 1;
}

/* conversation:calibration() --> { scale = …, family = …, mass = …, windows = …, fixed = …, limit =
 * …, refused = … } */
static int l_calibration(lua_State *L) {
  const cpt_conversation *c = check_conversation(L);
  cpt_learned learned = cpt_conversation_learned(c);
  lua_createtable(L, 0, 7);
  lua_pushnumber(L, learned.scale);
  lua_setfield(L, -2, "scale");
  lua_pushstring(L, cpt_family_name(cpt_conversation_family(c)));
  lua_setfield(L, -2, "family");
  set_tokens(L, "mass", learned.mass);
  set_tokens(L, "windows", learned.windows);
  set_tokens(L, "fixed", learned.fixed);
  if (cpt_conversation_limit(c) > 0) set_tokens(L, "limit", cpt_conversation_limit(c));
  lua_createtable(L, 0, 5);
  set_tokens(L, "shrunk", learned.shrunk);
  set_tokens(L, "model", learned.model);
  set_tokens(L, "clipped", learned.clipped);
  set_tokens(L, "aggregated", learned.aggregated);
  set_tokens(L, "placeholder", learned.placeholder);
  lua_setfield(L, -2, "refused");
  return 1;
}

/*
 * The plan
 */

static const char *const budget_names[] = {"limit",   "threshold", "reserve",          "keep",
                                           "summary", "min_gain",  "summarizer_limit", "force"};

/* A count of the budget that may be absent, and then leaves *count as it was. */
static void opt_budget_count(lua_State *L, int budget, const char *name, int64_t *count,
                             const where *at) {
  where here = {at, name, 0};
  lua_getfield(L, budget, name);
  if (!is_absent(L, lua_gettop(L))) {
    *count = check_count(L, lua_gettop(L), &here);
    if (*count < 0) bad_value(L, &here, "tokens expected, got a negative number");
  }
  lua_pop(L, 1);
}

static void opt_threshold(lua_State *L, int budget, double *threshold, const where *at) {
  where here = {at, "threshold", 0};
  lua_getfield(L, budget, "threshold");
  if (!is_absent(L, lua_gettop(L))) {
    if (lua_type(L, -1) != LUA_TNUMBER) bad_type(L, lua_gettop(L), &here, "number");
    *threshold = (double)lua_tonumber(L, -1);
  }
  lua_pop(L, 1);
}

/* true, false, or "keep": now, but keep at least the last exchange. */
static void opt_force(lua_State *L, int budget, cpt_force *force, const where *at) {
  where here = {at, "force", 0};
  lua_getfield(L, budget, "force");
  if (lua_type(L, -1) == LUA_TBOOLEAN) {
    *force = lua_toboolean(L, -1) ? CPT_MANUAL : CPT_AUTOMATIC;
  } else if (lua_type(L, -1) == LUA_TSTRING && strcmp(lua_tostring(L, -1), "keep") == 0) {
    *force = CPT_NOW;
  } else if (!is_absent(L, lua_gettop(L))) {
    bad_type(L, lua_gettop(L), &here, "boolean or \"keep\"");
  }
  lua_pop(L, 1);
}

static cpt_budget check_budget(lua_State *L, int index) {
  ARGUMENT(at, "plan", index - 1, "budget");
  cpt_budget b = {0, 0, -1, -1, -1, -1, 0, CPT_AUTOMATIC};
  if (is_absent(L, index)) return b;
  check_options(L, index, budget_names, sizeof budget_names / sizeof *budget_names, &at);
  opt_budget_count(L, index, "limit", &b.limit, &at);
  opt_threshold(L, index, &b.threshold, &at);
  opt_budget_count(L, index, "reserve", &b.reserve, &at);
  opt_budget_count(L, index, "keep", &b.keep, &at);
  opt_budget_count(L, index, "summary", &b.summary, &at);
  opt_budget_count(L, index, "min_gain", &b.min_gain, &at);
  opt_budget_count(L, index, "summarizer_limit", &b.summarizer_limit, &at);
  opt_force(L, index, &b.force, &at);
  return b;
}

static void set_index(lua_State *L, const char *name, size_t i) {
  set_tokens(L, name, (int64_t)i + 1); /* C counts from 0, Lua from 1 */
}

static void push_verdict(lua_State *L, const cpt_verdict *v) {
  static const char *const actions[] = {"none", "compact", "defer", "stuck"};
  lua_createtable(L, 0, 16);
  lua_pushstring(L, actions[v->action]);
  lua_setfield(L, -2, "action");
  lua_pushstring(L, v->reason);
  lua_setfield(L, -2, "reason");
  set_tokens(L, "used", v->used);
  if (v->limit > 0) {
    set_tokens(L, "limit", v->limit);
    set_tokens(L, "trigger", v->trigger);
    set_tokens(L, "target", v->target);
    set_tokens(L, "floor", v->floor);
  }
  if (v->has_item) set_index(L, "item", v->item);
  if (v->action != CPT_COMPACT) return;
  set_tokens(L, "after", v->after);
  set_tokens(L, "gain", v->gain);
  set_tokens(L, "summary", v->summary);
  set_index(L, "keep_from", v->keep_from);
  set_index(L, "first", v->first);
  set_index(L, "last", v->last - 1);
  set_index(L, "summarizer_from", v->summarizer_from);
  if (v->has_request) set_index(L, "request", v->request);
}

/* conversation:plan(budget) --> verdict */
static int l_plan(lua_State *L) {
  check_conversation(L);
  lua_settop(L, 2);
  cpt_budget b = check_budget(L, 2);
  cpt_verdict v = cpt_conversation_plan(check_conversation(L), &b);
  push_verdict(L, &v);
  return 1;
}

/* conversation:snapshot() --> string */
static int l_snapshot(lua_State *L) {
  const cpt_conversation *c = check_conversation(L);
  unsigned char *out = NULL;
  size_t bytes = 0, room = 0;
  while ((bytes = cpt_conversation_snapshot(c, out, room)) > room) {
    room = bytes;
    out = lua_newuserdata(L, room); /* which may collect, and finalizers may change or close it */
    c = check_conversation(L);
  }
  lua_pushlstring(L, (const char *)out, bytes);
  return 1;
}

/* tostring(conversation) --> "compaction.Conversation(12 messages, 3456 tokens)" */
static int l_tostring(lua_State *L) {
  const struct handle *h = luaL_checkudata(L, 1, CONVERSATION);
  char text[100];
  bool anchored;
  if (h->c == NULL)
    snprintf(text, sizeof text, CONVERSATION "(closed)");
  else
    snprintf(text, sizeof text, CONVERSATION "(%lu messages, %lld tokens)",
             (unsigned long)cpt_conversation_count(h->c),
             (long long)cpt_conversation_used(h->c, &anchored));
  lua_pushstring(L, text);
  return 1;
}

/* __gc and __close; may come twice */
static int l_close(lua_State *L) {
  struct handle *h = luaL_checkudata(L, 1, CONVERSATION);
  if (!h->lent) cpt_conversation_free(h->c);
  h->c = NULL;
  return 0;
}

/*
 * Making one
 */

/* push a handle without a conversation yet; +1 */
static struct handle *push_handle(lua_State *L) {
  struct handle *h = lua_newuserdata(L, sizeof *h);
  memset(h, 0, sizeof *h);
  luaL_getmetatable(L, CONVERSATION);
  lua_setmetatable(L, -2);
  return h;
}

/* Make the conversation of the handle at self as the options at index say. */
static void create(lua_State *L, int self, int index) {
  ARGUMENT(at, "conversation", index, "options");
  static const char *const known[] = {"estimator", "families", "limit", "model"};
  where limit_at = {&at, "limit", 0}, model_at = {&at, "model", 0};
  struct handle *h = lua_touserdata(L, self);
  void *ud;
  lua_Alloc alloc = lua_getallocf(L, &ud);
  check_options(L, index, known, 4, &at);
  cpt_estimator estimator = read_text_options(L, self, index, CPT_AUTO, &h->text, &at);
  lua_getfield(L, index, "limit");
  int64_t limit = check_limit(L, lua_gettop(L), &limit_at);
  lua_getfield(L, index, "model");
  int model = lua_gettop(L);
  uint64_t model_id = opt_model(L, model, &model_at);
  h->c = cpt_conversation_new(alloc, ud, estimator);
  if (h->c == NULL) memory_error(L);
  cpt_conversation_set_limit(h->c, limit);
  cpt_conversation_set_model(h->c, model_id);
  if (h->text.one_family)
    cpt_conversation_set_family(h->c, h->text.family);
  else
    weigh_by_model(L, self, model, &model_at);
  lua_settop(L, self);
}

/* compaction.conversation(messages, options) --> conversation */
static int l_conversation(lua_State *L) {
  ARGUMENT(at, "conversation", 1, "messages");
  lua_settop(L, 2);
  reserve_stack(L);
  struct handle *h = push_handle(L);
  if (is_absent(L, 2)) lua_newtable(L), lua_replace(L, 2);
  create(L, 3, 2);
  if (is_absent(L, 1)) return 1;
  size_t n;
  text_rule storage, *rule = text_rule_of(L, 3, &storage);
  const cpt_entry *e = read_entries(L, 1, &n, rule, &at);
  if (!cpt_conversation_append(h->c, e, n)) return memory_error(L);
  tell_collector(L, h);
  lua_settop(L, 3);
  return 1;
}

/* compaction.restore(snapshot) --> conversation */
static int l_restore(lua_State *L) {
  ARGUMENT(at, "restore", 1, "snapshot");
  const char *reason;
  size_t bytes;
  void *ud;
  if (lua_type(L, 1) != LUA_TSTRING) bad_type(L, 1, &at, "string");
  const char *snapshot = lua_tolstring(L, 1, &bytes);
  struct handle *h = push_handle(L);
  lua_Alloc alloc = lua_getallocf(L, &ud);
  h->c = cpt_conversation_restore(alloc, ud, (const unsigned char *)snapshot, bytes, &reason);
  if (h->c == NULL && reason == NULL) return memory_error(L);
  if (h->c == NULL) return bad_value(L, &at, "%s", reason);
  tell_collector(L, h);
  return 1;
}

static const luaL_Reg methods[] = {
    {"append", l_append},
    {"set", l_set},
    {"truncate", l_truncate},
    {"replace", l_replace},
    {"observe", l_observe},
    {"set_limit", l_set_limit},
    {"set_model", l_set_model},
    {"set_fixed", l_set_fixed},
    {"len", l_len},
    {"used", l_used},
    {"estimate", l_estimate},
    {"scale", l_scale},
    {"split_index_for_keep", l_split_index_for_keep},
    {"first_index_in_budget", l_first_index_in_budget},
    {"keep_from", l_keep_from},
    {"can_cut", l_can_cut},
    {"pending", l_pending},
    {"breakdown", l_breakdown},
    {"calibration", l_calibration},
    {"plan", l_plan},
    {"snapshot", l_snapshot},
    {NULL, NULL},
};

static const luaL_Reg metamethods[] = {
    {"__len", l_len}, {"__tostring", l_tostring}, {"__gc", l_close}, {"__close", l_close},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"conversation", l_conversation},
    {"restore", l_restore},
    {NULL, NULL},
};

/* Its address is the class's key in the registry, besides its name: asked for without a new string.
 */
static const char class_key = 1;

static void push_class(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&class_key);
  lua_rawget(L, LUA_REGISTRYINDEX);
}

static void create_class(lua_State *L) {
  luaL_newmetatable(L, CONVERSATION);
  int class = lua_gettop(L);
  lua_pushlightuserdata(L, (void *)&class_key);
  lua_pushvalue(L, class);
  lua_rawset(L, LUA_REGISTRYINDEX);
  register_functions(L, metamethods, class);
  lua_newtable(L);
  register_functions(L, methods, class);
  lua_setfield(L, class, "__index");
  lua_pop(L, 1);
}

void open_conversation(lua_State *L) {
  create_class(L);
  register_functions(L, functions, 0);
}

/*
 * Lending
 */

/* Its address is the key of a table in the registry: objects by the conversation that they lend,
 * as long as a script holds them. */
static const char lent_objects = 0;

/* Push that table; false, and nothing is pushed, if nothing was lent yet. */
static bool push_lent(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&lent_objects);
  lua_rawget(L, LUA_REGISTRYINDEX);
  if (lua_type(L, -1) == LUA_TTABLE) return true;
  lua_pop(L, 1);
  return false;
}

static void create_lent(lua_State *L) {
  lua_pushlightuserdata(L, (void *)&lent_objects);
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "v");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_rawset(L, LUA_REGISTRYINDEX);
}

/* The object that lends `c`, pushed, from the table on top; NULL, and nothing is pushed. */
static struct handle *push_known(lua_State *L, const cpt_conversation *c) {
  lua_pushlightuserdata(L, (void *)c);
  lua_rawget(L, -2);
  struct handle *h = lua_touserdata(L, -1);
  if (h != NULL && h->c == c) return h;
  lua_pop(L, 1);
  return NULL;
}

void cpt_lua_push(lua_State *L, cpt_conversation *c) {
  luaL_checkstack(L, 6, "a conversation is lent");
  push_class(L);
  bool opened = lua_type(L, -1) == LUA_TTABLE;
  lua_pop(L, 1);
  if (!opened) create_class(L);
  if (!push_lent(L)) create_lent(L), push_lent(L);
  if (push_known(L, c) == NULL) {
    struct handle *h = push_handle(L);
    lua_pushlightuserdata(L, c);
    lua_pushvalue(L, -2);
    lua_rawset(L, -4); /* from here on nothing raises */
    h->c = c;
    h->lent = true;
  }
  lua_remove(L, -2);
}

void cpt_lua_take_back(lua_State *L, const cpt_conversation *c) {
  if (!push_lent(L)) return;
  struct handle *h = push_known(L, c);
  if (h != NULL) {
    h->c = NULL;
    lua_pop(L, 1);
  }
  lua_pop(L, 1);
}

cpt_conversation *cpt_lua_to(lua_State *L, int index) {
  struct handle *h = lua_touserdata(L, index);
  if (h == NULL || !lua_getmetatable(L, index)) return NULL;
  push_class(L);
  bool is_conversation = lua_rawequal(L, -1, -2);
  lua_pop(L, 2);
  return is_conversation ? h->c : NULL;
}
