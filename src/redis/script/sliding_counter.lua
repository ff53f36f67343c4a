-- Sliding counter: two counts, and the window that the second belongs to.
--
-- A string "current previous start period", in microseconds. `a` is the period, `b` whether windows start with the first
-- request, `c` whether parts of a call count. No product leaves (limit + 1) * period, which the caller keeps within 2^53.

local function share(it)
  local weighted = it.previous * it.left
  local part = weighted % it.a
  local whole = (weighted - part) / it.a
  return (it.c == 1 and part > 0) and whole + 1 or whole
end

-- The largest previous count that weighs no more than `room` calls.
local function most(it, room)
  local whole = it.c == 1 and room * it.a or (room + 1) * it.a - 1
  return (whole - whole % it.left) / it.left
end

local function lower(it, current)
  it.current = it.current - current
  if it.current + it.previous > 0 then
    save(it, it.current, it.previous, it.start, it.a)
  else
    redis.call('DEL', it.key)
  end
end

algorithms.c = {
  look = function(it)
    local current, previous, start, period = numbers(it, redis.call('GET', it.key), 4)
    local live = current and current + previous > 0
    if live and now >= start + period then
      -- Seen from the next window, or forgotten.
      live = current > 0 and now < start + period + period
      current, previous, start = 0, current, start + period
    end
    if not live then
      current, previous, start = 0, 0, window_start(it, now)
    elseif period ~= it.a then
      -- What was used of windows of another length counts in full.
      current, previous, start = current + previous, 0, window_start(it, now > start and now or start)
    end
    if current > it.limit then current = it.limit end
    if previous > it.limit then previous = it.limit end
    it.current, it.previous, it.start = current, previous, start
    it.left = it.a - (now > start and now - start or 0)
    local room = it.limit - current - it.cost
    it.fits = it.cost == 0 or (room >= 0 and (it.c == 1 and previous * it.left <= room * it.a
      or it.c == 0 and previous * it.left < (room + 1) * it.a))
    it.keep = start + it.a + it.a - now
    return current, previous, start
  end,

  take = function(it)
    it.current = it.current + it.cost
    save(it, it.current, it.previous, it.start, it.a)
    return it.current, it.previous, it.start
  end,

  -- Whether what is left of the previous window weighs nothing any more.
  is_whole = function(it)
    return it.current + share(it) == 0
  end,

  -- From the current count first, and then as much from the previous one as makes the rest of the difference now.
  refund = function(it)
    local current = it.cost < it.current and it.cost or it.current
    local weight = share(it)
    local rest = it.cost - current < weight and it.cost - current or weight
    if rest > 0 then it.previous = most(it, weight - rest) end
    lower(it, current)
    return current + rest
  end,

  -- Only within the window that was charged: a later one counts it as spread evenly, and not at the instant at which it
  -- was.
  give_back = function(it, charged)
    if it.start ~= charged then return 0 end
    local returned = it.cost < it.current and it.cost or it.current
    lower(it, returned)
    return returned
  end,
}
