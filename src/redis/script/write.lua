call('SET', key, state, 'PX', ttl)
