-- KEYS: one for each limit of the decision.
-- ARGV: what to do ("take", "peek", "refund", "return", "reset"), the time in microseconds or nothing, how many
-- milliseconds to keep keys beyond need, the mark of the charge to return; then for each limit its algorithm, the cost, the
-- limit, and three numbers that the algorithm names a, b, c. A charge's mark is the second number of a token bucket's or a
-- log's state, and the start of a window.
-- Numbers are whole and below 2^53, up to which a double holds each.

local EXACT = 9007199254740992
local algorithms = {}

local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = tonumber(time[1]) * 1000000 + tonumber(time[2])
end

-- tostring would write 1e+15 for the like.
local FORMATS = { '%.0f', '%.0f %.0f', '%.0f %.0f %.0f', '%.0f %.0f %.0f %.0f' }
local function text(...)
  return string.format(FORMATS[select('#', ...)], ...)
end

local PATTERNS = { [3] = '^(%d+) (%d+) (%d+)$', [4] = '^(%d+) (%d+) (%d+) (%d+)$' }
local function numbers(it, value, n)
  if not value then return nil end
  it.found = true
  local a, b, c, d = string.match(value, PATTERNS[n])
  if not a then error('a key holds something else than the state of this limit') end
  return tonumber(a), tonumber(b), tonumber(c), tonumber(d)
end

-- For how many milliseconds a key is kept: until nothing of it counts, rounded up, and one more, as the store's own count
-- of milliseconds began earlier in the current one.
local function ttl(it)
  local keep = it.keep > 0 and it.keep or 0
  local rest = keep % 1000
  return text((keep - rest) / 1000 + (rest > 0 and 2 or 1) + tonumber(ARGV[3]))
end

local function save(it, ...)
  redis.call('SET', it.key, text(...), 'PX', ttl(it))
end

local function expire(it)
  redis.call('PEXPIRE', it.key, ttl(it))
end

-- Somebody may have taken the time to live off a key.
local function repair(it)
  if (it.found or it.length) and redis.call('PTTL', it.key) == -1 then expire(it) end
end

local function window_start(it, instant)
  return it.b == 1 and instant or instant - instant % it.a
end
