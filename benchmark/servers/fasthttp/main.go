// Go with fasthttp on one core: fasthttp PORT APPLICATION
package main

import (
	"os"
	"runtime"
	"time"

	"github.com/valyala/fasthttp"
)

func main() {
	runtime.GOMAXPROCS(1)
	sleep := os.Args[2] == "sleep"
	panic(fasthttp.ListenAndServe("127.0.0.1:"+os.Args[1], func(ctx *fasthttp.RequestCtx) {
		if sleep {
			time.Sleep(10 * time.Millisecond)
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString("Hello, World!")
	}))
}
