package exactlyonce

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"halley/handlers/handlerstest/parallel"
)

// binary is the app. The first test that starts hosts builds it.
var binary string

var buildApp = sync.OnceValue(func() error {
	if out, err := exec.Command("go", "build", "-o", binary, "halley/tests/exactlyonce/app").CombinedOutput(); err != nil {
		return fmt.Errorf("build the app: %w\n%s", err, out)
	}
	return nil
})

func TestMain(m *testing.M) {
	parallel.AtOnce(4)
	dir, err := os.MkdirTemp("", "halley-exactlyonce-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binary = filepath.Join(dir, "app")
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// host is a sequence of processes with one owner name.
type host struct {
	t        *testing.T
	name     string
	settings []string
	log      *os.File
	cmd      *exec.Cmd
}

func (h *host) start() {
	h.t.Helper()
	h.cmd = exec.Command(binary, "run")
	h.cmd.Env = append([]string{"HOME=" + os.Getenv("HOME"), "HALLEY_OWNER=" + h.name}, h.settings...)
	h.cmd.Dir = filepath.Dir(h.log.Name())
	h.cmd.Stdout, h.cmd.Stderr = h.log, h.log
	if err := h.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
}

// kill ends the process with -9.
func (h *host) kill() {
	_ = h.cmd.Process.Kill()
	_ = h.cmd.Wait()
}

// stop ends the process in good order. If it ended by itself, the test fails. A process that
// began a moment ago may not watch signals yet: SIGTERM ends it as it is.
func (h *host) stop() {
	h.t.Helper()
	_ = h.cmd.Process.Signal(syscall.SIGTERM)
	err := h.cmd.Wait()
	if status, _ := h.cmd.ProcessState.Sys().(syscall.WaitStatus); err != nil && status.Signal() != syscall.SIGTERM {
		h.t.Errorf("%s: %v; its log is %s", h.name, err, h.log.Name())
	}
}

// command returns a command of the app with the settings of the host.
func (h *host) command(ctx context.Context, arguments ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, binary, arguments...)
	c.Env, c.Dir = h.settings, filepath.Dir(h.log.Name())
	return c
}

// fleet is the hosts of a run.
type fleet struct {
	hosts      []*host
	kills      int
	beforeKill func() // may be nil
	random     *rand.Rand
}

// killAtRandom kills a host every interval on average, and starts it again at once, until
// ctx ends.
func (f *fleet) killAtRandom(ctx context.Context, interval time.Duration) {
	for {
		waitUntil(ctx, time.Now().Add(time.Duration(f.random.Int64N(int64(2*interval)))))
		if ctx.Err() != nil {
			return
		}
		f.killOne()
	}
}

// killOne kills a host, and starts it again.
func (f *fleet) killOne() {
	if f.beforeKill != nil {
		f.beforeKill()
	}
	h := f.hosts[f.random.IntN(len(f.hosts))]
	h.kill()
	h.start()
	f.kills++
}

func newHost(t *testing.T, dir string, i int, settings []string) *host {
	t.Helper()
	name := fmt.Sprint("host-", i)
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return &host{t: t, name: name, settings: settings, log: log}
}
