package tests

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"halley/tests/freeport"
)

// patience bounds every wait of the tests. Only a test that fails waits for so long, also
// on a machine that is slow and busy.
const patience = 3 * time.Minute

// process is a running binary. It is killed when its test ends; if the test failed,
// its output is logged.
type process struct {
	name   string
	cmd    *exec.Cmd
	output *output
	exited chan struct{}
}

// start runs a binary with env. Of this process's environment it gets only PATH and
// HOME.
func start(t *testing.T, name, path string, env map[string]string, args ...string) *process {
	t.Helper()
	return startIn(t, t.TempDir(), name, path, env, args...)
}

// startIn does the same in a directory.
func startIn(t *testing.T, dir, name, path string, env map[string]string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), output: &output{}, exited: make(chan struct{})}
	p.cmd.Env = environ(env)
	p.cmd.Dir = dir
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.exited)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("output of %s:\n%s", p.name, p.output.tail(40))
		}
		if raceEnabled && strings.Contains(p.output.String(), "DATA RACE") {
			t.Errorf("%s: data race:\n%s", p.name, p.output)
		}
	})
	return p
}

func environ(env map[string]string) []string {
	base := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		base = append(base, name+"="+env[name])
	}
	return base
}

// kill ends the process without notice.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM and returns the exit code.
func (p *process) terminate(t *testing.T) int {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	return p.wait(t)
}

// wait waits until the process ends by itself and returns the exit code.
func (p *process) wait(t *testing.T) int {
	t.Helper()
	return p.waitFor(t, patience)
}

// waitFor is wait with a bound of its own.
func (p *process) waitFor(t *testing.T, most time.Duration) int {
	t.Helper()
	select {
	case <-p.exited:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(most):
		t.Fatalf("%s did not end", p.name)
		return 0
	}
}

func (p *process) ended() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// command runs the binary to its end and returns its output and exit code.
func command(t *testing.T, env map[string]string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(binaries.halley, args...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = environ(env), t.TempDir(), &out, &errs
	done := make(chan struct{})
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		_ = cmd.Wait()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		_ = cmd.Process.Kill()
		<-done
		t.Errorf("halley %s did not end:\n%s", strings.Join(args, " "), errs.String())
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// eventually polls a condition of another process until it holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// freeAddress returns a loopback address for a process that is told where to listen.
func freeAddress(t testing.TB) string {
	t.Helper()
	n, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", n)
}

// output collects the output of a process.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func (o *output) tail(lines int) string {
	all := strings.Split(o.String(), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
