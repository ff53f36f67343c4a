-- Sliding log: the instant of every event in the window.
--
-- A list of "at before count", oldest first: `count` events at the microsecond `at`, with `before` others ahead of them
-- since the list began. Sums of counts are then differences, and both ends of a stretch are found without a walk.

local function numbers(value)
  local at, before, count = string.match(value, '^(%d+) (%d+) (%d+)$')
  if not at then error('a key holds something else than the state of this limit') end
  return at + 0, before + 0, count + 0
end

-- Numbers from 10^15 on would be written with an exponent.
local function text(at, before, count)
  return string.format('%.0f %.0f %.0f', at, before, count)
end

local function entry(key, index)
  return numbers(call('LINDEX', key, index))
end

-- The first index from `low` on at which `holds`, which is false up to it and true from there, or at which the list has
-- ended. Nearly always near: so by strides that double, and halving only of the last.
local function first(key, low, holds)
  local function reached(index)
    local value = call('LINDEX', key, index)
    return not value or holds(numbers(value))
  end
  local high, stride = low, 1
  while not reached(high) do
    low, high, stride = high + 1, high + stride, stride * 2
  end
  while low < high do
    local middle = (low + high - (low + high) % 2) / 2
    if reached(middle) then high = middle else low = middle + 1 end
  end
  return low
end
