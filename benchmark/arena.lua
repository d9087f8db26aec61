-- A GET, a POST with a length, and one in chunks, in turn. With the argument "closing" each tenth request is the
-- last of its connection.
local turn, requests = 0, {}
init = function(args)
  for i = 1, 30 do
    local fields = {["Connection"] = args[1] == "closing" and i % 10 == 0 and "close" or nil}
    if i % 3 == 0 then
      requests[i] = wrk.format("GET", "/?a=13&b=42", fields)
    elseif i % 3 == 1 then
      requests[i] = wrk.format("POST", "/?a=13&b=42", fields, "20")
    else
      fields["Transfer-Encoding"] = "chunked"
      requests[i] = wrk.format("POST", "/?a=13&b=42", fields) .. "2\r\n20\r\n0\r\n\r\n"
    end
  end
end
request = function()
  turn = turn % 30 + 1
  return requests[turn]
end
