local keep = y + a - now
