local value = call('GET', key)
local found, x, y, z, fits
if value then
  local kind
  if #value == 41 then kind, found, x, y, z = struct.unpack('<Bdddd', value) end
  if kind ~= tag then error('a key holds something else than the state of this limit') end
end
