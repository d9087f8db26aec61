-- 20 MB.
wrk.method = "POST"
wrk.body = string.rep("x", 20000000)
