package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"halley/handlers"
	"halley/handlers/remote"
)

// drainToFunction drains all ranges into a function in another language, in one process. The
// processor time is that of both processes, from the moment at which the function is ready.
func drainToFunction(ctx context.Context, s settings) (figures, error) {
	began := time.Now()
	handle, stop, err := remote.OpenFunction(ctx, handlers.Env{Prefix: "BENCH_", Borrow: func() { s.Reuse = true }}, remote.FunctionSettings{Command: s.Command, Processes: 1, ExitGrace: handlers.Interval(5 * time.Second)})
	if err != nil {
		return nil, err
	}
	ready := time.Since(began)
	found, err := func() (figures, error) {
		before, err := childrenTime()
		if err != nil {
			return nil, err
		}
		found, err := s.drain(ctx, handle)
		if err != nil {
			return nil, err
		}
		after, err := childrenTime()
		if err != nil {
			return nil, err
		}
		own, child := found["cpuPerMillion"], (after-before).Seconds()/found["changes"]*1e6
		found["ownPerMillion"], found["cpuPerMillion"] = own, own+child
		found["readySeconds"] = ready.Seconds()
		return found, nil
	}()
	return found, errors.Join(err, stop())
}

// clockTicks is the unit of the times in /proc on all processors of Go: USER_HZ, see proc(5).
const clockTicks = 100

// childrenTime is the processor time of the child processes that run, on Linux.
func childrenTime() (sum time.Duration, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("processor time of the function: %w", err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // no process, or one that has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // after the name
		fields := strings.Fields(rest)
		if len(fields) < 13 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, ticks := range fields[11:13] { // utime and stime
			n, err := strconv.ParseInt(ticks, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("/proc/%s/stat: %w", entry.Name(), err)
			}
			sum += time.Duration(n) * time.Second / clockTicks
		}
	}
	return sum, nil
}
