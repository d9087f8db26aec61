-- One request again and again, each with a number of its own in the place of %d:
-- METHOD PATH MODULUS FIRST [CONTENT-TYPE FILE], where FILE has the body.
local number, modulus, method, path, body, fields
init = function(args)
  method, path, modulus, number = args[1], args[2], tonumber(args[3]), tonumber(args[4])
  if args[5] then
    fields = {["Content-Type"] = args[5]}
    local file = io.open(args[6], "rb")
    body = file:read("*a")
    file:close()
  end
end
local function numbered(text)
  return text and text:gsub("%%d", number % modulus)
end
request = function()
  number = number + 1
  return wrk.format(method, (numbered(path)), fields, #(body or "") < 1000 and (numbered(body)) or body)
end
