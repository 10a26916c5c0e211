/* Text estimates and families of models. */
#ifndef CPT_LUA_TEXT_H
#define CPT_LUA_TEXT_H

#include "lua_message.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* The family of a model: by the host's own names in the table at `families` (0: none), else by
 * what is known. The names were checked by check_families. */
cpt_family family_of_model(lua_State *L, int families, const char *model, size_t bytes);

/* The name of a family at index; raises for others, naming those that exist. */
cpt_family check_family(lua_State *L, int index, const where *at);

/* The table at an absolute index must hold families by patterns of model names. */
void check_families(lua_State *L, int index, const where *at);

/* Add the text functions to the module on top of the stack. */
void open_text(lua_State *L);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
