// Package browser tests the page of the command dev, and that of operators, in a real
// browser: Debian's Chromium, driven over the DevTools protocol.
package browser

import (
	"bytes"
	"context"
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

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
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

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	messages []string // errors of scripts and reports of the browser, such as those about the policy
}

// openTab opens a page in a browser of its own, and waits until it is live.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	p := newTab(t)
	p.run(chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("#connection.live")))
	return p
}

// newTab opens a browser of its own, without a page.
func newTab(t *testing.T) *tab {
	t.Helper()
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Skip("needs a browser: apt-get install chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1400, 900))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	browser, closeBrowser := chromedp.NewExecAllocator(context.Background(), options...) // until the clean-up, which reads the page
	t.Cleanup(closeBrowser)
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	p := &tab{t: t, ctx: ctx}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			p.note(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			p.note(e.ExceptionDetails.Text)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, enable := range []cdp.Command[cdp.Empty, cdp.Empty]{cdplog.Enable, runtime.Enable} {
		if _, err := chromedp.Call(ctx, enable, cdp.Empty{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			p.report()
		}
	})
	return p
}

// refused matches the browser's message about an answer that the page shows to its viewer.
var refused = regexp.MustCompile(`^Failed to load resource: the server responded with a status of 4\d\d`)

func (p *tab) note(text string) {
	if refused.MatchString(text) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.messages = append(p.messages, text)
}

// complaints are the messages so far.
func (p *tab) complaints() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.messages...)
}

// report logs the text of the page after a failure.
func (p *tab) report() {
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	text, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body.innerText`)) // the browser may have gone
	p.t.Logf("page:\n%s\nmessages: %q", text, p.complaints())
}

func (p *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	valueOf(p, chromedp.Steps(actions...))
}

// valueOf returns the value of an action.
func valueOf[T any](p *tab, action chromedp.Action[T]) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	return valueOf(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// script runs JavaScript and ignores its value.
func script(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](text)
}

// sees waits until an expression is true on the page.
func (p *tab) sees(state, expression string) {
	p.t.Helper()
	eventually(p.t, state, func() bool { return evaluate[bool](p, expression) })
}

// row is an expression for the row of a document in the table of changes or of dead
// letters, the newest if there are several.
func row(table, document string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('#%s tr')].find(r => r.querySelector('button.row').textContent === %q)`, table, document)
}

// showsChange waits until the newest change of a document has a state. While the focus is
// in the table, new rows wait for a button.
func (p *tab) showsChange(document, state string) {
	p.t.Helper()
	p.run(script(`document.activeElement.blur()`))
	p.sees(document+" is "+state, fmt.Sprintf(`(%s)?.cells[0].innerText.includes(%q) === true`, row("change-rows", document), state))
}

// press clicks the element of an expression as a keyboard does: it gets the focus, then
// Enter.
func (p *tab) press(expression string) {
	p.t.Helper()
	p.sees(expression+" is there", fmt.Sprintf(`!!(%s)`, expression))
	p.run(script(fmt.Sprintf(`(%s).focus()`, expression)), chromedp.KeyEvent("\r"))
}

// button is an expression for the button with a label inside of an element.
func button(inside, label string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('%s button')].find(b => b.textContent === %q)`, inside, label)
}

// openRow shows the newest row of a document in the drawer, a change or a dead letter.
func (p *tab) openRow(table, document string) {
	p.t.Helper()
	p.press(row(table, document) + `?.querySelector('button.row')`)
	p.sees("the drawer shows "+document, fmt.Sprintf(`!document.querySelector('#drawer').hidden && document.querySelector('#drawer-title').textContent.includes(%q)`, document))
}

func (p *tab) closeDrawer() {
	p.t.Helper()
	p.run(chromedp.KeyEvent("\x1b"))
	p.sees("the drawer is closed", `document.querySelector('#drawer').hidden`)
}

// screenshot writes a picture of the window to the directory of HALLEY_SCREENSHOTS, or to
// one of the test.
func (p *tab) screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("HALLEY_SCREENSHOTS")
	if dir == "" {
		dir = p.t.TempDir()
	}
	p.sees("nothing moves", `document.getAnimations().every(a => a.playState === 'finished')`)
	picture := valueOf(p, chromedp.CaptureScreenshot())
	if len(picture) < 10_000 {
		p.t.Errorf("the picture %s has only %d bytes", name, len(picture))
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// colours makes the page light or dark.
func (p *tab) colours(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// step runs a part of a story, which ends with it if it fails.
func (p *tab) step(name string, do func(t *testing.T)) {
	p.t.Helper()
	whole := p.t
	defer func() { p.t = whole }()
	if !whole.Run(name, func(t *testing.T) {
		p.t = t
		do(t)
	}) {
		whole.FailNow()
	}
}
