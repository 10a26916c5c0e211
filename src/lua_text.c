/* Text estimates and families of models, for Lua. */
#include "lua_text.h"

#include <string.h>

/* Does the name fit the pattern, in which * stands for anything? Each * is tried as short as it
 * can be, and only the last one is ever widened: O(pattern × name). */
static bool fits(const char *pattern, size_t m, const char *name, size_t n) {
  size_t p = 0, i = 0, star = SIZE_MAX, from = 0;
  while (i < n) {
    if (p < m && pattern[p] == '*') {
      star = p++;
      from = i;
    } else if (p < m && pattern[p] == name[i]) {
      p++;
      i++;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      i = ++from;
    } else {
      return false;
    }
  }
  while (p < m && pattern[p] == '*')
    p++;
  return p == m;
}

/* Of the patterns that fit, the longest decides; of equally long ones the first by its bytes. */
static bool own_family(lua_State *L, int families, const char *model, size_t bytes,
                       cpt_family *family) {
  size_t best_bytes = 0;
  const char *best = NULL;
  lua_pushnil(L);
  while (lua_next(L, families)) {
    size_t m, n;
    const char *pattern = lua_tolstring(L, -2, &m);
    const char *name = lua_tolstring(L, -1, &n);
    bool better =
        best == NULL || m > best_bytes || (m == best_bytes && memcmp(pattern, best, m) < 0);
    if (better && fits(pattern, m, model, bytes) && cpt_family_named(name, n, family)) {
      best = pattern;
      best_bytes = m;
    }
    lua_pop(L, 1);
  }
  return best != NULL;
}

cpt_family family_of_model(lua_State *L, int families, const char *model, size_t bytes) {
  cpt_family family;
  if (families != 0 && own_family(L, families, model, bytes, &family)) return family;
  return cpt_family_of(model, bytes);
}

/* push the names of all families, with commas; +1 */
static void push_family_names(lua_State *L) {
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  for (int f = 0; f < CPT_FAMILIES; f++) {
    if (f > 0) luaL_addlstring(&b, ", ", 2);
    luaL_addstring(&b, cpt_family_name((cpt_family)f));
  }
  luaL_pushresult(&b);
}

cpt_family check_family(lua_State *L, int index, const where *at) {
  size_t bytes;
  cpt_family family;
  if (lua_type(L, index) != LUA_TSTRING) bad_type(L, index, at, "name of a family");
  const char *name = lua_tolstring(L, index, &bytes);
  if (cpt_family_named(name, bytes, &family)) return family;
  push_family_names(L);
  bad_value(L, at, "unknown family '%s' (known: %s)", name, lua_tostring(L, -1));
  return CPT_UNKNOWN;
}

void check_families(lua_State *L, int index, const where *at) {
  if (lua_type(L, index) != LUA_TTABLE) bad_type(L, index, at, "table");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    if (lua_type(L, -2) != LUA_TSTRING) bad_type(L, -2, at, "pattern of model names as a key");
    where here = {at, lua_tostring(L, -2), 0};
    check_family(L, lua_gettop(L), &here);
    lua_pop(L, 1);
  }
}

/*
 * Options
 */

enum { COUNTER = 1, FAMILIES = 2 }; /* slots of the user value */

/* "seed", "auto", a family, or a function that counts tokens. */
static cpt_estimator check_estimator(lua_State *L, int index, cpt_estimator absent,
                                     text_source *source, const where *at) {
  size_t bytes;
  if (lua_type(L, index) == LUA_TFUNCTION) { /* here a function is no null */
    source->counts = true;
    return CPT_AUTO;
  }
  const char *name = opt_text(L, index, &bytes, at);
  if (name == NULL) return absent;
  if (strcmp(name, "auto") == 0) return CPT_AUTO;
  if (strcmp(name, "seed") == 0) return CPT_SEED;
  if (!cpt_family_named(name, bytes, &source->family))
    bad_value(L, at, "'auto', 'seed', a family or a function expected, got '%s'", name);
  source->one_family = true;
  return CPT_AUTO;
}

/* push a copy of the table at index, so that the host may change its own; +1 */
static void push_copy(lua_State *L, int index) {
  lua_newtable(L);
  int copy = lua_gettop(L);
  lua_pushnil(L);
  while (lua_next(L, index)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, copy);
  }
}

cpt_estimator read_text_options(lua_State *L, int self, int index, cpt_estimator absent,
                                text_source *source, const where *at) {
  where estimator_at = {at, "estimator", 0}, families_at = {at, "families", 0};
  int top = lua_gettop(L), counter = top + 1, families = top + 2;
  lua_getfield(L, index, "estimator");
  lua_getfield(L, index, "families");
  cpt_estimator estimator = check_estimator(L, counter, absent, source, &estimator_at);
  source->names = !is_absent(L, families);
  if (source->names) check_families(L, families, &families_at);
  if (source->counts || source->names) {
    lua_newtable(L);
    lua_pushvalue(L, counter);
    lua_rawseti(L, -2, COUNTER);
    if (source->names) {
      push_copy(L, families);
      lua_rawseti(L, -2, FAMILIES);
    }
    compat_setuservalue(L, self);
  }
  lua_settop(L, top);
  return estimator;
}

void push_host_values(lua_State *L, int self, const text_source *source, text_rule *rule) {
  if (!source->counts && !source->names) return;
  compat_getuservalue(L, self);
  lua_rawgeti(L, -1, COUNTER);
  lua_rawgeti(L, -2, FAMILIES);
  lua_remove(L, -3);
  if (source->counts) rule->counter = lua_gettop(L) - 1;
  if (source->names) rule->families = lua_gettop(L);
}

/*
 * Functions
 */

/* compaction.estimate_text_tokens(text, family) --> tokens */
static int l_estimate_text_tokens(lua_State *L) {
  ARGUMENT(at, "estimate_text_tokens", 1, "text");
  ARGUMENT(family_at, "estimate_text_tokens", 2, "family");
  size_t bytes;
  if (lua_type(L, 1) != LUA_TSTRING) bad_type(L, 1, &at, "string");
  cpt_family family = is_absent(L, 2) ? CPT_UNKNOWN : check_family(L, 2, &family_at);
  const char *text = lua_tolstring(L, 1, &bytes);
  compat_push_int64(L, cpt_text_tokens(text, bytes, family));
  return 1;
}

/* compaction.family_of(model, families) --> name of a family */
static int l_family_of(lua_State *L) {
  ARGUMENT(at, "family_of", 1, "model");
  ARGUMENT(families_at, "family_of", 2, "families");
  size_t bytes;
  bool own = !is_absent(L, 2);
  if (own) check_families(L, 2, &families_at);
  const char *model = opt_text(L, 1, &bytes, &at);
  cpt_family family = CPT_UNKNOWN;
  if (model != NULL) family = family_of_model(L, own ? 2 : 0, model, bytes);
  lua_pushstring(L, cpt_family_name(family));
  return 1;
}

static const luaL_Reg functions[] = {
    {"estimate_text_tokens", l_estimate_text_tokens},
    {"family_of", l_family_of},
    {NULL, NULL},
};

void open_text(lua_State *L) {
  register_functions(L, functions, 0);
  lua_createtable(L, CPT_FAMILIES, 0);
  for (int f = 0; f < CPT_FAMILIES; f++) {
    /* the known ones first, "unknown" last */
    lua_pushstring(L, cpt_family_name((cpt_family)((f + 1) % CPT_FAMILIES)));
    lua_rawseti(L, -2, f + 1);
  }
  lua_setfield(L, -2, "FAMILIES");
}
