-- All limits are looked at before any is taken from, so a refusal writes nothing. What `take` finds is what `look` saw, as
-- nothing runs in between.

local limits, all = {}, true
for i = 1, #KEYS do
  local cost, limit, a, b, c = struct.unpack('<ddddd', ARGV[1], 40 * i - 23)
  local algorithm = struct.unpack('<d', ARGV[1], 25 + 40 * #KEYS + 8 * i)
  local it = { key = KEYS[i], rule = algorithms[algorithm], cost = cost, limit = limit, a = a, b = b, c = c }
  it.rule.look(it)
  limits[i] = it
  all = all and it.fits
end

local result = all and 1 or 0
if action == TAKE and all then
  for i = 1, #limits do
    local it = limits[i]
    if it.cost > 0 then it.rule.take(it) else repair(it) end
  end
elseif action == RESET then
  -- Where nothing is used there is nothing to do, not even to let the next call start a window.
  local it = limits[1]
  if it.rule.is_whole and it.rule.is_whole(it) then repair(it) else call('DEL', it.key) end
else
  if action == REFUND then result = limits[1].rule.refund(limits[1]) end
  if action == RETURN then result = limits[1].rule.give_back(limits[1]) end
  for i = 1, #limits do repair(limits[i]) end
end

local states = {}
for i = 1, #limits do states[i] = state_of(limits[i]) end
return table.concat(states) .. struct.pack('<d', result)
