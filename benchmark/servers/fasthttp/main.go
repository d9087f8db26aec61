// Go with fasthttp: fasthttp PORT APPLICATION [WORKERS]
package main

import (
	"encoding/json"
	"fmt"
	"io"
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

type item struct {
	Id       int    `json:"id"`
	Name     string `json:"name"`
	Price    int    `json:"price"`
	Quantity int    `json:"quantity"`
	Active   bool   `json:"active"`
}

type itemWithTotal struct {
	item
	Total int `json:"total"`
}

type listing struct {
	Items []itemWithTotal `json:"items"`
	Count int             `json:"count"`
}

var items = func() []item {
	made := make([]item, 50)
	for n := range made {
		made[n] = item{n, fmt.Sprintf("item %d", n), 100 + n*37%900, 1 + n%20, n%3 == 0}
	}
	return made
}()

func list() []byte {
	found := make([]itemWithTotal, len(items))
	for n, each := range items {
		found[n] = itemWithTotal{each, each.Price * each.Quantity}
	}
	body, _ := json.Marshal(listing{found, len(found)})
	return body
}

func add(ctx *fasthttp.RequestCtx) int {
	total := 0
	ctx.QueryArgs().VisitAll(func(_, value []byte) {
		number, _ := strconv.Atoi(string(value))
		total += number
	})
	if ctx.IsPost() {
		number, _ := strconv.Atoi(string(ctx.PostBody()))
		total += number
	}
	return total
}

func main() {
	workers := 1
	if len(os.Args) > 3 {
		workers, _ = strconv.Atoi(os.Args[3])
	}
	runtime.GOMAXPROCS(workers)
	application := os.Args[2]
	handler := func(ctx *fasthttp.RequestCtx) {
		body := "Hello, World!"
		switch application {
		case "sleep":
			time.Sleep(10 * time.Millisecond)
		case "fib":
			body = strconv.FormatUint(uint64(fibonacci(1000000)), 10)
		case "sum":
			body = strconv.Itoa(add(ctx))
		case "items":
			ctx.SetContentType("application/json")
			ctx.SetBody(list())
			return
		case "upload":
			size, _ := io.Copy(io.Discard, ctx.RequestBodyStream())
			body = strconv.FormatInt(size, 10)
		}
		ctx.SetContentType("text/plain")
		ctx.SetBodyString(body)
	}
	server := fasthttp.Server{Handler: handler}
	if application == "upload" {
		server.StreamRequestBody = true
		server.MaxRequestBodySize = 100_000_000
	}
	panic(server.ListenAndServe("127.0.0.1:" + os.Args[1]))
}
