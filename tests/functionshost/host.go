// Package functionshost is a stand-in for the Azure Functions host as a custom
// handler meets it. It reads an app directory, starts the executable that
// host.json names, waits for it, posts invocations, judges the answers,
// enforces functionTimeout and restarts or gives up on the process, with the
// habits of the real host that hurt: it never cancels a request, never warns a
// handler before it kills it, takes an empty answer for one that has yet to
// come, and does not restart a handler that exits with 0.
//
// The behaviour is that of Azure/azure-functions-host 4.1037:
// HttpFunctionInvocationDispatcher, DefaultHttpWorkerService, WorkerProcess
// and HttpWorkerOptionsSetup. Triggers are fired by the caller, so that a test
// decides when; storage, scale controller and HTTP triggers are left out.
package functionshost

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Options change a host. The zero value is a host in Azure with the app's own
// timeouts.
type Options struct {
	Settings map[string]string // app settings: the handler's environment, and %NAME% in the app's files
	Environ  []string          // what the host itself was started with; nil: this process's environment

	// FunctionTimeout replaces the app's own where positive.
	FunctionTimeout time.Duration
	// InitializationTimeout replaces the app's own where positive.
	InitializationTimeout time.Duration
	// StopGrace is how long [Host.Stop] waits for running invocations; 0: 10 s.
	StopGrace time.Duration
	// ContentLength frames request bodies with their length, as Core Tools
	// does; otherwise they are chunked, as in Azure.
	ContentLength bool
}

// ErrStopped is the failure of an invocation that a stopped host cannot run.
var ErrStopped = errors.New("functions host stopped")

// Host runs one app with at most one handler process at a time. Two hosts on
// one app directory are what a restart or a scale-out looks like.
type Host struct {
	app    *app
	opts   Options
	port   int
	client *http.Client
	out    *output
	life   context.Context // ends when the host is closed
	end    context.CancelCauseFunc
	done   chan struct{} // supervision has ended and no process is left

	mu          sync.Mutex
	current     *process
	changed     chan struct{} // closed and replaced when current or stopping changes
	stopping    bool
	starts      int
	invocations sync.WaitGroup
}

// Start reads the app in root and begins to run its handler. It returns before
// the handler is ready, as the host's listeners do not wait for it either.
// The caller must [Host.Stop] or [Host.Close] it.
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
	if h.port, err = pickPort(); err != nil {
		return nil, err
	}
	h.out = &output{stderrIsError: h.app.stderrIsError}
	h.client = &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}}
	h.life, h.end = context.WithCancelCause(context.Background())
	go h.supervise()
	return h, nil
}

// pickPort finds a free port the way the host does, by binding and closing one.
// It is picked once and survives restarts of the handler.
func pickPort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("pick the handler's port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (h *Host) url(path string) string {
	return fmt.Sprintf("http://127.0.0.1:%d/%s", h.port, path)
}

// URL is where the handler listens.
func (h *Host) URL() string { return h.url("") }

// Lines are what the handler processes have written so far.
func (h *Host) Lines() []Line { return h.out.all() }

// Starts counts the handler processes started so far.
func (h *Host) Starts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts
}

// PID is the handler process of now; 0 when there is none.
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

// Stopped is closed when the host has given up or was closed; Err says why.
func (h *Host) Stopped() <-chan struct{} { return h.done }

// Err is why the host stopped; nil while it runs.
func (h *Host) Err() error { return context.Cause(h.life) }

// Crash kills the handler as the kernel or a bug would: without notice, and
// counted as an error by the host, which restarts it.
func (h *Host) Crash() {
	if p, _, _ := h.snapshot(); p != nil {
		p.kill()
		<-p.exited
	}
}

// Stop takes no new invocation, waits for the running ones no longer than
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

// Close ends the host at once, as a reclaimed instance does: the handler is
// killed in the middle of what it does.
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

// snapshot gives the present process, a channel that closes when that changes,
// and whether new invocations are refused.
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

// wake tells who waits for a change of state; the caller holds mu.
func (h *Host) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}
