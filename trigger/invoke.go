package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/redact"
)

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("handler called runtime.Goexit")

// errLeftBehind is the error of a call that was running when the grace of a stop
// was over. It is not an attempt: the call may have been in good order.
var errLeftBehind = errors.New("handler call was left behind when the host stopped")

// runningCalls are the handler calls of one range that have not returned. mu guards
// the fields, and no other lock is taken under it.
type runningCalls struct {
	mu     sync.Mutex
	number int
	ends   map[int]time.Time // by number: when the call will have returned or be left behind
}

func (c *runningCalls) beginCall(end time.Time) (ended func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	number := c.number
	if c.ends == nil {
		c.ends = map[int]time.Time{}
	}
	c.ends[number] = end
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.ends, number)
	}
}

// latestEnd returns when the last of the running calls will have returned or be left
// behind, and whether any is running.
func (c *runningCalls) latestEnd() (latest time.Time, running bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, end := range c.ends {
		if end.After(latest) {
			latest = end
		}
	}
	return latest, len(c.ends) > 0
}

// invokeHandler calls a handler with a deadline. If the handler does not return
// within the grace after the deadline, it is hung: nothing can end it, so it is left
// behind and counted until it returns. At the end of a stop's grace it is left
// behind, too, without waiting for the rest of its own.
func (w *rangeWorker) invokeHandler(ctx context.Context, handle Handler, b Batch) error {
	began, grace := time.Now(), w.host.options.StuckGrace
	defer w.runningCalls.beginCall(began.Add(w.callTimeout + grace))()
	ctx, cancel := context.WithTimeout(ctx, w.callTimeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with the call
		err := errGoexit
		defer func() { done <- err }() // also if the handler ends the goroutine
		err = recoverPanic(ctx, handle, b)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-w.stop.abandon.Done():
		n := w.host.abandonedCalls.addCall(done)
		w.log.Error("handler call ignores the end of its context and is left behind: the host stops",
			slog.Duration("running", time.Since(began)), slog.Int64("abandoned", n))
		w.rangeStats.markHung()
		return errLeftBehind
	case <-late.C:
		n := w.host.abandonedCalls.addCall(done)
		w.log.Error("handler call hangs and is left behind; another host may take the range",
			slog.Duration("running", time.Since(began)), slog.Int64("abandoned", n), slog.String("goroutines", string(goroutineDump())))
		return &delivery.HungError{After: grace}
	}
}

// recoverPanic turns a panic of the handler into an error. The error is logged,
// saved in the lease and in the dead letter, so it is returned without secrets: a
// handler's HTTP client puts the whole URL into its errors, and a server may repeat
// the password.
func recoverPanic(ctx context.Context, h Handler, b Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: []byte(cleanStack())}
		}
	}()
	return redact.Error(h(ctx, b))
}

// cleanStack returns the stack of the calling goroutine without secrets.
func cleanStack() string { return redact.Text(string(debug.Stack())) }

// guardCallback calls a user's function that has no verdict, and logs its panic.
func guardCallback(log *slog.Logger, name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error(name+" panicked", slog.String("panic", redact.Text(fmt.Sprint(v))), slog.String("stack", cleanStack()))
		}
	}()
	call()
}

// abandonedCalls counts handler calls that are left behind in this process.
type abandonedCalls struct{ callCount atomic.Int64 }

// maxDump bounds the goroutine dump in a log record.
const maxDump = 64 << 10

// addCall counts a call until it returns, and returns the count.
func (a *abandonedCalls) addCall(done <-chan error) int64 {
	n := a.callCount.Add(1)
	go func() { // ends with the call, which nothing can end
		<-done
		a.callCount.Add(-1)
	}()
	return n
}

// goroutineDump returns the stacks of all goroutines, as far as maxDump bytes hold them.
func goroutineDump() []byte {
	dump := make([]byte, maxDump)
	return dump[:runtime.Stack(dump, true)]
}

func (a *abandonedCalls) exceedsLimit(limit int) bool { return a.callCount.Load() > int64(limit) }
