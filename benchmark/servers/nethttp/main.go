// Go's net/http on one core: nethttp PORT APPLICATION
package main

import (
	"net/http"
	"os"
	"runtime"
	"time"
)

func main() {
	runtime.GOMAXPROCS(1)
	sleep := os.Args[2] == "sleep"
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if sleep {
			time.Sleep(10 * time.Millisecond)
		}
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "13")
		w.Write([]byte("Hello, World!"))
	})
	panic(http.ListenAndServe("127.0.0.1:"+os.Args[1], nil))
}
