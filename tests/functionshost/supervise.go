package functionshost

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Exit codes with a meaning to the host (WorkerConstants): if a handler exits with
// 0, it is not restarted; if it exits with 200, it is, without an error.
const (
	exitSuccess         = 0
	exitIntentional     = 200
	restartRetryCount   = 3
	restartRetryWindow  = 30 * time.Minute
	initialWaitMultiple = 4
)

// errRestartsExceeded has the text of the real host's log line.
var errRestartsExceeded = errors.New("exceeded http worker restart retry count")

// supervise owns the handler process: it starts the process, and when the process
// has ended, restarts it or gives up, until the host's life ends.
func (h *Host) supervise() {
	defer close(h.done)
	var errs bucket
	for h.life.Err() == nil {
		err := h.runProcess()
		switch {
		case err == nil:
		case errors.Is(err, errLeftAlone):
			<-h.life.Done()
		case errs.add(time.Now()):
			h.end(fmt.Errorf("%w: %w", errRestartsExceeded, err))
		}
	}
}

var errLeftAlone = errors.New("handler exited with 0")

// runProcess starts the handler and waits for its end. If it returns nil, the
// restart is not counted; if errLeftAlone, there is none; any other error is
// counted.
func (h *Host) runProcess() error {
	p, err := h.startProcess()
	if err != nil {
		h.mu.Lock()
		h.starts++
		h.mu.Unlock()
		return err
	}
	h.publish(p)
	err = h.awaitReady(p)
	if err != nil {
		p.kill()
	}
	select {
	case <-p.exited:
	case <-h.life.Done():
		p.retired.Store(true)
		p.kill()
		<-p.exited
	}
	if p.leftAlone() {
		return errLeftAlone // still published: invocations get a closed port
	}
	h.publish(nil)
	if err != nil {
		return err
	}
	if p.retired.Load() || p.exit == exitIntentional {
		return nil
	}
	return fmt.Errorf("handler: %s", p.message)
}

// leftAlone reports whether the process has exited with 0, so that the host does
// not restart it.
func (p *process) leftAlone() bool {
	return p != nil && p.gone() && p.exit == exitSuccess && !p.retired.Load()
}

// retire kills the current handler, so that a new one starts without an error
// being counted.
func (h *Host) retire() {
	if p, _, _ := h.snapshot(); p != nil {
		p.retired.Store(true)
		p.kill()
	}
}

// bucket counts errors if each follows the last one within the window.
type bucket struct {
	count int
	last  time.Time
}

// add reports whether the host gives up with this error.
func (b *bucket) add(now time.Time) bool {
	if now.Sub(b.last) >= restartRetryWindow {
		b.count = 0
	}
	b.last = now
	b.count++
	return b.count >= restartRetryCount
}

// handler waits until a process is ready for an invocation. If the process has
// exited with 0, handler returns it nevertheless. If no process is ready within
// four times the initialization timeout, the host stops itself.
func (h *Host) handler(ctx context.Context) (*process, error) {
	timeout := time.NewTimer(initialWaitMultiple * h.app.initializationTimeout)
	defer timeout.Stop()
	for {
		p, changed, _ := h.snapshot()
		if p.leftAlone() {
			return p, nil
		}
		var ready, exited <-chan struct{}
		if p != nil && !p.retired.Load() && !p.gone() {
			ready, exited = p.ready, p.exited
		}
		select {
		case <-ready:
			return p, nil
		case <-exited:
		case <-changed:
		case <-h.life.Done():
			return nil, h.Err()
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-timeout.C:
			h.end(errors.New("no handler became ready for a waiting invocation"))
		}
	}
}
