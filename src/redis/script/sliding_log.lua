-- Sliding log: the instant of every event in the window.
--
-- A list of "at before count", oldest first: `count` events at the microsecond `at`, with `before` others ahead of them
-- since the list began. Sums of counts are then differences, and both ends of a stretch are found by halving. `a` is the
-- window.

local function entry(it, index)
  return numbers(it, redis.call('LINDEX', it.key, index), 3)
end

-- The first index in [low, high) at which `holds`, which is false up to it and true from there; `high` if nowhere.
local function first(it, low, high, holds)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if holds(entry(it, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

algorithms.l = {
  look = function(it)
    local length = redis.call('LLEN', it.key)
    local newest, before, count = 0, 0, 0
    if length > 0 then newest, before, count = entry(it, -1) end
    local instant = now > newest and now or newest
    local counts = function(at) return instant - at < it.a end
    local from = 0
    if length > 0 and not counts(entry(it, 0)) then from = first(it, 1, length, counts) end
    it.length, it.from, it.newest, it.instant, it.total = length, from, newest, instant, before + count
    it.count, it.base = 0, it.total
    if from < length then
      local _, ahead = entry(it, from)
      it.count, it.base = it.total - ahead, ahead
    end
    local waiting = it.count + it.cost - it.limit
    it.fits = it.cost == 0 or waiting <= 0
    local freed = 0
    if not it.fits and waiting <= it.count then
      freed = entry(it, first(it, from, length, function(_, ahead, n) return ahead + n - it.base >= waiting end))
    end
    it.keep = newest + it.a - now
    return it.count, newest, freed
  end,

  take = function(it)
    if it.from < it.length and it.instant == it.newest then
      local _, before, count = entry(it, -1)
      redis.call('LSET', it.key, -1, text(it.instant, before, count + it.cost))
    else
      redis.call('RPUSH', it.key, text(it.instant, it.total, it.cost))
    end
    if it.from > 0 then redis.call('LTRIM', it.key, it.from, -1) end
    it.keep = it.instant + it.a - now
    expire(it)
    return it.count + it.cost, it.instant, 0
  end,

  -- The newest events, as if the last calls had not been.
  refund = function(it)
    local returned = it.cost < it.count and it.cost or it.count
    local left = returned
    while left > 0 do
      local at, before, count = entry(it, -1)
      if count <= left then
        redis.call('RPOP', it.key)
        left = left - count
      else
        redis.call('LSET', it.key, -1, text(at, before, count - left))
        left = 0
      end
    end
    return returned
  end,

  -- The very events of the charge, or as many of the same instant, as far as they still count.
  give_back = function(it, charged)
    local place = first(it, it.from, it.length, function(at) return at >= charged end)
    if place == it.length then return 0 end
    local at, before, count = entry(it, place)
    if at ~= charged then return 0 end
    local returned = it.cost < count and it.cost or count
    -- Whatever is newer has so many fewer ahead of it.
    local newer = redis.call('LRANGE', it.key, place + 1, -1)
    redis.call('LTRIM', it.key, 0, place)
    if returned == count then
      redis.call('RPOP', it.key)
    else
      redis.call('LSET', it.key, -1, text(at, before, count - returned))
    end
    for i = 1, #newer do
      local later, ahead, n = numbers(it, newer[i], 3)
      redis.call('RPUSH', it.key, text(later, ahead - returned, n))
    end
    expire(it)
    return returned
  end,
}
