-- A busted output handler that ends with "N passed, N failed", whatever stands before it.
return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.plainTerminal"(options)
  busted.subscribe({ "exit" }, function()
    local failed = handler.failuresCount + handler.errorsCount + handler.pendingsCount
    io.write(("%d passed, %d failed\n"):format(handler.successesCount, failed))
    io.flush()
    return nil, true
  end)
  return handler
end
