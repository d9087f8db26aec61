package main

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// files does what benchmark/files.py does, in nanoseconds of CPU, and the pauses in milliseconds.
func files(divisor int) map[string]float64 {
	directory := must(os.MkdirTemp("", "benchmark-files-"))
	defer os.RemoveAll(directory)
	small, large, many := filepath.Join(directory, "small"), filepath.Join(directory, "large"), filepath.Join(directory, "many")
	line := append(bytes.Repeat([]byte("x"), 63), '\n')
	must(0, os.WriteFile(small, bytes.Repeat(line, 64), 0o666))
	must(0, os.WriteFile(large, bytes.Repeat(line, 64*1024), 0o666))
	must(0, os.Mkdir(many, 0o777))
	for i := 0; i < 100; i++ {
		must(0, os.WriteFile(filepath.Join(many, strconv.Itoa(i)), nil, 0o666))
	}
	opened, listed := must(os.Open(large)), must(os.Open(large))
	buffered, buffer := bufio.NewReader(listed), make([]byte, 65536)
	from, to, err := os.Pipe()
	must(0, err)

	read := func() {
		if n, _ := opened.Read(buffer); n == 0 {
			must(opened.Seek(0, io.SeekStart))
		}
	}
	readline := func() {
		if _, err := buffered.ReadSlice('\n'); err == io.EOF {
			must(listed.Seek(0, io.SeekStart))
			buffered.Reset(listed)
		}
	}
	lines := func() {
		file := must(os.Open(large))
		defer file.Close()
		for scanner := bufio.NewScanner(file); scanner.Scan(); {
		}
	}
	scan := func() {
		for _, entry := range must(os.ReadDir(many)) {
			_ = entry.Type().IsRegular()
		}
	}
	list := func() {
		folder := must(os.Open(many))
		defer folder.Close()
		must(folder.Readdirnames(-1))
	}
	pipe := func() {
		must(to.Write(line))
		must(from.Read(buffer[:100]))
	}
	found := map[string]float64{}
	for name, operation := range map[string]struct {
		run     func()
		n, each int
	}{
		"os.read 64k": {read, 10000, 1}, "read 64k": {read, 10000, 1}, "open read 4k": {func() { must(os.ReadFile(small)) }, 5000, 1},
		"readline": {readline, 50000, 1}, "lines": {lines, 20, 65536}, "text": {func() { _ = string(must(os.ReadFile(small))) }, 5000, 1},
		"write 4k": {func() { must(0, os.WriteFile(small+"2", buffer[:4096], 0o666)) }, 3000, 1},
		"stat":     {func() { must(os.Stat(small)) }, 50000, 1}, "exists": {func() { must(os.Stat(small)) }, 50000, 1},
		"listdir": {list, 2000, 1}, "scandir": {scan, 2000, 1}, "pipe": {pipe, 50000, 1},
	} {
		n := max(2, operation.n/divisor)
		best := 1e18
		for i := 0; i < 5; i++ {
			best = min(best, cpuEach(n, func(int) { operation.run() })*1000/float64(operation.each))
		}
		found[name] = best
	}
	huge, size := filepath.Join(directory, "huge"), max(1, 200/divisor)
	found["slowest write"] = max(1, longestPause(time.Millisecond, func() {
		file := must(os.Create(huge))
		defer file.Close()
		for i := 0; i < size; i++ {
			must(file.Write(make([]byte, 1<<20)))
		}
	})) - 1
	found["slowest read"] = max(1, longestPause(time.Millisecond, func() { must(os.ReadFile(huge)) })) - 1
	return found
}
