std = "min"
max_line_length = 120
files["spec"] = { std = "min+busted", globals = { "vim" } }
files["spec/support/in_nvim.lua"] = { globals = { "vim", "os" } }
files["lua/compaction/types.lua"] = { ignore = { "212", "211" } }
