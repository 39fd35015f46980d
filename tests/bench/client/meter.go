package main

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// meter measures this process from its start on.
type meter struct {
	began  time.Time
	cpu    time.Duration
	memory runtime.MemStats
}

func startMeter() *meter {
	m := &meter{began: time.Now()}
	runtime.ReadMemStats(&m.memory)
	m.cpu = processorTime()
	return m
}

// stop returns the processor time, the time and the allocations since the start, in
// all and for each of so many changes.
func (m *meter) stop(changes int) figures {
	cpu, took := processorTime()-m.cpu, time.Since(m.began)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	found := figures{"cpuSeconds": cpu.Seconds(), "seconds": took.Seconds(), "changes": float64(changes), "rssMiB": residentMiB("VmRSS"), "peakMiB": residentMiB("VmHWM")}
	if n := float64(changes); n > 0 {
		found["cpuPerMillion"] = cpu.Seconds() / n * 1e6
		found["allocations"] = float64(memory.Mallocs-m.memory.Mallocs) / n
		found["bytes"] = float64(memory.TotalAlloc-m.memory.TotalAlloc) / n
	}
	return found
}

// processorTime is that of this process so far, in user and system mode.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constant
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// residentMiB reads a figure of this process from Linux: VmRSS is the memory that is
// resident now, VmHWM the most so far. It is 0 on other systems.
func residentMiB(field string) float64 {
	file, err := os.Open("/proc/self/status")
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			kib, _ := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024
		}
	}
	return 0
}

// openSockets counts the sockets of this process on Linux. It is 0 on other systems.
func openSockets() (n float64) {
	const descriptors = "/proc/self/fd"
	entries, err := os.ReadDir(descriptors)
	if err != nil {
		return 0
	}
	for _, entry := range entries {
		if target, err := os.Readlink(filepath.Join(descriptors, entry.Name())); err == nil && strings.HasPrefix(target, "socket:") {
			n++
		}
	}
	return n
}

// quantile returns the value below which a share q of the values is. There must be a
// value.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
