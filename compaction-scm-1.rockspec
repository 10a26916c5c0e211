rockspec_format = "3.0"
package = "compaction"
version = "scm-1"
source = { url = "git+https://example.org/compaction.git" }
description = {
  summary = "Keeps the conversation of an LLM agent inside its context window",
  detailed = [[
    Sizes chat messages (by the provider's own counts where there are any, else by a
    calibrated heuristic), says when a conversation must be compacted and where to cut it.
    A C core with a Lua face; no network, no JSON, no dependency but Lua.]],
  license = "MIT",
  labels = { "llm", "agent", "tokens", "neovim" },
}
dependencies = { "lua >= 5.1, < 5.6" }
test_dependencies = { "busted" }
test = { type = "busted" }
build = {
  type = "builtin",
  modules = {
    ["compaction.core"] = {
      sources = {
        "src/breakdown.c",
        "src/calibrate.c",
        "src/conversation.c",
        "src/estimate.c",
        "src/family.c",
        "src/lua_compaction.c",
        "src/lua_conversation.c",
        "src/lua_json.c",
        "src/lua_message.c",
        "src/lua_text.c",
        "src/message.c",
        "src/plan.c",
        "src/prompts.c",
        "src/snapshot.c",
        "src/split.c",
        "src/tally.c",
        "src/text.c",
        "src/text_tables.c",
        "src/unit.c",
      },
      incdirs = { "src" },
    },
  },
}
