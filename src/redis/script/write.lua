call('SET', key, struct.pack('<Bdddd', tag, a, x, y, z), 'PX', ttl)
