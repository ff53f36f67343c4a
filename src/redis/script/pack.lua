local state = struct.pack('<Bddddd', tag, a, x, y, z, now)
