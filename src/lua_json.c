/* A Lua value as JSON, for what a host keeps as a table and sends as text. */
#include "lua_json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Deeper than any tool's arguments; a table that holds itself is deeper still. */
#define MAX_DEPTH 100

/* More values than any arguments have: tables that share tables may unfold without end. */
#define MAX_VALUES 4000000

struct writer {
  json_sink *sink;
  void *ud;
  size_t values; /* written so far */
};

static void put(struct writer *w, const char *text) { w->sink(w->ud, text, strlen(text)); }

/* The escape for a byte, NULL if it stands for itself. */
static const char *escape_of(unsigned char c, char hex[8]) {
  switch (c) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\b':
    return "\\b";
  case '\f':
    return "\\f";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  }
  if (c >= 0x20) return NULL;
  snprintf(hex, 8, "\\u%04x", c);
  return hex;
}

static void write_string(struct writer *w, const char *text, size_t bytes) {
  char hex[8];
  size_t plain = 0; /* start of what needs no escape */
  put(w, "\"");
  for (size_t i = 0; i < bytes; i++) {
    const char *escape = escape_of((unsigned char)text[i], hex);
    if (escape == NULL) continue;
    w->sink(w->ud, text + plain, i - plain);
    put(w, escape);
    plain = i + 1;
  }
  w->sink(w->ud, text + plain, bytes - plain);
  put(w, "\"");
}

/* The number at index as JSON has it. */
static void format_number(lua_State *L, int index, char digits[40], const where *at) {
  if (compat_is_integer(L, index)) {
    snprintf(digits, 40, "%lld", (long long)lua_tointeger(L, index));
    return;
  }
  double d = (double)lua_tonumber(L, index);
  if (!isfinite(d)) bad_value(L, at, "a number that JSON can hold expected, got %f", d);
  snprintf(digits, 40, "%.14g", d);
}

/* Has the table more keys than an array of that length? */
static bool has_other_keys(lua_State *L, int table, size_t length) {
  size_t keys = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    keys++;
    lua_pop(L, 1);
    if (keys <= length) continue;
    lua_pop(L, 1);
    return true;
  }
  return false;
}

/* The place of the whole, which says more than a hundred keys. */
static const where *whole(const where *at, int depth) {
  while (depth-- > 0)
    at = at->up;
  return at;
}

static void write_value(lua_State *L, int index, int depth, struct writer *w, const where *at);

static void write_array(lua_State *L, int table, int depth, size_t n, struct writer *w,
                        const where *at) {
  where here = {at, "", 0};
  put(w, "[");
  for (size_t i = 1; i <= n; i++) {
    here.index = (lua_Integer)i;
    if (i > 1) put(w, ",");
    compat_rawgeti(L, table, (lua_Integer)i);
    write_value(L, lua_gettop(L), depth + 1, w, &here);
    lua_pop(L, 1);
  }
  put(w, "]");
}

/* A key: its text, and the slot of a Lua table where the key itself waits. */
struct key {
  const char *text;
  size_t bytes;
  lua_Integer slot;
};

static int compare_keys(const void *a, const void *b) {
  const struct key *x = a, *y = b;
  size_t common = x->bytes < y->bytes ? x->bytes : y->bytes;
  int order = memcmp(x->text, y->text, common);
  if (order != 0) return order;
  return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* push a table of the keys, and a userdata of them sorted; +2 */
static const struct key *sort_keys(lua_State *L, int table, size_t *n, const where *at) {
  char digits[40];
  lua_newtable(L);
  int keys = lua_gettop(L);
  lua_Integer slots = 0;
  lua_pushnil(L);
  while (lua_next(L, table)) {
    int key = lua_gettop(L) - 1;
    if (lua_type(L, key) == LUA_TNUMBER) { /* JSON's keys are text: at slot, the key behind it */
      format_number(L, key, digits, at);
      lua_pushstring(L, digits);
    } else {
      if (lua_type(L, key) != LUA_TSTRING) bad_type(L, key, at, "string as a key");
      lua_pushvalue(L, key);
    }
    lua_rawseti(L, keys, (int)++slots);
    lua_pushvalue(L, key);
    lua_rawseti(L, keys, (int)++slots);
    lua_pop(L, 1);
  }
  *n = (size_t)slots / 2;
  struct key *sorted = lua_newuserdata(L, (*n + 1) * sizeof *sorted);
  for (size_t i = 0; i < *n; i++) {
    sorted[i].slot = (lua_Integer)(2 * i + 2);
    compat_rawgeti(L, keys, sorted[i].slot - 1);
    sorted[i].text = lua_tolstring(L, -1, &sorted[i].bytes);
    lua_pop(L, 1); /* the table of keys holds it */
  }
  qsort(sorted, *n, sizeof *sorted, compare_keys);
  return sorted;
}

static void write_object(lua_State *L, int table, int depth, struct writer *w, const where *at) {
  size_t n;
  const struct key *keys = sort_keys(L, table, &n, at);
  int slots = lua_gettop(L) - 1;
  put(w, "{");
  for (size_t i = 0; i < n; i++) {
    where here = {at, keys[i].text, 0};
    if (i > 0) put(w, ",");
    write_string(w, keys[i].text, keys[i].bytes);
    put(w, ":");
    compat_rawgeti(L, slots, keys[i].slot);
    lua_rawget(L, table);
    write_value(L, lua_gettop(L), depth + 1, w, &here);
    lua_pop(L, 1);
  }
  put(w, "}");
  lua_pop(L, 2);
}

static void write_value(lua_State *L, int index, int depth, struct writer *w, const where *at) {
  size_t bytes;
  const char *text;
  char digits[40];
  if (depth > MAX_DEPTH)
    bad_value(L, whole(at, depth), "nested too deeply to be JSON, or holds itself");
  if (++w->values > MAX_VALUES) bad_value(L, whole(at, depth), "too many values to be JSON");
  luaL_checkstack(L, 12, "compaction");
  switch (lua_type(L, index)) {
  case LUA_TSTRING:
    text = lua_tolstring(L, index, &bytes);
    write_string(w, text, bytes);
    break;
  case LUA_TNUMBER:
    format_number(L, index, digits, at);
    put(w, digits);
    break;
  case LUA_TBOOLEAN:
    put(w, lua_toboolean(L, index) ? "true" : "false");
    break;
  default:
    if (is_absent(L, index)) {
      put(w, "null");
    } else if (lua_type(L, index) != LUA_TTABLE) {
      bad_type(L, index, at, "JSON value");
    } else {
      bytes = (size_t)compat_rawlen(L, index);
      if (bytes > 0 && !has_other_keys(L, index, bytes))
        write_array(L, index, depth, bytes, w, at);
      else
        write_object(L, index, depth, w, at);
    }
  }
}

void json_write(lua_State *L, int index, json_sink *sink, void *ud, const where *at) {
  struct writer w = {sink, ud, 0};
  write_value(L, index, 0, &w, at);
}

static void count_bytes(void *ud, const char *piece, size_t bytes) {
  (void)piece;
  *(size_t *)ud += bytes;
}

size_t json_bytes(lua_State *L, int index, const where *at) {
  size_t sum = 0;
  json_write(L, index, count_bytes, &sum, at);
  return sum;
}

/* Where a text is put together. A finalizer of the host's may change the table between the two
 * passes over it. */
struct buffer {
  char *end;
  size_t left;
  bool full;
};

static void append_piece(void *ud, const char *piece, size_t bytes) {
  struct buffer *b = ud;
  b->full = b->full || bytes > b->left;
  if (b->full) return;
  memcpy(b->end, piece, bytes);
  b->end += bytes;
  b->left -= bytes;
}

size_t push_json(lua_State *L, int index, const where *at) {
  size_t bytes = json_bytes(L, index, at);
  char *text = lua_newuserdata(L, bytes + 1);
  struct buffer b = {text, bytes, false};
  json_write(L, index, append_piece, &b, at);
  if (b.full || b.left > 0) bad_value(L, at, "it changed while it was read");
  lua_pushlstring(L, text, bytes);
  lua_remove(L, -2);
  return bytes;
}

/* core.json(value, function, place) --> its text; errors name the function and the place */
static int l_json(lua_State *L) {
  ARGUMENT(at, luaL_checkstring(L, 2), 1, luaL_checkstring(L, 3));
  lua_settop(L, 3);
  push_json(L, 1, &at);
  return 1;
}

/* core.is_absent(value) --> boolean */
static int l_is_absent(lua_State *L) {
  lua_pushboolean(L, is_absent(L, 1));
  return 1;
}

static const luaL_Reg functions[] = {
    {"json", l_json},
    {"is_absent", l_is_absent},
    {NULL, NULL},
};

void open_json(lua_State *L) { register_functions(L, functions, 0); }
