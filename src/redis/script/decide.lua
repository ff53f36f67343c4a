-- All limits are looked at before any is taken from, so a refusal writes nothing. What `take` finds is what `look` saw, as
-- nothing runs in between.

local limits, reply, all = {}, { 1, now }, true
for i = 1, #KEYS do
  local at = 6 * i - 1
  local it = {
    key = KEYS[i], algorithm = algorithms[ARGV[at]], cost = tonumber(ARGV[at + 1]), limit = tonumber(ARGV[at + 2]),
    a = tonumber(ARGV[at + 3]), b = tonumber(ARGV[at + 4]), c = tonumber(ARGV[at + 5]),
  }
  local x, y, z = it.algorithm.look(it)
  limits[i] = it
  all = all and it.fits
  local place = 4 * i - 1
  reply[place], reply[place + 1], reply[place + 2], reply[place + 3] = it.fits and 1 or 0, x, y, z
end

if ARGV[1] == 'take' and all then
  for i = 1, #limits do
    local it = limits[i]
    if it.cost > 0 then
      local place = 4 * i
      reply[place], reply[place + 1], reply[place + 2] = it.algorithm.take(it)
    else
      repair(it)
    end
  end
  return reply
end

if ARGV[1] == 'refund' or ARGV[1] == 'return' then
  local it = limits[1]
  reply[1] = ARGV[1] == 'refund' and it.algorithm.refund(it) or it.algorithm.give_back(it, tonumber(ARGV[4]))
  repair(it)
  return reply
end

if ARGV[1] == 'reset' then
  -- Where nothing is used there is nothing to do, not even to let the next call start a window.
  local it = limits[1]
  if it.algorithm.is_whole and it.algorithm.is_whole(it) then repair(it) else redis.call('DEL', it.key) end
  return reply
end

for i = 1, #limits do repair(limits[i]) end
reply[1] = all and 1 or 0
return reply
