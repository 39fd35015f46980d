package hosting

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"go.uber.org/zap"
)

// repeatedSignal is the time after the first signal in which further ones count as
// the same request: timeout(1) and supervisors signal the process group and then
// the process.
const repeatedSignal = time.Second

// StopOnSignal returns a context that ends at the first SIGTERM or SIGINT. A later
// signal ends the process at once, with the exit code that codeOf returns. The signals are
// watched until the process exits: a repeated one at its very end does not fail it.
func StopOnSignal(codeOf func(os.Signal) int) context.Context {
	received := make(chan os.Signal, 4)
	signal.Notify(received, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(context.Background())
	go watchSignals(received, cancel, func(s os.Signal) { os.Exit(codeOf(s)) })
	return ctx
}

// watchSignals calls stop at the first signal, and exit at the first one that comes
// later than repeatedSignal after it. It runs as long as the process.
func watchSignals(received <-chan os.Signal, stop func(), exit func(os.Signal)) {
	first := <-received
	began := time.Now()
	zap.L().Info("stopping on a signal", zap.Stringer("signal", first))
	stop()
	for s := range received {
		if after := time.Since(began); after > repeatedSignal {
			zap.L().Warn("ending at once on a further signal; the leases of this host are free when they expire",
				zap.Stringer("signal", s), zap.Duration("after", after))
			exit(s)
			return
		}
		zap.L().Info("ignoring a repeated signal; a later one ends the process at once", zap.Stringer("signal", s))
	}
}

// SignalledCode is the exit code of a process that a further signal ended.
func SignalledCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n) // as shells report it
	}
	return 1
}
