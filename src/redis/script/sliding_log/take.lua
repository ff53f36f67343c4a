if found and from >= 0 and instant == y then
  local _, before, count = entry(key, -1)
  call('LSET', key, -1, text(instant, before, count + cost))
else
  call('RPUSH', key, text(instant, total, cost))
end
if from ~= 0 then call('LTRIM', key, from, -1) end
x, y, z = x + cost, instant, 0
