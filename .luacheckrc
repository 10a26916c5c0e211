std = "min"
max_line_length = 120 -- code; the specs hold long texts
files["spec"] = { std = "max+busted", read_globals = { "vim", "jit" }, max_line_length = 160 }
files["spec/overflow_spec.lua"] = { max_line_length = false } -- holds errors as they come
files["spec/support/in_nvim.lua"] = { globals = { "os", "vim" } }
files["lua/compaction/types.lua"] = { ignore = { "21.", "24.", "631" } }
