package trigger

import (
	"bytes"
	"runtime/pprof"

	"go.uber.org/zap"
)

// maxDump bounds the goroutine dump in a log record.
const maxDump = 64 << 10

// stuck counts a handler call that is left behind, until it returns after all,
// and logs what every goroutine was doing.
func (h *Host) stuck(log *zap.Logger, done <-chan error) {
	n := h.stuckCalls.Add(1)
	go func() { // ends with the call that it waits for, which nothing can end
		<-done
		h.stuckCalls.Add(-1)
	}()
	var dump bytes.Buffer
	if p := pprof.Lookup("goroutine"); p != nil {
		_ = p.WriteTo(&dump, 2) // to memory
	}
	log.Error("handler is stuck; the range goes to whoever takes it", zap.Int64("stuck", n),
		zap.ByteString("goroutines", dump.Bytes()[:min(dump.Len(), maxDump)]))
}

// tooManyStuck reports whether this process holds more abandoned calls than it should.
func (h *Host) tooManyStuck() bool { return h.stuckCalls.Load() > int64(h.opts.MaxStuck) }
