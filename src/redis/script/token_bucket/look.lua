-- Token bucket: x parts of a token are used, as of y. a is parts a token, b parts that a microsecond refills.
local capacity = limit * a
if not found then
  x, y, z = 0, now, 0
elseif found ~= a then
  -- x parts of another quota in parts of this one, rounded against the client. No product leaves 2^53.
  local rest = x % found
  local whole, scaled = (x - rest) / found, rest * a
  if whole >= limit then
    x = capacity
  elseif scaled >= 9007199254740992 then
    x = (whole + 1) * a
  else
    local part = scaled % found
    x = whole * a + (scaled - part) / found + (part > 0 and 1 or 0)
  end
end
if x > capacity then x = capacity end
if now > y then
  -- Whole refills first, so that the product stays below what is used.
  local elapsed = now - y
  x = elapsed > (x - x % b) / b and 0 or x - elapsed * b
  y = now
end
fits = cost * a <= capacity - x
