// Package functionshost is a stand-in for the Azure Functions host of a custom
// handler. It reads an app directory, starts the executable that host.json names,
// waits for it, posts invocations, judges the answers, enforces functionTimeout,
// and restarts the process until it gives up. It has the dangerous habits of the
// real host: it never cancels a request, kills a handler without warning, waits
// for ever if an answer is empty, and does not restart a handler that exits
// with 0.
//
// The behaviour is that of Azure/azure-functions-host 4.1037:
// HttpFunctionInvocationDispatcher, DefaultHttpWorkerService, WorkerProcess
// and HttpWorkerOptionsSetup. The caller fires triggers, so that a test decides
// when; scale controller and HTTP triggers are left out. Queue triggers and outputs work
// on the storage account that the caller gives, see [Host.Listen] and [Host.Send].
package functionshost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"halley/tests/freeport"
)

// Options change a host. The zero value is a host in Azure with the app's own
// timeouts.
type Options struct {
	Settings map[string]string // app settings: the handler's environment, and %NAME% in the app's files
	Environ  []string          // the host's own environment; nil: this process's environment

	// FunctionTimeout replaces the app's own if positive.
	FunctionTimeout time.Duration
	// InitializationTimeout replaces the app's own if positive.
	InitializationTimeout time.Duration
	// StopGrace is how long [Host.Stop] waits for running invocations; 0: 10 s.
	StopGrace time.Duration
	// ContentLength sends the length of request bodies, as Core Tools does;
	// otherwise they are chunked, as in Azure.
	ContentLength bool
}

// ErrStopped is the failure of an invocation if the host is stopped.
var ErrStopped = errors.New("functions host stopped")

// Host runs one app with at most one handler process at a time. A test of a
// restart or a scale-out starts two hosts on one app directory.
type Host struct {
	app    *app
	opts   Options
	port   int
	client *http.Client
	out    *output
	life   context.Context // ends when the host is closed
	end    context.CancelCauseFunc
	done   chan struct{} // supervision has ended and no process is left

	mu          sync.Mutex // guards the fields below, except invocations
	current     *process
	changed     chan struct{} // closed and replaced when current or stopping changes
	stopping    bool
	starts      int
	invocations sync.WaitGroup
}

// Start reads the app in root and starts its handler. It returns before the
// handler is ready, because the host's listeners do not wait for it either. The
// caller must call [Host.Stop] or [Host.Close].
func Start(root string, opts *Options) (*Host, error) {
	h := &Host{changed: make(chan struct{}), done: make(chan struct{})}
	if opts != nil {
		h.opts = *opts
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if h.app, err = readApp(root, h.opts.Settings); err != nil {
		return nil, err
	}
	if h.opts.FunctionTimeout > 0 {
		h.app.functionTimeout = h.opts.FunctionTimeout
	}
	if h.opts.InitializationTimeout > 0 {
		h.app.initializationTimeout = h.opts.InitializationTimeout
	}
	if h.opts.StopGrace == 0 {
		h.opts.StopGrace = 10 * time.Second
	}
	if h.port, err = freeport.Find(); err != nil { // stays the same when the handler is restarted
		return nil, err
	}
	h.out = &output{stderrIsError: h.app.stderrIsError}
	h.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	h.life, h.end = context.WithCancelCause(context.Background())
	go h.supervise()
	return h, nil
}

func (h *Host) url(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s", h.port, path)
}

// URL returns the handler's address.
func (h *Host) URL() string { return h.url("") }

// Lines returns the output of all handler processes so far.
func (h *Host) Lines() []Line { return h.out.all() }

// Starts counts the handler processes started so far.
func (h *Host) Starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts
}

// PID returns the id of the current handler process, 0 if there is none.
func (h *Host) PID() int {
	p, _, _ := h.snapshot()
	if p == nil || p.gone() {
		return 0
	}
	return p.cmd.Process.Pid
}

// Ready waits until the handler has answered its first GET /.
func (h *Host) Ready(ctx context.Context) error {
	_, err := h.handler(ctx)
	return err
}

// Stopped is closed when the host has given up or was closed; Err returns the
// reason.
func (h *Host) Stopped() <-chan struct{} { return h.done }

// Err returns the reason why the host stopped, nil while it runs.
func (h *Host) Err() error { return context.Cause(h.life) }

// Crash kills the handler without notice, as the kernel or a bug would. The host
// counts this as an error and restarts the handler.
func (h *Host) Crash() {
	if p, _, _ := h.snapshot(); p != nil {
		p.kill()
		<-p.exited
	}
}

// Stop rejects new invocations, waits for the running ones no longer than
// StopGrace, kills the handler without notice and ends the host.
func (h *Host) Stop() {
	h.mu.Lock()
	h.stopping = true
	h.wake()
	h.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		h.invocations.Wait()
	}()
	select {
	case <-idle:
	case <-time.After(h.opts.StopGrace):
	case <-h.life.Done():
	}
	h.Close()
	<-idle
}

// Close ends the host at once, as when an instance is reclaimed: the handler is
// killed even if an invocation is running.
func (h *Host) Close() {
	h.end(ErrStopped)
	<-h.done
	h.client.CloseIdleConnections()
}

func (h *Host) environ() []string {
	env := h.opts.Environ
	if env == nil {
		env = os.Environ()
	}
	env = slices.Clone(env)
	for name, value := range h.opts.Settings {
		env = append(env, name+"="+value)
	}
	return env
}

// snapshot returns the current process, a channel that closes when that changes,
// and whether new invocations are rejected.
func (h *Host) snapshot() (*process, <-chan struct{}, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current, h.changed, h.stopping
}

func (h *Host) publish(p *process) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = p
	if p != nil {
		h.starts++
	}
	h.wake()
}

// wake notifies goroutines that wait for a change of state. The caller holds mu.
func (h *Host) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}
