// The same operations with goroutines: goroutines time|memory|"memory 10k"|names|files DIVISOR prints one JSON object.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

func cpu() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

func resident() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Maxrss * 1024
}

func yieldAlone(n int) {
	for i := 0; i < n; i++ {
		runtime.Gosched()
	}
}

func yieldAmong(n int) {
	var done sync.WaitGroup
	for i := 0; i < 100; i++ {
		done.Add(1)
		go func() {
			yieldAlone(n / 100)
			done.Done()
		}()
	}
	done.Wait()
}

func spawnOne(n int) {
	for i := 0; i < n; i++ {
		ended := make(chan struct{})
		go func() { close(ended) }()
		<-ended
	}
}

func spawnMany(n int) {
	for i := 0; i < max(1, n/10000); i++ {
		var done sync.WaitGroup
		done.Add(10000)
		for j := 0; j < 10000; j++ {
			go done.Done()
		}
		done.Wait()
	}
}

// wakes is both the event and the lock of others: a channel with room for one.
func wakes(n int) {
	here, there := make(chan struct{}, 1), make(chan struct{}, 1)
	go func() {
		for i := 0; i < n; i++ {
			<-there
			here <- struct{}{}
		}
	}()
	for i := 0; i < n; i++ {
		there <- struct{}{}
		<-here
	}
}

func lock(n int) {
	var mutex sync.Mutex
	var done sync.WaitGroup
	for i := 0; i < 2; i++ {
		done.Add(1)
		go func() {
			for j := 0; j < n/2; j++ {
				mutex.Lock()
				runtime.Gosched()
				mutex.Unlock()
			}
			done.Done()
		}()
	}
	done.Wait()
}

func queue(size int) func(int) {
	return func(n int) {
		items := make(chan int, size)
		go func() {
			for i := 0; i < n; i++ {
				items <- i
			}
		}()
		for i := 0; i < n; i++ {
			if <-items != i {
				panic("another item")
			}
		}
	}
}

func timeout(n int) {
	for i := 0; i < n; i++ {
		time.AfterFunc(10*time.Second, func() {}).Stop()
	}
}

func pool(n int) {
	items := make(chan int)
	var done sync.WaitGroup
	for i := 0; i < 10; i++ {
		done.Add(1)
		go func() {
			for range items {
			}
			done.Done()
		}()
	}
	for i := 0; i < n; i++ {
		items <- i
	}
	close(items)
	done.Wait()
}

func first(n int) {
	here, there, never := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{})
	go func() {
		for i := 0; i < n; i++ {
			select {
			case <-there:
			case <-never:
			}
			here <- struct{}{}
		}
	}()
	for i := 0; i < n; i++ {
		there <- struct{}{}
		select {
		case <-never:
		case <-here:
		}
	}
}

func timers(n int) {
	var done sync.WaitGroup
	done.Add(n)
	for i := 0; i < n; i++ {
		go func(i int) {
			time.Sleep(time.Duration(i%1000) * 100 * time.Microsecond)
			done.Done()
		}(i)
	}
	done.Wait()
}

func memory(count int) float64 {
	before := resident()
	for i := 0; i < count; i++ {
		go time.Sleep(time.Hour)
	}
	time.Sleep(200 * time.Millisecond)
	return float64(resident()-before) / float64(count)
}

func main() {
	divisor, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	found := map[string]float64{}
	switch os.Args[1] {
	case "memory":
		found["memory"] = memory(100000 / divisor)
	case "memory 10k":
		found["memory 10k"] = memory(10000 / divisor)
	case "names":
		found = names(divisor)
	case "files":
		found = files(divisor)
	default:
		for name, operation := range map[string]struct {
			run func(int)
			n   int
		}{
			"yield alone": {yieldAlone, 2000000}, "yield": {yieldAmong, 2000000}, "spawn": {spawnOne, 200000},
			"spawn many": {spawnMany, 200000}, "event": {wakes, 200000}, "switch": {lock, 400000}, "queue 1": {queue(1), 400000},
			"queue 100": {queue(100), 1000000}, "channel": {queue(0), 400000}, "timeout": {timeout, 400000}, "pool": {pool, 400000},
			"select": {first, 200000}, "timers": {timers, 100000},
		} {
			n := max(1000, operation.n/divisor)
			best := 1e18
			for i := 0; i < 3; i++ {
				started := cpu()
				operation.run(n)
				best = min(best, float64(cpu()-started)/float64(n))
			}
			found[name] = best
		}
	}
	text, _ := json.Marshal(found)
	fmt.Println(string(text))
}
