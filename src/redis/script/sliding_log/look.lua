-- x events, the newest at y; z is when the one was that has to end for the cost to fit. a is the window. What counts begins
-- at the index `from`, or nowhere if that is negative; `total` events ever were, `base` of them ahead of what counts.
local x, y, z = 0, 0, 0
local instant, from, total = now, 0, 0
local base = 0
local value = call('LINDEX', key, -1)
local found = value and a
if value then
  local before, count
  y, before, count = numbers(value)
  total = before + count
  if y > now then instant = y end
  local function counts(at) return instant - at < a end
  if counts(y) then
    local at, ahead = entry(key, 0)
    if not counts(at) then
      from = first(key, 1, counts)
      at, ahead = entry(key, from)
    end
    x, base = total - ahead, ahead
  else
    from = -1
  end
end
local waiting = x + cost - limit
local fits = cost == 0 or waiting <= 0
if not fits and waiting <= x then
  z = entry(key, first(key, from, function(_, ahead, count) return ahead + count - base >= waiting end))
end
