package functionshost

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"
)

// process is one run of the handler's executable.
type process struct {
	cmd     *exec.Cmd
	alive   context.Context // ends with the process, and with the host
	ready   chan struct{}   // closed when it has answered GET /
	exited  chan struct{}   // closed when it has ended
	exit    int             // exit code, -1 if a signal ended it; valid when exited is closed
	message string          // state at the end, with its last error lines; valid when exited is closed
	retired atomic.Bool     // the host itself killed it: the exit is not counted
}

const pollReady = 25 * time.Millisecond

// startProcess runs the executable. The environment has its port, also under the
// names of the older httpWorker.
func (h *Host) startProcess() (*process, error) {
	p := &process{ready: make(chan struct{}), exited: make(chan struct{})}
	alive, end := context.WithCancel(h.life)
	p.alive = alive
	stdout := &stream{to: h.out}
	stderr := &stream{to: h.out, stderr: true}
	port, worker := strconv.Itoa(h.port), uuid.NewString()
	p.cmd = exec.Command(h.app.executable, h.app.arguments...)
	p.cmd.Dir = h.app.workingDirectory
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	p.cmd.Env = append(h.environ(),
		"FUNCTIONS_CUSTOMHANDLER_PORT="+port,
		"FUNCTIONS_CUSTOMHANDLER_WORKER_ID="+worker,
		"FUNCTIONS_HTTPWORKER_PORT="+port,
		"FUNCTIONS_HTTPWORKER_ID="+worker,
		"FUNCTIONS_APP_ROOT_PATH="+h.app.root,
	)
	if err := p.cmd.Start(); err != nil {
		end()
		return nil, fmt.Errorf("start %s: %w", filepath.Base(h.app.executable), err)
	}
	go func() {
		defer close(p.exited)
		defer end()
		_ = p.cmd.Wait()
		stdout.flush()
		stderr.flush()
		p.exit = p.cmd.ProcessState.ExitCode()
		p.message = strings.Join(append([]string{p.cmd.ProcessState.String()}, stderr.last...), "; ")
	}()
	return p, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
}

func (p *process) gone() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// awaitReady polls GET / until it gets any HTTP status. If a connection is
// refused, it polls again; every other failure counts as ready. Only the time
// between two polls counts against the initialization timeout.
func (h *Host) awaitReady(p *process) error {
	for slept := time.Duration(0); slept < h.app.initializationTimeout; slept += pollReady {
		if h.answers(p.alive) && !p.gone() {
			close(p.ready)
			return nil
		}
		select {
		case <-time.After(pollReady):
		case <-p.alive.Done():
			return nil // the caller judges the exit
		}
	}
	return fmt.Errorf("not ready within %v", h.app.initializationTimeout)
}

func (h *Host) answers(ctx context.Context) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url(""), nil)
	if err != nil {
		return false
	}
	resp, err := h.client.Do(req)
	if err == nil {
		resp.Body.Close()
		return true
	}
	return ctx.Err() == nil && !errors.Is(err, syscall.ECONNREFUSED)
}
