x = x + cost * a
