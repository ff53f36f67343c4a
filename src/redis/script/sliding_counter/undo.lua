local function left_of(it)
  return it.a - (now > it.z and now - it.z or 0)
end

local function share(it)
  local weighted = it.y * left_of(it)
  local part = weighted % it.a
  local whole = (weighted - part) / it.a
  return (it.c == 1 and part > 0) and whole + 1 or whole
end

-- The largest previous count that weighs no more than `room` calls.
local function most(it, room)
  local left = left_of(it)
  local whole = it.c == 1 and room * it.a or (room + 1) * it.a - 1
  return (whole - whole % left) / left
end

local function lower(it, calls)
  it.x = it.x - calls
  if it.x + it.y > 0 then save(it) else call('DEL', it.key) end
end

-- Whether what is left of the previous window weighs nothing any more.
function rule.is_whole(it)
  return it.x + share(it) == 0
end

-- From the current count first, and then as much from the previous one as makes the rest of the difference now.
function rule.refund(it)
  local current = it.cost < it.x and it.cost or it.x
  local weight = share(it)
  local rest = it.cost - current < weight and it.cost - current or weight
  if rest > 0 then it.y = most(it, weight - rest) end
  lower(it, current)
  return current + rest
end

-- Only within the window that was charged: a later one counts it as spread evenly, and not at the instant at which it
-- was.
function rule.give_back(it)
  if it.z ~= mark then return 0 end
  local returned = it.cost < it.x and it.cost or it.x
  lower(it, returned)
  return returned
end
