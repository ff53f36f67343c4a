-- Sliding log: the instant of every event in the window.
--
-- A list of "at before count", oldest first: `count` events at the microsecond `at`, with `before` others ahead of them
-- since the list began. Sums of counts are then differences, and both ends of a stretch are found by halving. `a` is the
-- window.

local function numbers(value)
  local at, before, count = string.match(value, '^(%d+) (%d+) (%d+)$')
  if not at then error('a key holds something else than the state of this limit') end
  return at + 0, before + 0, count + 0
end

-- Numbers from 10^15 on would be written with an exponent.
local function text(at, before, count)
  return string.format('%.0f %.0f %.0f', at, before, count)
end

local function entry(it, index)
  return numbers(call('LINDEX', it.key, index))
end

-- The first index in [low, high) at which `holds`, which is false up to it and true from there; `high` if nowhere.
local function first(it, low, high, holds)
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if holds(entry(it, middle)) then high = middle else low = middle + 1 end
  end
  return low
end

function rule.look(it)
  local length = call('LLEN', it.key)
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
  it.found = length > 0 and it.a
  it.x, it.y, it.z = it.count, newest, freed
end

function rule.keep(it)
  local keep = it.y + it.a - now
  return keep > 0 and keep or 0
end

function rule.take(it)
  if it.from < it.length and it.instant == it.newest then
    local _, before, count = entry(it, -1)
    call('LSET', it.key, -1, text(it.instant, before, count + it.cost))
  else
    call('RPUSH', it.key, text(it.instant, it.total, it.cost))
  end
  if it.from > 0 then call('LTRIM', it.key, it.from, -1) end
  it.x, it.y, it.z = it.count + it.cost, it.instant, 0
  expire(it)
end

-- The newest events, as if the last calls had not been.
function rule.refund(it)
  local returned = it.cost < it.count and it.cost or it.count
  local left = returned
  while left > 0 do
    local at, before, count = entry(it, -1)
    if count <= left then
      call('RPOP', it.key)
      left = left - count
    else
      call('LSET', it.key, -1, text(at, before, count - left))
      left = 0
    end
  end
  return returned
end

-- The very events of the charge, or as many of the same instant, as far as they still count.
function rule.give_back(it)
  local place = first(it, it.from, it.length, function(at) return at >= mark end)
  if place == it.length then return 0 end
  local at, before, count = entry(it, place)
  if at ~= mark then return 0 end
  local returned = it.cost < count and it.cost or count
  -- Whatever is newer has so many fewer ahead of it.
  local newer = call('LRANGE', it.key, place + 1, -1)
  call('LTRIM', it.key, 0, place)
  if returned == count then
    call('RPOP', it.key)
  else
    call('LSET', it.key, -1, text(at, before, count - returned))
  end
  for i = 1, #newer do
    local later, ahead, n = numbers(newer[i])
    call('RPUSH', it.key, text(later, ahead - returned, n))
  end
  expire(it)
  return returned
end
