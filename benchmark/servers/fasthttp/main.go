// Go with fasthttp: fasthttp PORT APPLICATION [WORKERS]
package main

import (
	"os"
	"runtime"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
)

func fibonacci(rounds int) uint32 {
	var a, b uint32 = 0, 1
	for i := 0; i < rounds; i++ {
		a, b = b, a+b
	}
	return a
}

func main() {
	workers := 1
	if len(os.Args) > 3 {
		workers, _ = strconv.Atoi(os.Args[3])
	}
	runtime.GOMAXPROCS(workers)
	application := os.Args[2]
	panic(fasthttp.ListenAndServe("127.0.0.1:"+os.Args[1], func(ctx *fasthttp.RequestCtx) {
		body := "Hello, World!"
		switch application {
		case "sleep":
			time.Sleep(10 * time.Millisecond)
		case "fib":
			body = strconv.FormatUint(uint64(fibonacci(1000000)), 10)
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(body)
	}))
}
