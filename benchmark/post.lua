-- 10 kB of JSON: the same document as apps.POSTED.
local numbers = {}
for i = 0, 1799 do numbers[#numbers + 1] = tostring(i) end
local body = '{"name": "benchmark", "numbers": [' .. table.concat(numbers, ", ") .. "]}"
wrk.method = "POST"
wrk.body = body .. string.rep(" ", 10000 - #body)
wrk.headers["Content-Type"] = "application/json"
