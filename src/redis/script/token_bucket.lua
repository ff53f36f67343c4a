-- Token bucket: what is used, in parts of a token, and when that was so.
--
-- A string "used parts at": `used` parts, of which a token has `parts`, at the microsecond `at`. `a` is parts a token and
-- `b` parts that a microsecond refills.

local function full_after(it)
  local rest = it.used % it.b
  return (it.used - rest) / it.b + (rest > 0 and 1 or 0)
end

-- `used` parts of another quota in parts of this one, rounded against the client. No product leaves 2^53.
local function convert(it, used, parts)
  local rest = used % parts
  local whole = (used - rest) / parts
  if whole >= it.limit then return it.limit * it.a end
  local scaled = rest * it.a
  if scaled >= EXACT then return (whole + 1) * it.a end
  local part = scaled % parts
  return whole * it.a + (scaled - part) / parts + (part > 0 and 1 or 0)
end

-- Uses up to so many parts less. Returns how many tokens that is, a part of one counted as one.
local function lower(it, parts)
  local returned = parts < it.used and parts or it.used
  if returned == 0 then return 0 end
  it.used = it.used - returned
  it.keep = it.at - now + full_after(it)
  if it.used > 0 then save(it, it.used, it.a, it.at) else redis.call('DEL', it.key) end
  local rest = returned % it.a
  return (returned - rest) / it.a + (rest > 0 and 1 or 0)
end

algorithms.t = {
  look = function(it)
    local used, parts, at = numbers(it, redis.call('GET', it.key), 3)
    local capacity = it.limit * it.a
    if not used then
      used, at = 0, now
    elseif parts ~= it.a then
      used = convert(it, used, parts)
    end
    if used > capacity then used = capacity end
    if now > at then
      -- Whole refills first, so that the product stays below what is used.
      local elapsed = now - at
      used = (elapsed > (used - used % it.b) / it.b) and 0 or used - elapsed * it.b
      at = now
    end
    it.used, it.at = used, at
    it.fits = it.cost * it.a <= capacity - used
    it.keep = at - now + full_after(it)
    return used, at, 0
  end,

  take = function(it)
    it.used = it.used + it.cost * it.a
    it.keep = it.at - now + full_after(it)
    save(it, it.used, it.a, it.at)
    return it.used, it.at, 0
  end,

  refund = function(it)
    return lower(it, it.cost >= it.limit and it.used or it.cost * it.a)
  end,

  -- What has refilled since the charge is not returned: without the charge, the refill would have found less room.
  give_back = function(it, charged)
    local parts, elapsed = it.cost * it.a, it.at - charged
    if elapsed >= parts / it.b then return 0 end
    return lower(it, elapsed > 0 and parts - elapsed * it.b or parts)
  end,
}
