-- Fixed window: x calls in the window that starts at y. a is the period, b whether windows start with the first request.
if not found or x == 0 or now >= y + found then
  x, y, z = 0, b == 1 and now or now - now % a, 0
elseif found ~= a then
  -- What was used of a window of another length counts in full.
  local from = now > y and now or y
  y = b == 1 and from or from - from % a
end
if x > limit then x = limit end
fits = cost <= limit - x
