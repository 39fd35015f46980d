package browser

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPageIsAccessible: axe-core finds no violation in any state of the page, with its
// policy on, in light and in dark colours.
func TestPageIsAccessible(t *testing.T) {
	path := os.Getenv("HALLEY_TEST_AXE")
	if path == "" {
		t.Skip("needs axe-core: npm install axe-core@4.14.1, and HALLEY_TEST_AXE=node_modules/axe-core/axe.min.js")
	}
	axe, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0")
	p := openTab(t, d.page)
	p.run(script(string(axe)))
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
