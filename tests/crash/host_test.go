package crash

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"halley/tests/history"
	"halley/trigger/emulator"
)

// Intervals of the hosts, short enough for many kills.
const (
	poll       = 50 * time.Millisecond
	acquiring  = 300 * time.Millisecond
	renewing   = 400 * time.Millisecond
	expiration = time.Second
	handling   = 20 * time.Millisecond // a handler call
)

// after is time.After, for waits on other processes.
func after(d time.Duration) <-chan time.Time { return time.After(d) }

// life is one process of a host, with a listener that only it dials.
type life struct {
	cell   *cell
	name   string
	cmd    *exec.Cmd
	log    *os.File
	server *http.Server
	exited chan struct{}

	ending sync.Once
	killed bool // set by ending

	mu        sync.Mutex
	started   time.Time
	asked     time.Time // to stop; zero if it was not
	ended     time.Time
	firstPage time.Time // with changes; zero if it has read none
}

// start starts a host process.
func (c *cell) start(binary string) *life {
	c.mu.Lock()
	c.lives++
	name := fmt.Sprintf("%s-%d", c.name, c.lives)
	c.mu.Unlock()
	l := &life{cell: c, name: name, exited: make(chan struct{})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(c.t, err)
	l.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(l, w, r) })}
	go func() {
		if err := l.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			c.t.Errorf("serve %s: %v", name, err)
		}
	}()
	l.log, err = os.Create(filepath.Join(filepath.Dir(c.path), name+".log"))
	must(c.t, err)
	l.cmd = exec.Command(binary, append([]string{
		"-connection", fmt.Sprintf("AccountEndpoint=http://%s/;AccountKey=%s;", listener.Addr(), emulator.Key),
		"-database", database, "-container", c.monitored, "-leases", c.leases, "-prefix", "crash", "-history", c.path, "-owner", name,
		"-poll", poll.String(), "-acquire", acquiring.String(), "-renew", renewing.String(), "-expiration", expiration.String(),
		"-delay", handling.String()}, c.flags...)...)
	l.cmd.Env = []string{"HOME=" + os.Getenv("HOME")}
	l.cmd.Stdout, l.cmd.Stderr = l.log, l.log
	l.started = time.Now()
	c.record(history.Event{Kind: history.Host, Op: history.Started, Host: name, Time: l.started})
	must(c.t, l.cmd.Start())
	go func() {
		_ = l.cmd.Wait()
		l.mu.Lock()
		l.ended = time.Now()
		l.mu.Unlock()
		close(l.exited)
	}()
	return l
}

// kill sends SIGKILL and returns when the process is dead.
func (l *life) kill() { l.end(syscall.SIGKILL, history.Killed) }

// stop ends the process gracefully. If the process has already ended, or ends with
// an error, the test fails. The signal may come before the process handles it.
func (l *life) stop() {
	l.end(syscall.SIGTERM, history.Stopped)
	state := l.cmd.ProcessState
	status, _ := state.Sys().(syscall.WaitStatus)
	if !l.killed && !state.Success() && status.Signal() != syscall.SIGTERM {
		text, _ := os.ReadFile(l.log.Name())
		l.cell.t.Errorf("%s: %v\n%s", l.name, state, text[max(0, len(text)-2000):])
	}
}

func (l *life) end(signal os.Signal, op history.Op) {
	l.ending.Do(func() {
		l.killed = op == history.Killed
		if !l.killed && !l.dead() {
			l.askToStop()
		}
		_ = l.cmd.Process.Signal(signal)
		<-l.exited
		l.cell.record(history.Event{Kind: history.Host, Op: op, Host: l.name, Time: time.Now()})
	})
}

// terminate sends SIGTERM and does not wait, because a trap may kill the process.
func (l *life) terminate() {
	l.askToStop()
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
}

// askToStop records that the process gets SIGTERM.
func (l *life) askToStop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() {
		l.asked = time.Now()
	}
}

// readPage records that the process gets a page with changes.
func (l *life) readPage() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.firstPage.IsZero() {
		l.firstPage = time.Now()
	}
}

// times returns how long the process took to stop, and how long from its start to
// its first page with changes. They are negative if it did not stop by itself, or has
// read no page.
func (l *life) times() (stop, start time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	stop, start = -1, -1
	if !l.killed && !l.asked.IsZero() {
		stop = l.ended.Sub(l.asked)
	}
	if !l.firstPage.IsZero() {
		start = l.firstPage.Sub(l.started)
	}
	return stop, start
}

func (l *life) dead() bool {
	select {
	case <-l.exited:
		return true
	default:
		return false
	}
}

// close kills the process, and closes its listener and its log.
func (l *life) close() {
	l.kill()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
	_ = l.log.Close()
}
