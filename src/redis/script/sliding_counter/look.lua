-- Sliding counter: x calls in the window that starts at z, and y in the one before. a is the period, b whether windows start
-- with the first request, c whether parts of a call count. No product leaves (limit + 1) * a, which the caller keeps
-- within 2^53.
local live = found and x + y > 0
if live and now >= z + found then
  -- Seen from the next window, or forgotten.
  live = x > 0 and now < z + found + found
  x, y, z = 0, x, z + found
end
if not live then
  x, y, z = 0, 0, b == 1 and now or now - now % a
elseif found ~= a then
  -- What was used of windows of another length counts in full.
  local from = now > z and now or z
  x, y, z = x + y, 0, b == 1 and from or from - from % a
end
if x > limit then x = limit end
if y > limit then y = limit end
local left = a - (now > z and now - z or 0)
local room = limit - x - cost
fits = cost == 0 or room >= 0 and (c == 1 and y * left <= room * a or c == 0 and y * left < (room + 1) * a)
