/* The size of a Lua value as JSON. */
#ifndef CPT_LUA_JSON_H
#define CPT_LUA_JSON_H

#include "lua_message.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Bytes of the value at an absolute index as compact JSON: no spaces, text as it is but for
 * what must be escaped. Tables with a length are arrays. Raises, with the place, for values
 * that JSON has not and for tables that nest too deeply or hold themselves. No string is
 * built. */
size_t json_bytes(lua_State *L, int index, const where *at);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
