local part = x % b
local keep = y - now + (x - part) / b + (part > 0 and 1 or 0)
