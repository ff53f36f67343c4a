x = x + cost
