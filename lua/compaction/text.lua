---Cutting texts without breaking a character.
local M = {}

local function is_inside(byte)
  return byte ~= nil and byte >= 0x80 and byte < 0xC0
end

---The largest prefix of at most n bytes that ends on a UTF-8 edge; where there is none within a
---character's length, the text is no UTF-8 and is cut at n.
function M.head(text, n)
  if n >= #text then
    return text
  end
  local cut = math.max(n, 0)
  while cut > 0 and n - cut < 4 and is_inside(text:byte(cut + 1)) do
    cut = cut - 1
  end
  if is_inside(text:byte(cut + 1)) then
    cut = math.max(n, 0)
  end
  return text:sub(1, cut)
end

---The largest suffix of at most n bytes that starts on a UTF-8 edge.
function M.tail(text, n)
  if n >= #text then
    return text
  end
  local first = #text - math.max(n, 0) + 1
  local edge = first
  while edge <= #text and edge - first < 4 and is_inside(text:byte(edge)) do
    edge = edge + 1
  end
  if is_inside(text:byte(edge)) then
    edge = first
  end
  return text:sub(edge)
end

local function thousands(n)
  local digits = ("%.0f"):format(n)
  return (digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", ""))
end
M.thousands = thousands

---The text in at most n bytes: its beginning and its end, and between them a note of how much is
---missing. nil where that would not be shorter.
function M.cut_middle(text, n)
  if n >= #text then
    return nil
  end
  local note = ("\n[… %s bytes left out …]\n"):format(thousands(#text - n))
  if #note * 3 > n then
    note = " … "
  end
  local room = math.max(n - #note, 0)
  local head = M.head(text, math.ceil(room * 0.6))
  local cut = head .. note .. M.tail(text, room - #head)
  return #cut < #text and cut or nil
end

---The text in pieces of at most n bytes, on UTF-8 edges.
function M.pieces(text, n)
  local pieces = {}
  while #text > n do
    local head = M.head(text, n)
    if head == "" then
      head = text:sub(1, math.max(n, 1))
    end
    pieces[#pieces + 1] = head
    text = text:sub(#head + 1)
  end
  pieces[#pieces + 1] = text
  return pieces
end

return M
