package browser

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPageIsAccessible: axe-core finds no violation in any state of the page, with its
// policy on, in light and in dark colours.
func TestPageIsAccessible(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0")
	p := openTab(t, d.page)
	p.run(script(axe))
	p.audit("empty")

	d.post(t, `{"id":"order-1","customer":"eve","total":1}`)
	p.showsChange("order-1", "handled")
	p.openRow("change-rows", "order-1")
	p.audit("drawer")
	p.press(button("#drawer-actions", "Edit and deliver"))
	p.sees("the editor is open", `document.querySelector('#dialog').open`)
	p.audit("dialog")
	p.run(chromedp.KeyEvent("\x1b"))
	p.sees("the dialog is closed", `!document.querySelector('#dialog').open`)
	p.press(button("#drawer-actions", "Poison"))
	p.run(chromedp.KeyEvent("\x1b"))
	p.sees("a range is stalled", `document.querySelector('#range-rows').textContent.includes('stalled')`)
	p.audit("failing")
	p.showsChange("order-1", "dead-lettered")
	p.run(script(`document.querySelector('#settings details').open = true`))
	p.audit("dead letter")

	p.run(script(`document.querySelector('main').append(document.createElement('img'))`))
	if len(p.violations()) == 0 {
		t.Error("axe does not see an image without a text")
	}
}

func axeScript(t *testing.T) string {
	t.Helper()
	path := os.Getenv("HALLEY_TEST_AXE")
	if path == "" {
		t.Skip("needs axe-core: npm install axe-core@4.14.1, and HALLEY_TEST_AXE=node_modules/axe-core/axe.min.js")
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(axe)
}

// TestOperatorsPageIsAccessible: the same of the operators' page, with the dialogs about
// leases and dead letters, and of the pages without a script.
func TestOperatorsPageIsAccessible(t *testing.T) {
	t.Parallel()
	axe := axeScript(t)
	f := newFleet(t, nil)
	_, address := f.host("host-a")
	p := f.open(address)
	p.run(script(axe))
	p.audit("empty")
	f.post(`{"id":"order-1","fail":true}`)
	p.sees("the dead letter is listed", "!!("+row("letter-rows", "order-1")+")")
	p.openRow("letter-rows", "order-1")
	p.audit("dead letter")
	p.press(button("#drawer-actions", "Discard"))
	p.sees("the plan is shown", `document.querySelector('#dialog').open && !document.querySelector('#confirm-part').hidden`)
	p.audit("discard")
	p.run(chromedp.KeyEvent("\x1b"))
	p.closeDrawer()
	p.press(`document.querySelector('button[aria-label="Manage range 0"]')`)
	p.audit("manage")
	p.run(script(`document.querySelector('#lease-action').value = 'seek'; document.querySelector('#lease-action').dispatchEvent(new Event('input')); document.querySelector('#lease-to').value = 'now'`))
	p.press(`document.querySelector('#dialog-do')`)
	p.run(chromedp.KeyEvent("\x1b"))
	if out, code := f.command("leases", "pause", "--function", "orders", "--reason", "audit", "--yes"); code != 0 {
		t.Fatalf("leases pause: %d\n%s", code, out)
	}
	p.rangesSay("paused by an operator")
	p.audit("paused")
	for _, path := range []string{"plain", "plain-act?function=orders&range=0", "plain-act?function=orders&letters=all", "sign-in", "plain-letter?letter=none"} {
		p.follow(chromedp.Navigate(address + path))
		p.run(script(axe))
		p.audit(path)
	}
}

// audit runs axe in both colours.
func (p *tab) audit(state string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		p.colours(scheme)
		p.sees("nothing moves", `document.getAnimations().every(a => a.playState === 'finished')`)
		for _, violation := range p.violations() {
			p.t.Errorf("%s, %s: %s", state, scheme, violation)
		}
	}
	p.colours("light")
}

func (p *tab) violations() []string {
	p.t.Helper()
	return evaluate[[]string](p, `axe.run({ resultTypes: ['violations'] }).then(r => r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + n.html + ' ' + n.failureSummary)))`)
}
