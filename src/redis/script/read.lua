local value = call('GET', key)
local found, x, y, z, fits
if value then
  if #value ~= 33 or string.byte(value) ~= tag then
    error('a key holds something else than the state of this limit')
  end
  found, x, y, z = struct.unpack('<dddd', value, 2)
end
