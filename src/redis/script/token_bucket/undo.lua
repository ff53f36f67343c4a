-- Uses up to so many parts less. Returns how many tokens that is, a part of one counted as one.
local function lower(it, parts)
  local returned = parts < it.x and parts or it.x
  if returned == 0 then return 0 end
  it.x = it.x - returned
  if it.x > 0 then save(it) else call('DEL', it.key) end
  local rest = returned % it.a
  return (returned - rest) / it.a + (rest > 0 and 1 or 0)
end

function rule.refund(it)
  return lower(it, it.cost >= it.limit and it.x or it.cost * it.a)
end

-- What has refilled since the charge is not returned: without the charge, the refill would have found less room.
function rule.give_back(it)
  local parts, elapsed = it.cost * it.a, it.y - mark
  if elapsed >= parts / it.b then return 0 end
  return lower(it, elapsed > 0 and parts - elapsed * it.b or parts)
end
