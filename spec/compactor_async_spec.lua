-- Summarisers that answer later, or raise on the way.
local chats = require "spec.support.chat"
local LONG, chat_of = chats.LONG, chats.chat_of

describe("a summariser that answers later", function()
  it("may yield out of compact", function()
    local chat = chat_of {
      summarize = function(request)
        return coroutine.yield(request.user)
      end,
    }
    local thread = coroutine.create(function()
      return chat:compact()
    end)
    local _, asked = coroutine.resume(thread)
    assert.is_string(asked)
    local ok, done, report = coroutine.resume(thread, "All is well.")
    assert.is_true(ok)
    assert.is_true(done)
    assert.is_true(report.after < report.before)
  end)

  it("folds chunks one after the other, each with the summary so far", function()
    local requests = {}
    local chat = chat_of {
      summarizer_limit = 4000,
      summarize = function(request, done)
        requests[#requests + 1] = request
        done("Part " .. request.chunk)
      end,
    }
    local outcome
    chat:compact(function(ok)
      outcome = ok
    end)
    assert.is_true(outcome)
    assert.is_true(#requests > 1)
    assert.is_nil(requests[1].messages[1].content:find("<summary_so_far>", 1, true))
    for k = 2, #requests do
      local so_far = ("<summary_so_far>\nPart %d\n"):format(k - 1)
      assert.truthy(requests[k].messages[1].content:find(so_far, 1, true))
    end
  end)

  it("finds the conversation changed: nothing is applied", function()
    local done, reason
    local chat = chat_of {
      summarize = function(_, answer)
        done = answer
      end,
    }
    chat:compact(function(_, why)
      reason = why
    end)
    local verdict = chat:decide()
    chat.history:replace(verdict, "Another came first.", "")
    local before = chat:messages()
    done "Late."
    assert.equal("changed", reason)
    assert.same(before, chat:messages())
    assert.is_false(chat:state().busy)
  end)

  it("is asked once: what summarize returns besides does not count", function()
    local outcomes = 0
    local chat = chat_of {
      summarize = function(_, done)
        done "First."
        return "Second."
      end,
    }
    chat:compact(function(ok)
      outcomes = outcomes + (ok and 1 or 0)
    end)
    assert.equal(1, outcomes)
    assert.equal(1, chat:state().compactions)
  end)

  local function raises(name, options)
    it("may raise in " .. name .. ": not busy, and nothing has changed", function()
      local chat = chat_of(options)
      local before = chat:messages()
      local ok, err = pcall(chat.compact, chat, function() end)
      assert.is_false(ok)
      assert.truthy(tostring(err):find("on purpose", 1, true))
      assert.is_false(chat:state().busy)
      assert.same(before, chat:messages())
      assert.is_false((pcall(chat.compact, chat)))
      assert.is_false(chat:state().busy)
    end)
  end
  raises("summarize", {
    summarize = function()
      error "on purpose"
    end,
  })
  raises("on_event", {
    on_event = function(event)
      if event.type == "chunk" then
        error "on purpose"
      end
    end,
  })

  it("may have a callback that raises: what was applied stays, and it is not busy", function()
    local chat = chat_of {
      summarize = function(_, done)
        done "Well done."
      end,
    }
    local ok, err = pcall(chat.compact, chat, function()
      error "on purpose"
    end)
    assert.is_false(ok)
    assert.truthy(tostring(err):find("on purpose", 1, true))
    assert.is_false(chat:state().busy)
    assert.equal(1, chat:state().compactions)
  end)

  it("may be called from within an event: one job at a time", function()
    local chat, inner
    chat = chat_of {
      summarize = function(_, done)
        done "Fine."
      end,
      on_event = function(event)
        if event.type == "applied" then
          inner = { chat:compact() }
        end
      end,
    }
    chat:compact(function() end)
    assert.is_nil(inner[1])
    assert.is_string(inner[2])
    assert.equal(1, chat:state().compactions)
  end)

  if rawget(_G, "vim") then
    it("answers in Neovim's event loop", function()
      local chat = chat_of {
        summarize = function(_, done)
          vim.defer_fn(function()
            done { content = "From the loop.", tool_calls = vim.NIL, reasoning_content = vim.NIL }
          end, 5)
        end,
      }
      local ok
      chat:compact(function(done)
        ok = done
      end)
      assert.is_nil(ok)
      chat:append { role = "assistant", content = LONG, tool_calls = vim.NIL, usage = vim.NIL }
      assert.is_true(vim.wait(2000, function()
        return ok ~= nil
      end))
      assert.is_true(ok)
      local messages = chat:messages()
      assert.truthy(messages[2].content:find("From the loop.", 1, true))
      assert.equal(LONG, messages[#messages].content)
    end)
  end
end)
