# compaction: `make` builds for $(LUA), `make demo` shows the main job, `make test` runs all specs.

LUA ?= lua5.4
CC ?= cc
CFLAGS ?= -O2
PREFIX ?= /usr/local
TRANSCRIPT ?= doc/examples/session.json
LIMIT ?= 50000

WARNINGS := -Wall -Wextra -Wpedantic -Wconversion
OWN_CFLAGS = $(WARNINGS) -fPIC -MMD -MP
CORE := $(filter-out src/lua_%.c,$(wildcard src/*.c))
BINDING := $(wildcard src/lua_*.c)

# The version of Lua that $(LUA) speaks, and its headers. LuaJIT takes those of 5.1: a
# module built with its own headers does not load into PUC Lua.
V := $(shell $(LUA) -e 'io.write(_VERSION:match "%d%.%d")' 2>/dev/null)
LUA_CFLAGS = $(shell pkg-config --cflags-only-I lua$(V))
LUA_LIBS = $(shell pkg-config --libs lua$(V))

# One tree of objects a version; BUILD moves the whole forest (the sanitizers' stands apart).
BUILD ?= build
TREE = $(BUILD)/$(V)
MODULE = $(TREE)/compaction/core.so
CORE_OBJECTS = $(CORE:src/%.c=$(BUILD)/core/%.o)
BINDING_OBJECTS = $(BINDING:src/%.c=$(TREE)/%.o)
LIBRARY = $(BUILD)/libcompaction.a
LIB_FLAGS := $(if $(filter Darwin,$(shell uname)),-bundle -undefined dynamic_lookup,-shared)

.PHONY: build test specs lint format prompts lib demo bench nvim asan install clean need-%

build: $(MODULE)

need-%:
	@sh .ci/need.sh $* $(LUA)

$(MODULE): $(CORE_OBJECTS) $(BINDING_OBJECTS)
	@test -n "$(V)" || { echo "$(LUA) does not run; make demo installs what is missing" >&2; exit 1; }
	@mkdir -p $(@D)
	$(CC) $(LIB_FLAGS) $(CFLAGS) $(LDFLAGS) $^ -o $@

$(BUILD)/core/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OWN_CFLAGS) -c $< -o $@

$(TREE)/lua_%.o: src/lua_%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OWN_CFLAGS) $(LUA_CFLAGS) -c $< -o $@

# For C hosts without Lua.
lib: $(LIBRARY) $(BUILD)/compaction.h

$(LIBRARY): $(CORE_OBJECTS)
	$(AR) rcs $@ $^

$(BUILD)/compaction.h: src/compaction.h
	cp $< $@

# Neovim finds a module beside the Lua files by itself. It runs LuaJIT: the 5.1 build.
nvim:
	@$(MAKE) --no-print-directory build LUA=lua5.1
	cp $(BUILD)/5.1/compaction/core.so lua/compaction/core.so

prompts: src/prompts.c

src/prompts.c: src/embed.lua $(wildcard prompts/*.txt)
	$(LUA) src/embed.lua prompts > $@.new && mv $@.new $@

demo: need-demo
	@$(MAKE) --no-print-directory --silent build
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='./$(TREE)/?.so;;' \
	  $(LUA) doc/examples/demo.lua '$(TRANSCRIPT)' '$(LIMIT)'

# All interpreters, Neovim and the C specs; with LUA=lua5.1 given, that one alone.
ALL := lua5.1 lua5.2 lua5.3 lua5.4 luajit nvim
INTERPRETERS := $(if $(filter file default,$(origin LUA)),$(ALL),$(LUA))

test: need-test
	@$(MAKE) --no-print-directory specs

specs:
	@for lua in $(filter lua5.%,$(INTERPRETERS)); do \
	  $(MAKE) --no-print-directory --silent build c-specs LUA=$$lua || exit 1; done
	@$(if $(filter luajit,$(INTERPRETERS)),$(MAKE) --no-print-directory --silent build LUA=lua5.1,:)
	@$(if $(filter nvim,$(INTERPRETERS)),$(MAKE) --no-print-directory --silent nvim,:)
	@COMPACTION_BUILD=$(BUILD) sh spec/run.sh $(INTERPRETERS)

# C programs that prove what Lua cannot: the core without Lua, states, allocation.
C_SPECS = $(patsubst spec/c/%.c,$(TREE)/%,$(wildcard spec/c/*_spec.c))
.PHONY: c-specs
c-specs: $(C_SPECS)

$(TREE)/core_%_spec: spec/c/core_%_spec.c lib
	$(CC) $(CFLAGS) $(WARNINGS) -I$(BUILD) $< $(LIBRARY) -lcmocka -o $@

$(TREE)/lua_%_spec: spec/c/lua_%_spec.c $(BINDING_OBJECTS) $(LIBRARY)
	$(CC) $(CFLAGS) $(WARNINGS) -Isrc $(LUA_CFLAGS) $< $(BINDING_OBJECTS) $(LIBRARY) $(LUA_LIBS) -lcmocka -lpthread -o $@

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan: need-test
	@$(MAKE) --no-print-directory specs BUILD=build/asan CFLAGS='$(SANITIZE)' LUA=$(LUA) SANITIZED=1

bench: need-bench
	@$(MAKE) --no-print-directory --silent build LUA=lua5.4
	@$(MAKE) --no-print-directory --silent build LUA=lua5.1
	@for lua in lua5.4 luajit; do LUA_PATH='./lua/?.lua;./lua/?/init.lua;./spec/bench/?.lua;;' \
	  LUA_CPATH="./$(BUILD)/$$($$lua -e 'io.write(_VERSION:match "%d%.%d")')/?.so;;" \
	  $$lua spec/bench/seed.lua || exit 1; done

LUA_FILES := lua spec src/embed.lua doc/examples .busted .luacheckrc compaction-scm-1.rockspec
C_FILES := $(wildcard src/*.[ch] spec/c/*.[ch])
STYLUA := $(firstword $(wildcard build/tools/node_modules/.bin/stylua) $(shell command -v stylua))

lint: need-lint
	luacheck --quiet lua spec src doc/examples
	clang-format --dry-run -Werror $(filter-out src/prompts.c,$(C_FILES))
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr \
	  --suppressions-list=.cppcheck --std=c11 $(LUA_CFLAGS) src
	$(if $(STYLUA),$(STYLUA) --check lua spec src/embed.lua doc/examples,@echo "stylua not found: Lua format not checked")

format:
	clang-format -i $(filter-out src/prompts.c,$(C_FILES))
	$(if $(STYLUA),$(STYLUA) lua spec src/embed.lua doc/examples)

install: build
	install -d $(DESTDIR)$(PREFIX)/lib/lua/$(V)/compaction $(DESTDIR)$(PREFIX)/share/lua/$(V)/compaction
	install -m 755 $(MODULE) $(DESTDIR)$(PREFIX)/lib/lua/$(V)/compaction/core.so
	cd lua/compaction && find . -name '*.lua' -exec \
	  install -D -m 644 {} $(DESTDIR)$(PREFIX)/share/lua/$(V)/compaction/{} \;

# Also what `luarocks make` leaves beside the sources.
clean:
	rm -rf build lua/compaction/core.so compaction src/*.o src/*.new

-include $(CORE_OBJECTS:.o=.d) $(BINDING_OBJECTS:.o=.d)
