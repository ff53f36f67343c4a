-- The newest events, as if the last calls had not been.
function rule.refund(it)
  local key = it.key
  local returned = it.cost < it.x and it.cost or it.x
  local left = returned
  while left > 0 do
    local at, before, count = entry(key, -1)
    if count <= left then
      call('RPOP', key)
      left = left - count
    else
      call('LSET', key, -1, text(at, before, count - left))
      left = 0
    end
  end
  return returned
end

-- The very events of the charge, or as many of the same instant, as far as they still count.
function rule.give_back(it)
  local key = it.key
  if it.x == 0 then return 0 end
  local place = first(key, it.from, function(at) return at >= mark end)
  local value = call('LINDEX', key, place)
  if not value then return 0 end
  local at, before, count = numbers(value)
  if at ~= mark then return 0 end
  local returned = it.cost < count and it.cost or count
  -- Whatever is newer has so many fewer ahead of it.
  local newer = call('LRANGE', key, place + 1, -1)
  call('LTRIM', key, 0, place)
  if returned == count then
    call('RPOP', key)
  else
    call('LSET', key, -1, text(at, before, count - returned))
  end
  for i = 1, #newer do
    local later, ahead, n = numbers(newer[i])
    call('RPUSH', key, text(later, ahead - returned, n))
  end
  save(it)
  return returned
end
