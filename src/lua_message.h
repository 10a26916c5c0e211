/* Lua tables into digests. What is read is described in lua/compaction/types.lua. */
#ifndef CPT_LUA_MESSAGE_H
#define CPT_LUA_MESSAGE_H

#include "lua_compat.h" /* before the pragma: hidden lua_* references would not link */

#include "compaction.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/*
 * Where a value stands, for errors. Frames live on the C stack and cost nothing until one
 * is printed. The outermost frame names the function and the number of its argument, the
 * next one the argument, and so on inwards:
 *
 *   { NULL, "calibrate", 1 } <- { &.., "messages", 3 } <- { &.., "usage", 0 }
 *   bad argument #1 to 'calibrate' (messages[3].usage: table expected, got string)
 */
typedef struct where {
  const struct where *up;
  const char *name;
  lua_Integer index; /* the element meant, from 1; 0: the value itself */
} where;

/* A frame for one argument, inside the frame of its function. */
#define ARGUMENT(place, function, number, name)                                                    \
  const where place##_function = {NULL, function, number};                                         \
  const where place = {&place##_function, name, 0}

/* Raise "bad argument … (place: complaint)". The complaint is a format for lua_pushfstring. */
int bad_value(lua_State *L, const where *at, const char *complaint, ...);

/* Raise "<wanted> expected, got <type of the value at index>". */
int bad_type(lua_State *L, int index, const where *at, const char *wanted);

/* Does the value say "nothing here"? Each JSON library has its own null. */
bool is_absent(lua_State *L, int index);

/* The string at index, with its length; NULL and 0 if it is absent. Raises for other values. It
 * lives as long as the value is on the stack. */
const char *opt_text(lua_State *L, int index, size_t *bytes, const where *at);

/* The table at index must hold no keys but the known ones: others are typos. */
void check_options(lua_State *L, int index, const char *const known[], size_t n, const where *at);

/* Read a usage table that may be absent into *usage. */
void read_usage(lua_State *L, int index, cpt_usage *usage, const where *at);

/* A whole number within ±2^53. Raises for anything else, numeric strings included. */
int64_t check_count(lua_State *L, int index, const where *at);

/* How a table's fields are reached: raw, or with __index where it has a metatable. */
enum access { ABSENT, RAW, META };

/* A list of messages on the stack. */
typedef struct message_list {
  int index;
  enum access access;
  lua_Integer length;
} message_list;

/* Make room on the stack for reading messages; once in a C function is enough. */
void reserve_stack(lua_State *L);

/* How the texts of messages are sized besides their bytes. Stack indexes are absolute, 0 = none. */
typedef struct text_rule {
  cpt_family family; /* of the next message */
  bool follows;      /* does a message that names its model change the family? */
  int counter;       /* a function of the host's that counts tokens itself */
  int families;      /* a table of the host's own model names */
} text_rule;

/* Read the message at an absolute index into *m; raises with the place of what is wrong.
 * Needs reserve_stack. `rule` NULL: texts are only counted in bytes. */
void read_message(lua_State *L, int index, cpt_message *m, text_rule *rule, const where *at);

/* Reserves the stack. The argument at an absolute index must be a list of messages. One message,
 * told by its role, is an error that says so. Honours __len and __index on every version. */
message_list check_messages(lua_State *L, int index, const where *at);

/* Read message i of the list, from 1, into *m. */
void read_nth_message(lua_State *L, message_list list, lua_Integer i, cpt_message *m,
                      text_rule *rule, const where *at);

/* Read all messages of the list at an absolute index. Digests live in a userdata; +1. */
const cpt_message *read_messages(lua_State *L, int index, size_t *n, const where *at);

/* Ids of calls as they are read. They start on the C stack and move into a userdata at `slot`. */
typedef struct id_list {
  uint64_t *at;
  size_t count, capacity;
  int slot;
  uint64_t few[16];
} id_list;

/* Add what a host sends outside of messages: a string, or a table as its JSON; it may be absent. */
void read_sent(lua_State *L, int index, cpt_message *m, text_rule *rule, const where *at);

/* Is the value one message (a table with a role), and not a list? */
bool is_message(lua_State *L, int index);

/* Read one message with what pairs calls and results; +1 (the slot of its ids). */
void read_single_entry(lua_State *L, int index, cpt_entry *e, id_list *ids, text_rule *rule,
                       const where *at);

/* Read a list of messages so. Entries live in a userdata; +3. */
const cpt_entry *read_entries(lua_State *L, int index, size_t *n, text_rule *rule, const where *at);

/* Set functions as fields of the table on top. Every function that reads messages must be
 * registered here: it gets the names of the fields as upvalues, and behind them the
 * metatable at index `class` (0: none), for is_object. */
void register_functions(lua_State *L, const luaL_Reg *functions, int class);

/* Is the value a userdata of the class that the running function was registered for? Much
 * cheaper than luaL_checkudata, which looks the class up by name. */
bool is_object(lua_State *L, int index);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
