-- Sixteen requests at a time on each connection.
local requests = {}
init = function()
  for i = 1, 16 do requests[i] = wrk.format() end
  requests = table.concat(requests)
end
request = function() return requests end
