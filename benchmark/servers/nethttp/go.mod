module nethttp

go 1.20
