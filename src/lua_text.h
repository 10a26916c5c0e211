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

/* Where a userdata's knowledge of texts comes from. Its user value is a table that holds the
 * host's counter and names of models, where it gave these. */
typedef struct text_source {
  bool counts;     /* the host counts tokens itself */
  bool names;      /* the host has model names of its own */
  bool one_family; /* the host named the family, whatever the model: */
  cpt_family family;
} text_source;

/* Read the options `estimator` and `families` of the table at `index` into *source and the user
 * value of the userdata at `self`; `absent` is the estimator if none is named. */
cpt_estimator read_text_options(lua_State *L, int self, int index, cpt_estimator absent,
                                text_source *source, const where *at);

/* Let the rule refer to the host's counter and names; they are pushed, +2 or +0. */
void push_host_values(lua_State *L, int self, const text_source *source, text_rule *rule);

/* Add the text functions to the module on top of the stack. */
void open_text(lua_State *L);

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#endif
