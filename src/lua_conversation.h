/* The conversation as a userdata. */
#ifndef CPT_LUA_CONVERSATION_H
#define CPT_LUA_CONVERSATION_H

#include "lua_message.h"

#if defined(__GNUC__)
#pragma GCC visibility push(hidden)
#endif

/* Add conversation and restore to the module on top of the stack, and create their class. */
void open_conversation(lua_State *L);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
