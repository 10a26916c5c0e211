-- Runs the specs inside Neovim: nvim --headless -u NONE -i NONE -n -c 'luafile spec/support/in_nvim.lua'
-- The module under test is found as a plugin's would be: lua/compaction/core.so on the runtimepath.
vim.cmd "set runtimepath^=."
package.path = "/usr/share/lua/5.1/?.lua;/usr/share/lua/5.1/?/init.lua;" .. package.path
package.cpath = "/usr/lib/" .. vim.loop.os_uname().machine .. "-linux-gnu/lua/5.1/?.so;" .. package.cpath
_G.arg = { [0] = "busted" }

-- busted ends by os.exit when a spec fails and by returning when all pass.
os.exit = function(code)
  io.stdout:flush()
  vim.cmd((code == true or code == 0 or code == nil) and "qall!" or "cquit 1")
end
local ok, message = pcall(require "busted.runner", { standalone = false })
if not ok then
  io.stdout:write(tostring(message), "\n0 passed, 1 failed\n")
  os.exit(1)
end
os.exit(0)
