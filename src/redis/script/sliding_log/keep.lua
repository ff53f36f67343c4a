local keep = y + a - now
if keep < 0 then keep = 0 end
