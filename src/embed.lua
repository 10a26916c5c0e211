-- Writes the prompts as C: lua src/embed.lua prompts > src/prompts.c
-- Runs on every Lua from 5.1 on; the same input gives the same bytes on all of them.

local prompts = {
  { symbol = "cpt_system_prompt", file = "compaction-system.txt" },
  { symbol = "cpt_user_prompt", file = "compaction-user.txt" },
}

-- One string literal a line of text. C99 promises literals of 4,095 bytes; compilers take
-- far more, and so -Wpedantic is told in the file itself.
local function literal(text)
  local escapes = { ["\\"] = "\\\\", ['"'] = '\\"', ["\n"] = "\\n", ["?"] = "\\?" } -- "?" ends trigraphs
  local lines = {}
  for line in text:gmatch "[^\n]*\n?" do
    if line ~= "" then
      local escaped = line:gsub('[\\"\n?]', escapes)
      -- three octal digits always end the escape, whatever digit follows
      escaped = escaped:gsub("[^\32-\126]", function(c)
        return ("\\%03o"):format(c:byte())
      end)
      lines[#lines + 1] = '    "' .. escaped .. '"'
    end
  end
  return table.concat(lines, "\n")
end

local folder = assert(arg and arg[1], "usage: lua embed.lua FOLDER-OF-PROMPTS > prompts.c")
local out = {
  "/* Generated from prompts/ by src/embed.lua (make prompts). Do not edit. */",
  '#include "compaction.h"',
  "",
  "#if defined(__GNUC__)",
  '#pragma GCC diagnostic ignored "-Woverlength-strings"',
  "#endif",
}
for _, prompt in ipairs(prompts) do
  local file = assert(io.open(folder .. "/" .. prompt.file, "rb"))
  local text = file:read "*a"
  file:close()
  if text:find "[%z\r]" then
    error(prompt.file .. " must be plain text with LF line ends")
  end
  out[#out + 1] = ""
  out[#out + 1] = ("const char %s[] =\n%s;"):format(prompt.symbol, literal(text))
  out[#out + 1] = ("const size_t %s_bytes = sizeof %s - 1;"):format(prompt.symbol, prompt.symbol)
end
io.stdout:write(table.concat(out, "\n"), "\n")
