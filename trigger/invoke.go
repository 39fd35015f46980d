package trigger

import (
	"bytes"
	"context"
	"errors"
	"runtime/debug"
	"runtime/pprof"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"halley/trigger/internal/delivery"
	"halley/trigger/redact"
)

// errGoexit is the error of a handler that ended its goroutine.
var errGoexit = errors.New("handler called runtime.Goexit")

// invokeHandler calls a handler with a deadline. If the handler does not return within
// the grace after the deadline, it is hung: nothing can end it, so it is left
// behind and counted until it returns.
func invokeHandler(ctx context.Context, h Handler, b Batch, timeout, grace time.Duration, abandoned *abandonedCalls, log *zap.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with the call
		err := errGoexit
		defer func() { done <- err }() // also if the handler ends the goroutine
		err = recoverPanic(ctx, h, b)
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
	case <-late.C:
		abandoned.addCall(log, done)
		return &delivery.HungError{After: grace}
	}
}

// recoverPanic turns a panic of the handler into an error. The error is logged,
// saved in the lease and in the dead letter, so it is returned without secrets of
// URLs: a handler's HTTP client puts the whole URL into its errors.
func recoverPanic(ctx context.Context, h Handler, b Batch) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return redact.Error(h(ctx, b))
}

// guardCallback calls a user's function that has no verdict, and logs its panic.
func guardCallback(log *zap.Logger, name string, call func()) {
	defer func() {
		if v := recover(); v != nil {
			log.Error(name+" panicked", zap.Any("panic", v), zap.ByteString("stack", debug.Stack()))
		}
	}()
	call()
}

// abandonedCalls counts handler calls that are left behind in this process.
type abandonedCalls struct{ callCount atomic.Int64 }

// maxDump bounds the goroutine dump in a log record.
const maxDump = 64 << 10

// addCall counts a call until it returns, and logs the stacks of all goroutines.
func (a *abandonedCalls) addCall(log *zap.Logger, done <-chan error) {
	n := a.callCount.Add(1)
	go func() { // ends with the call, which nothing can end
		<-done
		a.callCount.Add(-1)
	}()
	var dump bytes.Buffer
	if p := pprof.Lookup("goroutine"); p != nil {
		_ = p.WriteTo(&dump, 2) // to memory
	}
	log.Error("handler call hangs and is left behind; another host may take the range", zap.Int64("abandoned", n),
		zap.ByteString("goroutines", dump.Bytes()[:min(dump.Len(), maxDump)]))
}

func (a *abandonedCalls) exceedsLimit(limit int) bool { return a.callCount.Load() > int64(limit) }
