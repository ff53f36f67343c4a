-- Fixed window: a count, and the window that it belongs to.
--
-- A string "count start period", in microseconds. `a` is the period, `b` whether windows start with the first request.

algorithms.f = {
  look = function(it)
    local count, start, period = numbers(it, redis.call('GET', it.key), 3)
    if not count or count == 0 or now >= start + period then
      count, start = 0, window_start(it, now)
    elseif period ~= it.a then
      -- What was used of a window of another length counts in full.
      start = window_start(it, now > start and now or start)
    end
    if count > it.limit then count = it.limit end
    it.count, it.start = count, start
    it.fits = it.cost <= it.limit - count
    it.keep = start + it.a - now
    return count, start, 0
  end,

  take = function(it)
    it.count = it.count + it.cost
    save(it, it.count, it.start, it.a)
    return it.count, it.start, 0
  end,

  refund = function(it)
    local returned = it.cost < it.count and it.cost or it.count
    it.count = it.count - returned
    if it.count > 0 then save(it, it.count, it.start, it.a) else redis.call('DEL', it.key) end
    return returned
  end,

  -- Only within the window that was charged: what another one has used is not this charge's.
  give_back = function(it, charged)
    return it.start == charged and algorithms.f.refund(it) or 0
  end,
}
