// Go's net/http: nethttp PORT APPLICATION [WORKERS]
package main

import (
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"
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
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body := "Hello, World!"
		switch application {
		case "sleep":
			time.Sleep(10 * time.Millisecond)
		case "fib":
			body = strconv.FormatUint(uint64(fibonacci(1000000)), 10)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.Write([]byte(body))
	})
	address := "127.0.0.1:" + os.Args[1]
	if certificate := os.Getenv("CERTFILE"); certificate != "" {
		panic(http.ListenAndServeTLS(address, certificate, os.Getenv("KEYFILE"), nil))
	}
	panic(http.ListenAndServe(address, nil))
}
