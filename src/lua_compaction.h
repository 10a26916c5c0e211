/* For C programs that embed Lua: the module in their lua_State, and their own conversations in its
 * scripts. Any number of states; each call belongs to the thread that runs the state. */
#ifndef CPT_LUA_COMPACTION_H
#define CPT_LUA_COMPACTION_H

#include <lua.h>

#include "compaction.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The native module, pushed; +1. To be found by `require "compaction"`, put this function into
 * package.preload["compaction.core"]. */
int luaopen_compaction_core(lua_State *L);

/* Push `c` as a conversation for scripts; +1. It is lent: a script may ask and change it, Lua never
 * frees it. It must live until cpt_lua_take_back, or until the state is closed. The same `c` is the
 * same object for as long as a script holds it. Opens what it needs of the module; raises Lua's
 * memory error, or that the stack is full. */
void cpt_lua_push(lua_State *L, cpt_conversation *c);

/* End the loan: whatever scripts still hold answers "the conversation is closed" from now on.
 * Never raises; needs three free stack slots. Nothing happens where `c` is not lent. */
void cpt_lua_take_back(lua_State *L, const cpt_conversation *c);

/* The conversation at the index: lent, or a script's own, which lives only as long as the value
 * there. NULL where there is none, or it is closed. Never raises; needs three free stack slots. */
cpt_conversation *cpt_lua_to(lua_State *L, int index);

#ifdef __cplusplus
}
#endif

#endif
