// Package browser tests the page of the command dev, and that of operators, in a real
// browser: Debian's Chromium, driven over the DevTools protocol.
package browser

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds every wait.
const patience = 40 * time.Second

// built are the demo, a new app as its users get it, and the same with the handler of
// testdata. TestMain builds them once.
var built struct{ directory, halley, shop, orders string }

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if built.directory, err = os.MkdirTemp("", "halley-browser-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(built.directory)
	root, err := filepath.Abs("../..")
	if err != nil {
		return 1, err
	}
	built.halley = filepath.Join(built.directory, "halley")
	app := filepath.Join(built.directory, "shop")
	built.shop, built.orders = filepath.Join(app, "shop"), filepath.Join(app, "orders-app")
	handler, err := filepath.Abs("testdata/orders.go")
	if err != nil {
		return 1, err
	}
	for _, step := range []struct {
		dir  string
		args []string
	}{
		{root, []string{"go", "build", "-o", built.halley, "./function"}},
		{root, []string{built.halley, "new", "app", app, "--module", "example.com/shop", "--halley", root}},
		{app, []string{"go", "build", "-o", built.shop, "."}},
		{app, []string{"cp", handler, "orders/orders.go"}},
		{app, []string{"go", "build", "-tags", "nodev", "-o", built.orders, "."}},
	} {
		cmd := exec.Command(step.args[0], step.args[1:]...)
		cmd.Dir = step.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("%s: %w\n%s", strings.Join(step.args, " "), err, out)
		}
	}
	return m.Run(), nil
}

// program is a running process of an app.
type program struct {
	cmd    *exec.Cmd
	output *output
	ended  chan struct{}
}

// dev is a running development run.
type dev struct {
	*program
	page    string // address with the token
	account string // connection string
}

// output collects the output of a process.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var (
	pageLine    = regexp.MustCompile(`http://\S+/\?token=\w+`)
	accountLine = regexp.MustCompile(`AccountEndpoint=\S+`)
)

// startDev runs dev of a program until the test ends.
func startDev(t *testing.T, path string, args ...string) *dev {
	t.Helper()
	d := &dev{program: startProgram(t, nil, path, append([]string{"dev"}, args...)...)}
	eventually(t, "dev prints the address of its page", func() bool {
		d.page, d.account = pageLine.FindString(d.output.String()), accountLine.FindString(d.output.String())
		return d.page != "" && d.account != ""
	})
	return d
}

// startProgram runs a program with these settings until the test ends.
func startProgram(t *testing.T, settings map[string]string, path string, args ...string) *program {
	t.Helper()
	d := &program{cmd: exec.Command(path, args...), output: &output{}, ended: make(chan struct{})}
	d.cmd.Dir, d.cmd.Stdout, d.cmd.Stderr = t.TempDir(), d.output, d.output
	d.cmd.Env = environment(settings)
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(d.ended)
		_ = d.cmd.Wait()
	}()
	t.Cleanup(func() {
		d.kill()
		if t.Failed() {
			t.Logf("output of %s %v:\n%s", filepath.Base(path), args, d.output)
		}
	})
	return d
}

func environment(settings map[string]string) []string {
	all := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + os.TempDir()}
	for name, value := range settings {
		all = append(all, name+"="+value)
	}
	return all
}

func (d *program) kill() {
	_ = d.cmd.Process.Kill() // it may have ended
	<-d.ended
}

// stop ends the run in good order and returns its exit code.
func (d *program) stop(t *testing.T) int {
	t.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-d.ended:
		return d.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("dev did not end")
		return 0
	}
}

// post writes documents to the app's container with a program in another language.
func (d *dev) post(t *testing.T, documents ...string) {
	t.Helper()
	postTo(t, d.account, documents...)
}

func postTo(t *testing.T, account string, documents ...string) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("the client that writes needs Node.js 18 or later")
	}
	cmd := exec.Command(node, append([]string{"../testdata/post.mjs", account, "shop", "orders", "id"}, documents...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func eventually(t *testing.T, state string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", state)
		}
		<-time.After(50 * time.Millisecond)
	}
}
