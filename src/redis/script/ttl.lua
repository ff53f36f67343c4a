-- Rounded up, and one more, as the store's own count of milliseconds began earlier in the current one.
local rest = keep % 1000
local ttl = (keep - rest) / 1000 + (rest > 0 and 2 or 1) + grace
