/* One source for Lua 5.1 to 5.4. Names are ours: LuaJIT's headers declare some luaL_ names
 * of later versions, and a binary built with 5.1 headers must load into LuaJIT and Neovim. */
#ifndef CPT_LUA_COMPAT_H
#define CPT_LUA_COMPAT_H

#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>

/* One table that lives as long as a userdata: pop it into / push it from the one at i. */
#if LUA_VERSION_NUM < 502
#define compat_setuservalue(L, i) lua_setfenv(L, i)
#define compat_getuservalue(L, i) lua_getfenv(L, i)
#define compat_rawlen(L, i)       ((lua_Integer)lua_objlen(L, i))
#define compat_check_version(L)   ((void)(L))
#else
#define compat_setuservalue(L, i) lua_setuservalue(L, i)
#define compat_getuservalue(L, i) lua_getuservalue(L, i)
#define compat_rawlen(L, i)       ((lua_Integer)lua_rawlen(L, i))
#define compat_check_version(L)   luaL_checkversion(L)
#endif

#if LUA_VERSION_NUM < 503
/* Numbers are doubles there, and a lua_Integer may have 32 bits. */
#define compat_push_int64(L, n) lua_pushnumber(L, (lua_Number)(n))
#define compat_is_integer(L, i) 0
#define compat_rawget(L, t)     (lua_rawget(L, t), lua_type(L, -1))
#define compat_gettable(L, t)   (lua_gettable(L, t), lua_type(L, -1))
/* The range of rawgeti's index. */
#define COMPAT_MAX_INDEX        INT32_MAX
#define compat_rawgeti(L, t, i) lua_rawgeti(L, t, (int)(i))
#else
#define compat_push_int64(L, n) lua_pushinteger(L, (lua_Integer)(n))
#define compat_is_integer(L, i) lua_isinteger(L, i)
#define compat_rawget(L, t)     lua_rawget(L, t)
#define compat_gettable(L, t)   lua_gettable(L, t)
#define COMPAT_MAX_INDEX        (INT64_MAX / 1024)
#define compat_rawgeti(L, t, i) lua_rawgeti(L, t, i)
#endif

#endif
