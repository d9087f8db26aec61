package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"
)

func look(name string) {
	if _, err := net.DefaultResolver.LookupIPAddr(context.Background(), name); err != nil {
		panic(err)
	}
}

// cpuEach is microseconds of CPU for one of n calls.
func cpuEach(n int, function func(int)) float64 {
	started := cpu()
	for i := 0; i < n; i++ {
		function(i)
	}
	return float64(cpu()-started) / float64(n) / 1000
}

// longestPause is by how much a ticker is late at most while the function runs, with the tick itself, in milliseconds.
func longestPause(tick time.Duration, function func()) float64 {
	var worst time.Duration
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for last := time.Now(); ; {
			select {
			case <-stop:
				return
			default:
			}
			time.Sleep(tick)
			now := time.Now()
			worst, last = max(worst, now.Sub(last)), now
		}
	}()
	function()
	close(stop)
	<-stopped
	return float64(worst.Microseconds()) / 1000
}

func names(divisor int) map[string]float64 {
	found := map[string]float64{"first": longestPause(5*time.Millisecond, func() { look("first.example.") })}
	var done sync.WaitGroup
	started := time.Now()
	for i := 0; i < 1000/divisor; i++ {
		done.Add(1)
		go func(i int) {
			look(fmt.Sprintf("slow%d.example.", i))
			done.Done()
		}(i)
	}
	time.Sleep(50 * time.Millisecond)
	if threads, err := os.ReadDir("/proc/self/task"); err == nil {
		found["threads"] = float64(len(threads) - 1)
	}
	done.Wait()
	found["concurrent"] = time.Since(started).Seconds()
	found["uncached"] = cpuEach(2000/divisor, func(i int) { look(fmt.Sprintf("name%d.example.", i)) })
	found["cached"] = cpuEach(5000/divisor, func(int) { look("name1.example.") })
	found["hosts"] = cpuEach(5000/divisor, func(int) { look("inhosts.example") })
	found["numeric"] = cpuEach(5000/divisor, func(int) { look("192.0.2.1") })
	return found
}
