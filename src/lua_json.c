/* The size of a Lua value as JSON, for what a host keeps as a table and sends as text. */
#include "lua_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Deeper than any tool's arguments; a table that holds itself is deeper still. */
#define MAX_DEPTH 100

static size_t string_bytes(const char *text, size_t bytes) {
  size_t sum = bytes + 2;
  for (size_t i = 0; i < bytes; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c == '"' || c == '\\' || (c >= '\b' && c <= '\r' && c != '\v'))
      sum += 1; /* a backslash before it, or a letter instead */
    else if (c < 0x20)
      sum += 5; /* \u001f */
  }
  return sum;
}

static size_t number_bytes(lua_State *L, int index, const where *at) {
  char digits[40];
  if (compat_is_integer(L, index))
    return (size_t)snprintf(digits, sizeof digits, "%lld", (long long)lua_tointeger(L, index));
  double d = (double)lua_tonumber(L, index);
  if (!isfinite(d)) bad_value(L, at, "a number that JSON can hold expected, got %f", d);
  return (size_t)snprintf(digits, sizeof digits, "%.14g", d);
}

static size_t value_bytes(lua_State *L, int index, int depth, const where *at);

static size_t array_bytes(lua_State *L, int table, int depth, size_t n, const where *at) {
  size_t sum = 2 + (n - 1); /* brackets and commas */
  where here = {at, "", 0};
  for (size_t i = 1; i <= n; i++) {
    here.index = (lua_Integer)i;
    compat_rawgeti(L, table, (lua_Integer)i);
    sum += value_bytes(L, lua_gettop(L), depth + 1, &here);
    lua_pop(L, 1);
  }
  return sum;
}

/* A key is a string, or a number written as one. */
static size_t key_bytes(lua_State *L, int index, const where *at) {
  size_t bytes;
  if (lua_type(L, index) == LUA_TNUMBER) return number_bytes(L, index, at) + 2;
  if (lua_type(L, index) != LUA_TSTRING) bad_type(L, index, at, "string as a key");
  const char *text = lua_tolstring(L, index, &bytes);
  return string_bytes(text, bytes);
}

static size_t object_bytes(lua_State *L, int table, int depth, const where *at) {
  size_t sum = 2, n = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    int value = lua_gettop(L);
    where here = {at, lua_type(L, value - 1) == LUA_TSTRING ? lua_tostring(L, value - 1) : "?", 0};
    sum += (n++ > 0) + key_bytes(L, value - 1, at) + 1 + value_bytes(L, value, depth + 1, &here);
    lua_pop(L, 1);
  }
  return sum;
}

static size_t value_bytes(lua_State *L, int index, int depth, const where *at) {
  size_t bytes;
  const char *text;
  if (depth > MAX_DEPTH) {
    while (depth-- > 0)
      at = at->up; /* the place of the whole says more than a hundred keys */
    bad_value(L, at, "nested too deeply to be JSON, or holds itself");
  }
  luaL_checkstack(L, 8, "compaction");
  switch (lua_type(L, index)) {
  case LUA_TSTRING:
    text = lua_tolstring(L, index, &bytes);
    return string_bytes(text, bytes);
  case LUA_TNUMBER:
    return number_bytes(L, index, at);
  case LUA_TBOOLEAN:
    return lua_toboolean(L, index) ? 4 : 5;
  case LUA_TTABLE:
    if (is_absent(L, index)) return 4;
    bytes = (size_t)compat_rawlen(L, index);
    return bytes > 0 ? array_bytes(L, index, depth, bytes, at) : object_bytes(L, index, depth, at);
  default:
    if (!is_absent(L, index)) bad_type(L, index, at, "JSON value");
    return 4; /* null */
  }
}

size_t json_bytes(lua_State *L, int index, const where *at) { return value_bytes(L, index, 0, at); }
