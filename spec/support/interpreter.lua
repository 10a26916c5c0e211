-- The command that runs the interpreter under test, or its like outside of Neovim.
return jit and "luajit" or "lua" .. _VERSION:match "%d%.%d"
