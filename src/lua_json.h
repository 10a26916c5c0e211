/* A Lua value as JSON. */
#ifndef CPT_LUA_JSON_H
#define CPT_LUA_JSON_H

#include "lua_message.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Takes the next piece of the text. */
typedef void json_sink(void *ud, const char *piece, size_t bytes);

/* Hand the value at an absolute index to the sink as compact JSON, piece by piece: no spaces,
 * text as it is but for what must be escaped, keys in the order of their bytes. Tables with a
 * length and no other keys are arrays. Raises, with the place, for values that JSON has not and for
 * tables that nest too deeply or hold themselves. No string is built. */
void json_write(lua_State *L, int index, json_sink *sink, void *ud, const where *at);

/* Its size alone. */
size_t json_bytes(lua_State *L, int index, const where *at);

/* push the value at an absolute index as JSON text; +1; its size */
size_t push_json(lua_State *L, int index, const where *at);

/* Set json and is_absent as fields of the table on top: what the Lua files of this library
 * share with the core, not for hosts. */
void open_json(lua_State *L);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
