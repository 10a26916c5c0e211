/* Lua tables into digests.
 *
 * Half of the cost of a message is finding its fields, so their names wait as upvalues of
 * each function that reads (register_functions) and no string is hashed or interned here.
 * Tables without a metatable are read raw; __index of the others is honoured. While Lua may
 * raise, nothing is owned: digests live on the C stack or in a userdata. */
#include "lua_message.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lua_json.h"
#include "lua_text.h"

/* All fields that are read, a line for each table they stand in: the lines are ranges. */
/* clang-format off */
#define KEYS(X)                                                                                    \
  X(role) X(model) X(content) X(multi_content) X(reasoning_content) X(tool_calls) X(function_call)          \
  X(usage) X(tool_call_id) X(compaction)                                                  \
  X(text) X(image_url) X(file) X(document)                                                         \
  X(source)                                                                                        \
  X(inline_text) X(inline_data)                                                                    \
  X(id) X(function)                                                                                \
  X(name) X(arguments)                                                                             \
  X(input_tokens) X(cached_input_tokens) X(cached_write_tokens) X(output_tokens)                   \
  X(reasoning_tokens)                                                                              \
  X(version) X(kept) X(fixed)
/* clang-format on */

#define X(name) KEY_##name,
enum key { KEYS(X) KEY_COUNT };
#undef X

static const char *const key_names[] = {
#define X(name) #name,
    KEYS(X)
#undef X
};

/* Slots that the deepest read takes: the fields of a message, a part, a document and its
 * source, the items between, and some for an error's text. */
#define STACK_SLOTS 48

/*
 * Errors
 */

static void add_place(luaL_Buffer *b, const where *at) {
  char index[32];
  if (at->up == NULL) return; /* the function itself */
  add_place(b, at->up);
  if (at->up->up != NULL && *at->name != '\0') luaL_addchar(b, '.');
  luaL_addstring(b, at->name);
  if (at->index == 0) return;
  snprintf(index, sizeof index, "[%lld]", (long long)at->index);
  luaL_addstring(b, index);
}

/* Is it the argument as a whole, whose name would say nothing new? */
static bool is_argument(const where *at) { return at->up->up == NULL && at->index == 0; }

int bad_value(lua_State *L, const where *at, const char *complaint, ...) {
  const where *function = at;
  while (function->up != NULL)
    function = function->up;
  luaL_checkstack(L, STACK_SLOTS, "compaction");
  luaL_Buffer b;
  luaL_buffinit(L, &b);
  add_place(&b, at);
  luaL_pushresult(&b);
  const char *place = lua_tostring(L, -1);
  va_list arguments;
  va_start(arguments, complaint);
  const char *text = lua_pushvfstring(L, complaint, arguments);
  va_end(arguments);
  return luaL_error(L, "bad argument #%d to '%s' (%s%s%s)", (int)function->index, function->name,
                    is_argument(at) ? "" : place, is_argument(at) ? "" : ": ", text);
}

int bad_type(lua_State *L, int index, const where *at, const char *wanted) {
  return bad_value(L, at, "%s expected, got %s", wanted, luaL_typename(L, index));
}

/*
 * Absent values
 */

/* vim.NIL is a full userdata that is known only by how it prints. */
static bool is_vim_nil(lua_State *L, int index) {
  if (!luaL_callmeta(L, index, "__tostring")) return false;
  const char *text = lua_tostring(L, -1);
  bool yes = text != NULL && strcmp(text, "vim.NIL") == 0;
  lua_pop(L, 1);
  return yes;
}

static bool has_keys(lua_State *L, int index) {
  lua_pushnil(L);
  if (!lua_next(L, index)) return false;
  lua_pop(L, 2);
  return true;
}

static bool has_metafield(lua_State *L, int index, const char *name) {
  if (!luaL_getmetafield(L, index, name)) return false;
  lua_pop(L, 1);
  return true;
}

/* dkjson's null is an empty table that knows how to write itself, and stands for no other. */
static bool is_dkjson_null(lua_State *L, int index) {
  return has_metafield(L, index, "__tojson") && !has_metafield(L, index, "__index") &&
         !has_keys(L, index);
}

bool is_absent(lua_State *L, int index) {
  switch (lua_type(L, index)) {
  case LUA_TNONE:
  case LUA_TNIL:
  case LUA_TLIGHTUSERDATA: /* cjson.null, ngx.null */
  case LUA_TFUNCTION:      /* luajson's null */
    return true;
  case LUA_TUSERDATA:
    return is_vim_nil(L, index);
  case LUA_TTABLE:
    return is_dkjson_null(L, index);
  default:
    return false;
  }
}

/*
 * Values
 */

#define MAX_EXACT 9007199254740992 /* 2^53: up to here a double tells all integers apart */

/* The number at index as a count. */
static int64_t to_count(lua_State *L, int index, const where *at) {
  if (compat_is_integer(L, index)) {
    lua_Integer n = lua_tointeger(L, index);
    if (n >= -MAX_EXACT && n <= MAX_EXACT) return (int64_t)n;
  } else {
    lua_Number d = lua_tonumber(L, index);
    if (d >= -(lua_Number)MAX_EXACT && d <= (lua_Number)MAX_EXACT && d == (lua_Number)(int64_t)d)
      return (int64_t)d; /* NaN fails each comparison */
  }
  return bad_value(L, at, "integer within +-2^53 expected, got %s", lua_tostring(L, index));
}

int64_t check_count(lua_State *L, int index, const where *at) {
  if (lua_type(L, index) != LUA_TNUMBER) return bad_type(L, index, at, "number");
  return to_count(L, index, at);
}

/* A count that may be absent, and then leaves *count as it was. */
static void opt_count(lua_State *L, int index, int type, int64_t *count, const where *at) {
  if (type == LUA_TNUMBER)
    *count = to_count(L, index, at);
  else if (!is_absent(L, index))
    bad_type(L, index, at, "number");
}

/* opt_text for a value whose type is known. */
static const char *text_of_type(lua_State *L, int index, int type, size_t *bytes, const where *at) {
  if (type == LUA_TSTRING) return lua_tolstring(L, index, bytes);
  if (!is_absent(L, index)) bad_type(L, index, at, "string");
  *bytes = 0;
  return NULL;
}

const char *opt_text(lua_State *L, int index, size_t *bytes, const where *at) {
  return text_of_type(L, index, lua_type(L, index), bytes, at);
}

static bool has_metatable(lua_State *L, int index) {
  if (!lua_getmetatable(L, index)) return false;
  lua_pop(L, 1);
  return true;
}

/* How to reach what is in the value; raises if it is neither a table nor absent. */
static enum access opt_table(lua_State *L, int index, const where *at) {
  if (lua_type(L, index) == LUA_TTABLE && !has_metatable(L, index)) return RAW;
  if (is_absent(L, index)) return ABSENT;
  if (lua_type(L, index) != LUA_TTABLE) bad_type(L, index, at, "table");
  return META;
}

/* The same for a value that must be there. */
static enum access check_table(lua_State *L, int index, const where *at) {
  if (lua_type(L, index) != LUA_TTABLE) bad_type(L, index, at, "table");
  if (!has_metatable(L, index)) return RAW;
  if (is_absent(L, index)) bad_value(L, at, "table expected, got null");
  return META;
}

/*
 * Tables
 */

/* push t[key]; +1; the type of what was pushed */
static int push_field(lua_State *L, int t, enum access access, enum key key) {
  lua_pushvalue(L, lua_upvalueindex((int)key + 1));
  return access == RAW ? compat_rawget(L, t) : compat_gettable(L, t);
}

/* Reads one field of a table into what the reader fills. The value at `index` is of `type` and
 * not nil; `table` is the place of its table. */
typedef void read_field(lua_State *L, int index, int type, enum key key, void *into,
                        const where *table);

/* Read the fields first to last of the table at an absolute index. Values are left on the
 * stack until the last is read: that is one call less for each. */
static void read_fields(lua_State *L, int table, enum access access, enum key first, enum key last,
                        read_field *read, void *into, const where *at) {
  int top = lua_gettop(L);
  for (int key = (int)first, index = top + 1; key <= (int)last; key++, index++) {
    int type = push_field(L, table, access, (enum key)key);
    if (type != LUA_TNIL) read(L, index, type, (enum key)key, into, at);
  }
  lua_settop(L, top);
}

/* An empty list that holds a field of a message, a part or a call is one of these, not a
 * list of them. Fields of the host's own do no harm. */
static void refuse_known_keys(lua_State *L, int list, const where *at, const char *items) {
  lua_pushnil(L);
  while (lua_next(L, list)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "";
    bool known = strcmp(name, "type") == 0 || strcmp(name, "messages") == 0;
    for (int k = 0; k < KEY_COUNT && !known; k++)
      known = strcmp(name, key_names[k]) == 0;
    if (known && !is_absent(L, lua_gettop(L)))
      bad_value(L, at, "list of %s expected, got a table with the key '%s'", items, name);
    lua_pop(L, 1);
  }
}

static bool has_role(lua_State *L, int index, enum access access) {
  push_field(L, index, access, KEY_role);
  bool yes = !is_absent(L, lua_gettop(L));
  lua_pop(L, 1);
  return yes;
}

/* The length of a list. Raises if a table is none. */
static lua_Integer list_length(lua_State *L, int list, enum access access, const where *at,
                               const char *items) {
  int64_t n;
  if (access == META && luaL_callmeta(L, list, "__len")) { /* 5.1 ignores it on tables */
    if (lua_type(L, -1) != LUA_TNUMBER)
      bad_value(L, at, "__len must return a length, got %s", luaL_typename(L, -1));
    n = to_count(L, lua_gettop(L), at);
    lua_pop(L, 1);
  } else {
    n = compat_rawlen(L, list);
  }
  if (n < 0 || n > COMPAT_MAX_INDEX) bad_value(L, at, "length of the list is out of range");
  if (n == 0 && has_role(L, list, access))
    bad_value(L, at, "list of %s expected, got one message (it has a role)", items);
  if (n == 0) refuse_known_keys(L, list, at, items);
  return (lua_Integer)n;
}

/* push list[i]; +1 */
static void push_item(lua_State *L, int list, enum access access, lua_Integer i) {
  if (access == RAW) {
    compat_rawgeti(L, list, i);
  } else {
    compat_push_int64(L, i);
    lua_gettable(L, list);
  }
}

/* A message that is being read. */
typedef struct reading {
  cpt_message *m;
  cpt_entry *e;    /* NULL: what pairs calls with results is not asked for */
  id_list *ids;    /* of the calls, where it is */
  text_rule *rule; /* NULL: texts are only counted in bytes */
} reading;

/*
 * Texts, counted in bytes, weighed by a family's tables, or handed to the host's own counter
 */

/* Tokens of the text on top of the stack by the host's counter; it is popped. */
static int64_t count_by_host(lua_State *L, const text_rule *rule, const where *at) {
  lua_pushvalue(L, rule->counter);
  lua_insert(L, -2);
  if (lua_pcall(L, 1, 1, 0) != 0)
    bad_value(L, at, "the estimator function failed: %s", lua_tostring(L, -1));
  if (lua_type(L, -1) != LUA_TNUMBER)
    bad_value(L, at, "the estimator function must return tokens, got %s", luaL_typename(L, -1));
  int64_t tokens = to_count(L, lua_gettop(L), at);
  if (tokens < 0)
    bad_value(L, at, "the estimator function must return tokens, got a negative number");
  lua_pop(L, 1);
  return tokens;
}

static bool has_counter(const reading *r) { return r->rule != NULL && r->rule->counter != 0; }

/* Add the string at index; returns the bytes that the digest took in. */
static int64_t add_text(lua_State *L, int index, const char *text, size_t bytes, const reading *r,
                        const where *at) {
  int64_t before = r->m->bytes;
  if (bytes > 0 && has_counter(r)) {
    lua_pushvalue(L, index);
    cpt_add_weighed(r->m, (int64_t)bytes, 100 * count_by_host(L, r->rule, at), 0);
  } else {
    cpt_add_text(r->m, text, bytes);
  }
  return r->m->bytes - before;
}

static void weigh_piece(void *ud, const char *piece, size_t bytes) {
  cpt_weight_add(ud, piece, bytes);
}

/* Add the table at index as the JSON that it will be sent as. */
static int64_t add_json(lua_State *L, int index, const reading *r, const where *at) {
  cpt_message *m = r->m;
  int64_t before = m->bytes;
  if (has_counter(r)) {
    size_t bytes = push_json(L, index, at);
    cpt_add_weighed(m, (int64_t)bytes, 100 * count_by_host(L, r->rule, at), 0);
  } else if (m->weighs) {
    cpt_weight w;
    cpt_weight_init(&w, (cpt_family)m->family);
    json_write(L, index, weigh_piece, &w, at);
    cpt_add_weighed(m, (int64_t)w.bytes, cpt_weight_hundredths(&w, 0),
                    cpt_weight_hundredths(&w, 1));
  } else {
    cpt_add_weighed(m, (int64_t)json_bytes(L, index, at), 0, 0);
  }
  return m->bytes - before;
}

void read_sent(lua_State *L, int index, cpt_message *m, text_rule *rule, const where *at) {
  reading r = {m, NULL, NULL, rule};
  size_t bytes;
  if (rule != NULL) cpt_message_weigh(m, rule->family);
  if (lua_type(L, index) == LUA_TTABLE && !is_absent(L, index)) {
    add_json(L, index, &r, at);
  } else {
    const char *text = opt_text(L, index, &bytes, at);
    add_text(L, index, text, bytes, &r, at);
  }
}

static void add_call_text(lua_State *L, int index, int type, const reading *r, const where *at) {
  size_t bytes;
  const char *text = text_of_type(L, index, type, &bytes, at);
  r->m->call_bytes += add_text(L, index, text, bytes, r, at);
}

/* Reads the table at index, an item of a list. */
typedef void read_item(lua_State *L, int index, enum access access, reading *r, const where *item);

/* Read each item of a list that may be absent. */
static void read_list(lua_State *L, int list, read_item *read, reading *r, where *here,
                      const char *items) {
  enum access access = opt_table(L, list, here);
  if (access == ABSENT) return;
  lua_Integer n = list_length(L, list, access, here, items);
  for (here->index = 1; here->index <= n; here->index++) {
    push_item(L, list, access, here->index);
    int item = lua_gettop(L);
    read(L, item, check_table(L, item, here), r, here);
    lua_pop(L, 1);
  }
}

void check_options(lua_State *L, int index, const char *const known[], size_t n, const where *at) {
  if (lua_type(L, index) != LUA_TTABLE) bad_type(L, index, at, "table");
  lua_pushnil(L);
  while (lua_next(L, index)) {
    const char *name = lua_type(L, -2) == LUA_TSTRING ? lua_tostring(L, -2) : "?";
    size_t k = 0;
    while (k < n && strcmp(name, known[k]) != 0)
      k++;
    if (k == n) {
      luaL_Buffer b;
      luaL_buffinit(L, &b);
      for (k = 0; k < n; k++) {
        if (k > 0) luaL_addlstring(&b, ", ", 2);
        luaL_addstring(&b, known[k]);
      }
      luaL_pushresult(&b);
      bad_value(L, at, "unknown option '%s' (known: %s)", name, lua_tostring(L, -1));
    }
    lua_pop(L, 1);
  }
}

/*
 * A message, from its innermost tables outwards
 */

static void read_source_field(lua_State *L, int index, int type, enum key key, void *into,
                              const where *source) {
  where here = {source, key_names[key], 0};
  size_t bytes;
  const char *text = text_of_type(L, index, type, &bytes, &here);
  if (bytes == 0) return;
  const reading *r = into;
  if (key == KEY_inline_text)
    add_text(L, index, text, bytes, r, &here);
  else
    cpt_add_attachment(r->m);
}

static void read_document_field(lua_State *L, int index, int type, enum key key, void *into,
                                const where *document) {
  where here = {document, key_names[key], 0};
  (void)type;
  enum access access = opt_table(L, index, &here);
  if (access != ABSENT)
    read_fields(L, index, access, KEY_inline_text, KEY_inline_data, read_source_field, into, &here);
}

static void read_document(lua_State *L, int index, reading *r, const where *at) {
  enum access access = opt_table(L, index, at);
  if (access != ABSENT)
    read_fields(L, index, access, KEY_source, KEY_source, read_document_field, r, at);
}

/* Is there an image or a file? It may be a table or a URL. */
static bool opt_binary(lua_State *L, int index, const where *at) {
  if (lua_type(L, index) == LUA_TSTRING) return true;
  if (is_absent(L, index)) return false;
  if (lua_type(L, index) != LUA_TTABLE) bad_type(L, index, at, "table or string");
  return true;
}

struct part {
  reading *r;
  bool binary; /* an image or a file, or both: one attachment */
};

static void read_part_field(lua_State *L, int index, int type, enum key key, void *into,
                            const where *table) {
  where here = {table, key_names[key], 0};
  struct part *part = into;
  size_t bytes;
  const char *text;
  switch (key) {
  case KEY_text:
    text = text_of_type(L, index, type, &bytes, &here);
    add_text(L, index, text, bytes, part->r, &here);
    break;
  case KEY_document:
    read_document(L, index, part->r, &here);
    break;
  default: /* image_url, file */
    if (opt_binary(L, index, &here)) part->binary = true;
  }
}

static void read_part(lua_State *L, int index, enum access access, reading *r, const where *at) {
  struct part part = {r, false};
  read_fields(L, index, access, KEY_text, KEY_document, read_part_field, &part, at);
  if (part.binary) cpt_add_attachment(r->m);
}

static void read_content(lua_State *L, int index, int type, reading *r, where *here) {
  size_t bytes;
  const char *text;
  switch (type) {
  case LUA_TSTRING:
    text = lua_tolstring(L, index, &bytes);
    add_text(L, index, text, bytes, r, here);
    break;
  case LUA_TTABLE:
    read_list(L, index, read_part, r, here, "parts");
    break;
  default:
    if (!is_absent(L, index)) bad_type(L, index, here, "string or list of parts");
  }
}

/* Arguments may be a table: they count as the JSON that they will be sent as. */
static void read_function_field(lua_State *L, int index, int type, enum key key, void *into,
                                const where *function) {
  where here = {function, key_names[key], 0};
  const reading *r = into;
  if (key == KEY_arguments && type == LUA_TTABLE && !is_absent(L, index))
    r->m->call_bytes += add_json(L, index, r, &here);
  else
    add_call_text(L, index, type, r, &here);
}

/* A called function: its name and its arguments. */
static void read_function(lua_State *L, int index, reading *r, const where *at) {
  enum access access = opt_table(L, index, at);
  if (access != ABSENT)
    read_fields(L, index, access, KEY_name, KEY_arguments, read_function_field, r, at);
}

/* The id of a call as a hash; numbers are ids too. 0 if there is none. */
static uint64_t opt_id(lua_State *L, int index, int type, const where *at) {
  size_t bytes;
  if (type == LUA_TNUMBER) {
    lua_pushvalue(L, index); /* the table's own number stays one */
    const char *digits = lua_tolstring(L, -1, &bytes);
    uint64_t id = cpt_id(digits, bytes);
    lua_pop(L, 1);
    return id;
  }
  const char *text = text_of_type(L, index, type, &bytes, at);
  return cpt_id(text, bytes);
}

static void id_list_init(lua_State *L, id_list *ids) {
  ids->at = ids->few;
  ids->count = 0;
  ids->capacity = sizeof ids->few / sizeof *ids->few;
  lua_pushnil(L);
  ids->slot = lua_gettop(L);
}

static void add_id(lua_State *L, id_list *ids, uint64_t id) {
  if (ids->count == ids->capacity) {
    uint64_t *grown = lua_newuserdata(L, 2 * ids->capacity * sizeof *grown);
    memcpy(grown, ids->at, ids->count * sizeof *grown);
    lua_replace(L, ids->slot);
    ids->at = grown;
    ids->capacity *= 2;
  }
  ids->at[ids->count++] = id;
}

static void read_call_field(lua_State *L, int index, int type, enum key key, void *into,
                            const where *call) {
  where here = {call, key_names[key], 0};
  reading *r = into;
  if (key == KEY_function)
    read_function(L, index, r, &here);
  else
    r->ids->at[r->ids->count - 1] = opt_id(L, index, type, &here);
}

static void read_call(lua_State *L, int index, enum access access, reading *r, const where *at) {
  if (r->e != NULL) {
    add_id(L, r->ids, 0); /* none, unless the call has one */
    r->e->call_count++;
  }
  read_fields(L, index, access, r->e != NULL ? KEY_id : KEY_function, KEY_function, read_call_field,
              r, at);
}

static void read_usage_field(lua_State *L, int index, int type, enum key key, void *into,
                             const where *usage) {
  where here = {usage, key_names[key], 0};
  cpt_usage *u = into;
  switch (key) {
  case KEY_input_tokens:
    opt_count(L, index, type, &u->input_tokens, &here);
    break;
  case KEY_cached_input_tokens:
    opt_count(L, index, type, &u->cached_input_tokens, &here);
    break;
  case KEY_cached_write_tokens:
    opt_count(L, index, type, &u->cached_write_tokens, &here);
    break;
  case KEY_output_tokens:
    opt_count(L, index, type, &u->output_tokens, &here);
    break;
  default:
    opt_count(L, index, type, &u->reasoning_tokens, &here);
  }
}

void read_usage(lua_State *L, int index, cpt_usage *usage, const where *at) {
  enum access access = opt_table(L, index, at);
  if (access == ABSENT) return;
  read_fields(L, index, access, KEY_input_tokens, KEY_reasoning_tokens, read_usage_field, usage,
              at);
}

struct marker {
  int64_t version, kept, fixed;
};

static void read_marker_field(lua_State *L, int index, int type, enum key key, void *into,
                              const where *table) {
  where here = {table, key_names[key], 0};
  struct marker *marker = into;
  int64_t *field = key == KEY_version ? &marker->version
                   : key == KEY_kept  ? &marker->kept
                                      : &marker->fixed;
  opt_count(L, index, type, field, &here);
  if (key != KEY_version && *field < 0 && !is_absent(L, index))
    bad_value(L, &here, "a count is never negative");
}

/* message.compaction: { version = 1, kept = n, fixed = tokens }. Without `kept` the message is
 * another thing that a compaction made, and no summary. */
static void read_marker(lua_State *L, int index, cpt_entry *e, const where *at) {
  struct marker marker = {0, -1, -1};
  enum access access = opt_table(L, index, at);
  if (access == ABSENT) return;
  read_fields(L, index, access, KEY_version, KEY_fixed, read_marker_field, &marker, at);
  if (marker.version != 1 || marker.kept < 0) return;
  e->summary = true;
  e->kept = marker.kept > UINT32_MAX ? UINT32_MAX : (uint32_t)marker.kept;
  e->has_fixed = marker.fixed >= 0;
  e->fixed = marker.fixed;
}

/* An assistant message names its model: it and what follows it is weighed by that family. */
static void follow_model(lua_State *L, const char *name, size_t bytes, reading *r) {
  cpt_family family = family_of_model(L, r->rule->families, name, bytes);
  if (r->e != NULL) {
    r->e->names_model = true;
    r->e->model_family = family;
  }
  if (!r->rule->follows) return;
  r->rule->family = family;
  cpt_message_weigh(r->m, family);
}

static void read_message_field(lua_State *L, int index, int type, enum key key, void *into,
                               const where *message) {
  where here = {message, key_names[key], 0};
  reading *r = into;
  cpt_usage usage = {0};
  size_t bytes;
  const char *text;
  switch (key) {
  case KEY_role:
    text = text_of_type(L, index, type, &bytes, &here);
    if (text != NULL) r->m->role = (uint8_t)cpt_role_of(text, bytes);
    break;
  case KEY_content:
    read_content(L, index, type, r, &here);
    break;
  case KEY_multi_content:
    read_list(L, index, read_part, r, &here, "parts");
    break;
  case KEY_reasoning_content:
    text = text_of_type(L, index, type, &bytes, &here);
    r->m->reasoning_bytes += add_text(L, index, text, bytes, r, &here);
    break;
  case KEY_tool_calls:
    read_list(L, index, read_call, r, &here, "calls");
    break;
  case KEY_function_call:
    read_function(L, index, r, &here);
    break;
  case KEY_model:
    text = text_of_type(L, index, type, &bytes, &here);
    cpt_set_model(r->m, text, bytes);
    if (bytes > 0 && r->rule != NULL && r->m->role == CPT_ASSISTANT)
      follow_model(L, text, bytes, r);
    break;
  case KEY_usage:
    read_usage(L, index, &usage, &here);
    cpt_set_usage(r->m, &usage);
    break;
  case KEY_tool_call_id:
    r->e->answers = opt_id(L, index, type, &here);
    break;
  default:
    read_marker(L, index, r->e, &here);
  }
}

void reserve_stack(lua_State *L) { luaL_checkstack(L, STACK_SLOTS, "compaction"); }

/* Is a table without a role a list? A mistake that would else weigh next to nothing. */
static bool looks_like_list(lua_State *L, int index, enum access access) {
  push_item(L, index, access, 1);
  bool yes = lua_type(L, -1) == LUA_TTABLE;
  lua_pop(L, 1);
  return yes;
}

static void read_table(lua_State *L, int index, reading *r, const where *at) {
  enum access access = check_table(L, index, at);
  cpt_message_init(r->m, CPT_OTHER);
  if (r->rule != NULL) cpt_message_weigh(r->m, r->rule->family);
  read_fields(L, index, access, KEY_role, r->e != NULL ? KEY_compaction : KEY_usage,
              read_message_field, r, at);
  if (r->m->role == CPT_OTHER && !has_role(L, index, access) && looks_like_list(L, index, access))
    bad_value(L, at, "one message expected, got a list");
}

void read_message(lua_State *L, int index, cpt_message *m, text_rule *rule, const where *at) {
  reading r = {m, NULL, NULL, rule};
  read_table(L, index, &r, at);
}

static void read_entry(lua_State *L, int index, cpt_entry *e, id_list *ids, text_rule *rule,
                       const where *at) {
  reading r = {&e->message, e, ids, rule};
  *e = (cpt_entry){.calls = NULL};
  read_table(L, index, &r, at);
}

/* `ids` may have moved while it grew. */
static void link_ids(cpt_entry *entries, size_t n, const id_list *ids) {
  const uint64_t *next = ids->at;
  for (size_t i = 0; i < n; i++) {
    entries[i].calls = next;
    next += entries[i].call_count;
  }
}

bool is_message(lua_State *L, int index) {
  if (lua_type(L, index) != LUA_TTABLE) return false;
  enum access access = has_metatable(L, index) ? META : RAW;
  bool yes = push_field(L, index, access, KEY_role) == LUA_TSTRING || !is_absent(L, lua_gettop(L));
  lua_pop(L, 1);
  return yes;
}

void read_single_entry(lua_State *L, int index, cpt_entry *e, id_list *ids, text_rule *rule,
                       const where *at) {
  id_list_init(L, ids);
  read_entry(L, index, e, ids, rule, at);
  link_ids(e, 1, ids);
}

/*
 * Lists of messages
 */

message_list check_messages(lua_State *L, int index, const where *at) {
  reserve_stack(L);
  enum access access = check_table(L, index, at);
  return (message_list){index, access, list_length(L, index, access, at, "messages")};
}

void read_nth_message(lua_State *L, message_list list, lua_Integer i, cpt_message *m,
                      text_rule *rule, const where *at) {
  where here = {at->up, at->name, i};
  push_item(L, list.index, list.access, i);
  read_message(L, lua_gettop(L), m, rule, &here);
  lua_pop(L, 1);
}

/* How many elements to make room for at first. A __len may claim anything: there, memory is
 * taken as messages turn up. */
static size_t first_capacity(message_list list) {
  const lua_Integer trusted = 256;
  return (size_t)(list.access == META && list.length > trusted ? trusted : list.length);
}

/* Replace the full userdata at slot by one of twice the size; the new home of its elements. */
static void *grow(lua_State *L, int slot, size_t *capacity, size_t size) {
  void *new = lua_newuserdata(L, 2 * *capacity * size);
  memcpy(new, lua_touserdata(L, slot), *capacity * size);
  *capacity *= 2;
  lua_replace(L, slot);
  return new;
}

const cpt_message *read_messages(lua_State *L, int index, size_t *n, const where *at) {
  message_list list = check_messages(L, index, at);
  size_t capacity = first_capacity(list);
  cpt_message *m = lua_newuserdata(L, capacity * sizeof *m);
  int slot = lua_gettop(L);
  for (size_t i = 0; i < (size_t)list.length; i++) {
    if (i == capacity) m = grow(L, slot, &capacity, sizeof *m);
    read_nth_message(L, list, (lua_Integer)i + 1, &m[i], NULL,
                     at); /* C counts from 0, Lua from 1 */
  }
  *n = (size_t)list.length;
  return m;
}

const cpt_entry *read_entries(lua_State *L, int index, size_t *n, text_rule *rule,
                              const where *at) {
  message_list list = check_messages(L, index, at);
  size_t capacity = first_capacity(list);
  id_list *ids = lua_newuserdata(L, sizeof *ids);
  id_list_init(L, ids);
  cpt_entry *e = lua_newuserdata(L, capacity * sizeof *e);
  int slot = lua_gettop(L);
  for (size_t i = 0; i < (size_t)list.length; i++) {
    where here = {at->up, at->name, (lua_Integer)i + 1};
    if (i == capacity) e = grow(L, slot, &capacity, sizeof *e);
    push_item(L, list.index, list.access, (lua_Integer)i + 1); /* C counts from 0, Lua from 1 */
    read_entry(L, lua_gettop(L), &e[i], ids, rule, &here);
    lua_pop(L, 1);
  }
  *n = (size_t)list.length;
  link_ids(e, *n, ids);
  return e;
}

/*
 * Functions that read messages
 */

void register_functions(lua_State *L, const luaL_Reg *functions, int class) {
  luaL_checkstack(L, KEY_COUNT + 2, "compaction");
  for (; functions->name != NULL; functions++) {
    for (int k = 0; k < KEY_COUNT; k++)
      lua_pushstring(L, key_names[k]);
    if (class == 0)
      lua_pushnil(L);
    else
      lua_pushvalue(L, class);
    lua_pushcclosure(L, functions->func, KEY_COUNT + 1);
    lua_setfield(L, -2, functions->name);
  }
}

bool is_object(lua_State *L, int index) {
  if (lua_touserdata(L, index) == NULL || !lua_getmetatable(L, index)) return false;
  bool yes = lua_rawequal(L, -1, lua_upvalueindex(KEY_COUNT + 1));
  lua_pop(L, 1);
  return yes;
}
