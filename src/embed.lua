-- Writes data as C: lua src/embed.lua prompts > src/prompts.c
--                   lua src/embed.lua tables > src/text_tables.c
-- Runs on every Lua from 5.1 on, from the project's folder; the same input gives the same bytes.

local prompts = {
  { symbol = "cpt_system_prompt", file = "prompts/compaction-system.txt" },
  { symbol = "cpt_user_prompt", file = "prompts/compaction-user.txt" },
}

-- In the order of cpt_family.
local tables = {
  { symbol = "openai", file = "src/tables/o200k.u8" },
  { symbol = "openai_legacy", file = "src/tables/cl100k.u8" },
  { symbol = "claude_4", file = "src/tables/claude4.u8" },
  { symbol = "claude_5", file = "src/tables/claude5.u8" },
  { symbol = "gemini", file = "src/tables/gemma3.u8" },
  { symbol = "deepseek", file = "src/tables/dsv3.u8" },
  { symbol = "llama", file = "src/tables/llama3.u8" },
  { symbol = "qwen", file = "src/tables/qwen3.u8" },
}

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

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

-- A table as numbers, a row for each current byte. Long runs of one number are short macros:
-- half of each table is pairs that no text has.
local function row(bytes)
  local out, i = {}, 1
  while i <= #bytes do
    local value, n = bytes:byte(i), 1
    while i + n <= #bytes and bytes:byte(i + n) == value do
      n = n + 1
    end
    i = i + n
    for _, run in ipairs { 64, 16, 4 } do
      while n >= run do
        out[#out + 1] = ("R%d(%d)"):format(run, value)
        n = n - run
      end
    end
    for _ = 1, n do
      out[#out + 1] = tostring(value)
    end
  end
  return table.concat(out, ",")
end

local function write_prompts(out)
  out[#out + 1] = "/* Generated from prompts/ by src/embed.lua (make prompts). Do not edit. */"
  out[#out + 1] = '#include "compaction.h"'
  out[#out + 1] = ""
  out[#out + 1] = "#if defined(__GNUC__)"
  out[#out + 1] = '#pragma GCC diagnostic ignored "-Woverlength-strings"'
  out[#out + 1] = "#endif"
  for _, prompt in ipairs(prompts) do
    local text = read(prompt.file)
    if text:find "[%z\r]" then
      error(prompt.file .. " must be plain text with LF line ends")
    end
    out[#out + 1] = ""
    out[#out + 1] = ("const char %s[] =\n%s;"):format(prompt.symbol, literal(text))
    out[#out + 1] = ("const size_t %s_bytes = sizeof %s - 1;"):format(prompt.symbol, prompt.symbol)
  end
end

local function write_tables(out)
  out[#out + 1] = "/* Generated from src/tables/ by src/embed.lua (make tables). Do not edit. */"
  out[#out + 1] = '#include "text.h"'
  out[#out + 1] = ""
  out[#out + 1] = "#define R4(n) n, n, n, n"
  out[#out + 1] = "#define R16(n) R4(n), R4(n), R4(n), R4(n)"
  out[#out + 1] = "#define R64(n) R16(n), R16(n), R16(n), R16(n)"
  for _, t in ipairs(tables) do
    local bytes = read(t.file)
    assert(#bytes == 65536, t.file .. " must hold 65536 bytes")
    out[#out + 1] = ""
    out[#out + 1] = ("const uint8_t text_table_%s[TEXT_TABLE_BYTES] = {"):format(t.symbol)
    for current = 0, 255 do
      out[#out + 1] = row(bytes:sub(current * 256 + 1, current * 256 + 256)) .. ","
    end
    out[#out + 1] = "};"
  end
end

local writers = { prompts = write_prompts, tables = write_tables }
local write = assert(writers[arg and arg[1]], "usage: lua src/embed.lua prompts|tables > file.c")
local out = {}
write(out)
io.stdout:write(table.concat(out, "\n"), "\n")
