package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a page in the browser.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex    // guards the fields below
	messages []string      // errors of scripts and reports of the browser, such as those about the policy
	address  string        // of the document that the browser loads or has loaded
	loads    []string      // addresses of the documents that have loaded
	loaded   chan struct{} // closed when the next one has
}

// openTab opens a page in a browser of its own, and waits until it is live.
func openTab(t *testing.T, address string) *tab {
	t.Helper()
	p := newTab(t)
	p.goLive(address)
	return p
}

// goLive goes to a page and waits until it is live.
func (p *tab) goLive(address string) {
	p.t.Helper()
	p.follow(chromedp.Navigate(address))
	p.run(chromedp.WaitVisible(chromedp.CSS("#connection.live")))
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
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1400, 900), chromedp.Flag("enable-precise-memory-info", true))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root cannot have
	}
	browser, closeBrowser := chromedp.NewExecAllocator(context.Background(), options...) // until the clean-up, which reads the page
	t.Cleanup(closeBrowser)
	ctx, closeTab := chromedp.NewContext(browser)
	t.Cleanup(closeTab)
	p := &tab{t: t, ctx: ctx, loaded: make(chan struct{})}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *cdplog.EventEntryAdded:
			p.note(e.Entry.Text)
		case *runtime.EventExceptionThrown:
			p.note(e.ExceptionDetails.Text)
		case *page.EventFrameNavigated:
			if e.Frame.ParentID == "" {
				p.startLoad(e.Frame.URL)
			}
		case *page.EventLoadEventFired:
			p.endLoad()
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

func (p *tab) startLoad(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.address = address
}

func (p *tab) endLoad() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loads = append(p.loads, p.address)
	close(p.loaded)
	p.loaded = make(chan struct{})
}

// loadsSoFar returns the addresses of the documents that have loaded, and a channel that
// is closed when the next one has.
func (p *tab) loadsSoFar() ([]string, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loads, p.loaded
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
	value, err := attempt(p, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

// attempt returns the value or the error of an action.
func attempt[T any](p *tab, action chromedp.Action[T]) (T, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, action)
}

// follow runs an action by which the browser leaves its document, and waits until the
// next one has loaded. Until then no expression may be evaluated: the answer would be the
// old document's, or an error if the browser leaves it during the evaluation.
func (p *tab) follow(action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	p.followTo("", action)
}

// followTo is the same if documents lead on to others by themselves: it waits for one
// whose address contains a text.
func (p *tab) followTo(address string, action chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	before, _ := p.loadsSoFar()
	p.run(action)
	p.awaitLoad(len(before), address)
}

// awaitLoad waits until another document than the first ones has loaded, with a text in
// its address.
func (p *tab) awaitLoad(first int, address string) {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		loads, next := p.loadsSoFar()
		if slices.ContainsFunc(loads[first:], func(at string) bool { return strings.Contains(at, address) }) {
			return
		}
		select {
		case <-next:
		case <-deadline:
			p.t.Fatalf("no document has loaded at an address with %q after %q", address, loads)
		}
	}
}

// evaluate returns the value of a JavaScript expression.
func evaluate[T any](p *tab, expression string) T {
	p.t.Helper()
	return valueOf(p, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// holds reports whether an expression is true. It is not while the browser leaves the document.
func (p *tab) holds(expression string) bool {
	p.t.Helper()
	value, err := attempt(p, chromedp.Evaluate[bool](expression, chromedp.EvalAwaitPromise))
	if err != nil && !strings.Contains(err.Error(), "navigated or closed") {
		p.t.Fatal(err)
	}
	return value
}

// script runs JavaScript and ignores its value.
func script(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Evaluate[chromedp.Void](text)
}

// sees waits until an expression is true on the page.
func (p *tab) sees(state, expression string) {
	p.t.Helper()
	eventually(p.t, state, func() bool { return p.holds(expression) })
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

// keepsFocus checks that an action has left the focus in the section of its button.
func (p *tab) keepsFocus(action string) {
	p.t.Helper()
	if at := evaluate[string](p, `document.activeElement.outerHTML.slice(0, 200)`); !evaluate[bool](p, `!!document.activeElement.closest('section')`) {
		p.t.Errorf("after %s the focus is at %s", action, at)
	}
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
