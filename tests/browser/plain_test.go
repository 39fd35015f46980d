package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// hasText waits until the body of the page has a text.
func (p *tab) hasText(text string) {
	p.t.Helper()
	p.sees("the page says "+text, fmt.Sprintf(`document.body?.innerText.includes(%q) === true`, text))
}

// link is an expression for the link with a text.
func link(text string) string {
	return fmt.Sprintf(`[...document.querySelectorAll('a')].find(a => a.textContent === %q)`, text)
}

// reloadsTo waits for a text in a document that the browser loads again every second
// until it is there. Each document is read once, after it has loaded; if the browser
// leaves it meanwhile, the next one is read.
func (p *tab) reloadsTo(text string) {
	p.t.Helper()
	for {
		loads, _ := p.loadsSoFar()
		says, err := attempt(p, chromedp.Evaluate[bool](fmt.Sprintf(`document.body.innerText.includes(%q)`, text)))
		if err == nil && says {
			return
		}
		p.awaitLoad(len(loads), "")
	}
}

// click clicks the element of an expression, a link or a button that leads to another
// document, and waits until that one has loaded.
func (p *tab) click(expression string) {
	p.t.Helper()
	p.sees(expression+" is there", fmt.Sprintf(`!!(%s)`, expression))
	p.follow(script(fmt.Sprintf(`(%s).click()`, expression)))
}

// submit fills the fields of a form by their names, and sends it.
func (p *tab) submit(form string, fields map[string]string) {
	p.t.Helper()
	for name, value := range fields {
		p.sees("the field "+name+" is there", fmt.Sprintf(`!!document.querySelector('%s [name=%s]')`, form, name))
		p.run(script(fmt.Sprintf(`document.querySelector('%s [name=%s]').value = %q`, form, name, value)))
	}
	p.click(fmt.Sprintf(`document.querySelector('%s button')`, form))
}

// TestPageWorksWithoutScripts: a browser that runs no script is led to a page where a
// viewer signs in, reads, filters, plans and confirms. (The DevTools protocol still
// evaluates expressions.)
func TestPageWorksWithoutScripts(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	_, address := f.host("host-a")
	f.post(`{"id":"order-1"}`, `{"id":"<img src=x onerror=alert(1)>","fail":true}`, `{"id":"order-3","fail":true}`)
	p := newTab(t)
	if _, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	p.followTo("plain", chromedp.Navigate(address)) // by the first document
	p.hasText("Actions need the token")
	if evaluate[bool](p, `document.querySelectorAll('a[href*=plain-act]').length > 0`) {
		t.Error("actions are offered without the token")
	}
	p.click(link("sign in"))
	p.submit("form", map[string]string{"token": "not-the-token-of-these-tests"})
	p.hasText("This is not the token of the page")
	p.submit("form", map[string]string{"token": pageToken})
	eventually(t, "the dead letters are listed", func() bool {
		p.click(link("Read again"))
		return p.holds(`!!(document.body?.innerText.includes('order-3') && document.body.innerText.includes('dead letters: 2'))`)
	})
	if evaluate[int](p, `document.querySelectorAll('img').length`) > 0 || !evaluate[bool](p, `document.body.innerText.includes('<img src=x onerror=alert(1)>')`) {
		t.Error("the id of a document became markup")
	}
	p.screenshot("operators-plain")

	p.step("filter and replay", func(t *testing.T) {
		p.submit("form[role=search]", map[string]string{"function": "orders", "key": "order-3"})
		p.sees("one dead letter is listed", `location.search.includes('key=order-3') && document.querySelectorAll('a[href*=plain-letter]').length === 1`)
		p.click(link("order-3"))
		p.hasText(`"fail": true`)
		p.hasText("the sink refuses order order-3")
		f.repair(true)
		p.click(link("Act on this dead letter"))
		p.submit("form", map[string]string{"action": "replay"})
		p.hasText("is called with 1 dead letter")
		p.submit("form[action=plain-do]", nil)
		p.reloadsTo("done: 1 dead letter handled")
	})
	p.step("discard with the count", func(t *testing.T) {
		p.click(link("Back"))
		p.submit("form[role=search]", map[string]string{"function": "orders"})
		p.click(link("Act on all of these"))
		p.submit("form", map[string]string{"action": "discard"})
		p.hasText("1 dead letter of orders")
		p.submit("form", map[string]string{"confirm": "2"})
		p.hasText("the confirmation is not 1")
		p.submit("form", map[string]string{"confirm": "1"})
		p.reloadsTo("done: 1 dead letter deleted")
	})
	p.step("pause", func(t *testing.T) {
		p.click(link("Back"))
		p.click(`document.querySelector('a[aria-label="Act on function orders, range 1"]')`)
		p.submit("form", map[string]string{"action": "pause"})
		p.hasText("give a reason")
		p.click(link("Back"))
		p.click(`document.querySelector('a[aria-label="Act on function orders, range 1"]')`)
		p.submit("form", map[string]string{"action": "pause", "reason": "maintenance"})
		p.hasText("stops: maintenance")
		p.submit("form[action=plain-do]", nil)
		p.reloadsTo("done: pause of orders is done: 1 range")
		p.click(link("Back"))
		eventually(t, "the range is paused", func() bool {
			p.click(link("Read again"))
			return evaluate[bool](p, `!!(document.body?.innerText.includes('paused by an operator') && document.body.innerText.includes('Next: resume the range'))`)
		})
		f.status("paused by an operator")
	})
	if bad := p.complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %q", bad)
	}
}
