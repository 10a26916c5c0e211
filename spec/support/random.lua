-- Random numbers of our own: the same on every interpreter. random(n) gives 0 … n - 1.
return function(seed)
  local state = seed % 2147483646 + 1
  return function(n)
    state = (state * 16807) % 2147483647
    return state % n
  end
end
