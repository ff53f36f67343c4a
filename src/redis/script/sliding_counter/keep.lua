local keep = z + a + a - now
