local now, grace, cost, limit, a, b, c = struct.unpack('<ddddddd', ARGV[1])
local key = KEYS[1]
