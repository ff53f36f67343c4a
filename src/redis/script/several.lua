local now, grace = struct.unpack('<dd', ARGV[1])
local action, mark = struct.unpack('<dd', ARGV[1], 17 + 40 * #KEYS)
local TAKE, REFUND, RETURN, RESET = 0, 2, 3, 4
local algorithms = {}
