-- The module as a whole: its names, its files, its texts.
local compaction = require "compaction"
local json = require "spec.support.json"
local interpreter = require "spec.support.interpreter"
local read = json.read

-- What is loaded when it is first asked for.
local LAZY = {
  adapter = "table",
  fit = "function",
  repair = "function",
  overflow = "function",
  compactor = "function",
  policy = "table",
}

local function lines(command)
  local pipe = assert(io.popen(command))
  local found = {}
  for line in pipe:lines() do
    found[#found + 1] = line
  end
  pipe:close()
  return found
end

local function all_names()
  local names = {}
  for _, list in ipairs { compaction, LAZY } do
    for name in pairs(list) do
      names[name] = true
    end
  end
  return names
end

-- Run Lua text with these globals.
local function run(text, globals)
  local chunk
  if setfenv then
    chunk = setfenv(assert(loadstring(text)), globals)
  else
    chunk = assert(load(text, "=text", "t", globals))
  end
  chunk()
  return globals
end

-- A rockspec is Lua without any library.
local function load_rockspec()
  return run(read "compaction-scm-1.rockspec", {})
end

describe("the module", function()
  it("has these names and no others", function()
    local names = {}
    for name, value in pairs(compaction) do
      names[name] = LAZY[name] == nil and type(value) or nil
    end
    for name, kind in pairs(LAZY) do
      assert.equal(kind, type(compaction[name]))
    end
    assert.is_nil(compaction.no_such_name)
    assert.same({
      _VERSION = "string",
      DEFAULT_THRESHOLD = "number",
      SYSTEM_PROMPT = "string",
      USER_PROMPT = "string",
      estimate_message_tokens = "function",
      should_compact = "function",
      split_index_for_keep = "function",
      first_index_in_budget = "function",
      new_estimator = "function",
      new_slice_estimator = "function",
      estimate_text_tokens = "function",
      family_of = "function",
      FAMILIES = "table",
      conversation = "function",
      restore = "function",
    }, names)
  end)

  it("loads nothing before it is asked for", function()
    local loaded = lines(
      interpreter
        .. [[ -e 'package.path, package.cpath = "]]
        .. package.path
        .. [[", "]]
        .. package.cpath
        .. [["; require "compaction"; for name in pairs(package.loaded) do print(name) end']]
    )
    local ours = {}
    for _, name in ipairs(loaded) do
      ours[#ours + 1] = name:match "^compaction.*"
    end
    table.sort(ours)
    assert.same({ "compaction", "compaction.core" }, ours)
  end)

  it("sets no global", function()
    for name in pairs(_G) do
      assert.is_not.matches("compaction", tostring(name))
    end
  end)

  it("has one version everywhere", function()
    local header = read("src/compaction.h"):match '#define CPT_VERSION "([^"]+)"'
    assert.equal("compaction " .. header, compaction._VERSION)
  end)

  it("is described in types.lua, name by name", function()
    local types = read "lua/compaction/types.lua"
    for name in pairs(all_names()) do
      assert.truthy(
        types:find("function compaction%." .. name .. "%(") or types:find("@field " .. name .. " "),
        name
      )
    end
    assert.is_false(pcall(require, "compaction.types"))
  end)
end)

describe("the rockspec", function()
  it("names every source file", function()
    local rockspec = load_rockspec()
    assert.same(lines "ls src/*.c", rockspec.build.modules["compaction.core"].sources)
  end)

  it("depends on Lua alone", function()
    assert.same({ "lua >= 5.1, < 5.6" }, load_rockspec().dependencies)
  end)
end)

describe("the wall", function()
  it("keeps Lua out of every C file whose name does not start with lua_", function()
    for _, file in ipairs(lines "ls src/*.c src/*.h") do
      if not file:find "/lua_" then
        assert.is_nil(read(file):match '#include *[<"]lu?a[^>"]*', file)
      end
    end
  end)
end)

describe("the prompts", function()
  it("are the files, byte for byte", function()
    assert.equal(read "prompts/compaction-system.txt", compaction.SYSTEM_PROMPT)
    assert.equal(read "prompts/compaction-user.txt", compaction.USER_PROMPT)
  end)

  it("are plain UTF-8 with LF", function()
    for _, text in ipairs { compaction.SYSTEM_PROMPT, compaction.USER_PROMPT } do
      assert.is_nil(text:find "[\r%z]")
      assert.equal("\n", text:sub(-1))
    end
  end)

  it("ask for every section that a successor needs", function()
    for _, section in ipairs {
      "Goal",
      "Constraints and preferences",
      "State",
      "Decisions",
      "Files",
      "Commands",
      "Errors and identifiers",
      "Next step",
    } do
      assert.truthy(compaction.USER_PROMPT:find("\n## " .. section .. "\n", 1, true), section)
    end
  end)

  it("are in src/prompts.c what embed.lua makes of them", function()
    local made = table.concat(lines(interpreter .. " src/embed.lua prompts"), "\n") .. "\n"
    assert.equal(read "src/prompts.c", made)
  end)
end)

describe("the tables", function()
  it("are in src/text_tables.c what embed.lua makes of them", function()
    local made = table.concat(lines(interpreter .. " src/embed.lua tables"), "\n") .. "\n"
    assert.is_true(read "src/text_tables.c" == made)
  end)
end)

describe("README", function()
  local readme = read "README.md"

  it("has Lua that runs as written", function()
    local printed = {}
    local globals = setmetatable({
      print = function(...)
        local texts = {}
        for i = 1, select("#", ...) do
          texts[i] = tostring((select(i, ...)))
        end
        printed[#printed + 1] = table.concat(texts, " ")
      end,
    }, { __index = _G })
    for block in readme:gmatch "```lua\n(.-)```" do
      run(block, globals)
    end
    assert.same({
      "37 of 401 messages, 6905 of 76388 tokens",
      "summarise messages 1 to 4, keep 5 to 6",
      "tool true 2161 anchor",
      "tokens 213462 200000 13462",
    }, printed)
  end)

  it("names every function", function()
    for name in pairs(all_names()) do
      assert.truthy(readme:find("`" .. name, 1, true), name)
    end
  end)
end)
