function rule.refund(it)
  local returned = it.cost < it.x and it.cost or it.x
  it.x = it.x - returned
  if it.x > 0 then save(it) else call('DEL', it.key) end
  return returned
end

-- Only within the window that was charged: what another one has used is not this charge's.
function rule.give_back(it)
  return it.y == mark and rule.refund(it) or 0
end
