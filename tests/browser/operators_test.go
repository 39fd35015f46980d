package browser

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestOperatorsPageTellsTheOnCallStory: a poison document, a slow sink, a dead host and a
// throttled account are found on the page with reason and next step, as the command
// status gives it, and mended from the page: paused, resumed, replayed, rewound.
func TestOperatorsPageTellsTheOnCallStory(t *testing.T) {
	t.Parallel()
	f := newFleet(t, map[string]string{"HALLEY_RETRY_MAX": "4s", "HALLEY_RETRY_MIN": "1500ms"})
	host, address := f.host("host-a")
	p := f.open(address)
	f.post(`{"id":"order-1"}`, `{"id":"order-2"}`, `{"id":"order-3"}`)
	p.caughtUp()

	p.step("poison document", func(t *testing.T) {
		f.post(`{"id":"order-13","fail":true}`)
		p.rangesSay("stalled", "handler has failed for", "attempt", "of 3", "the sink refuses order order-13", "Next: repair the handler or what it calls")
		p.tidy()
		p.screenshot("operators-poison")
		f.status("handler has failed for")
		p.sees("the dead letter is listed", "!!("+row("letter-rows", "order-13")+")")
		p.showsChange("order-13", "dead-lettered")
		p.caughtUp()
		f.repair(true)
		p.openRow("letter-rows", "order-13")
		p.screenshot("operators-letter")
		p.press(button("#drawer-actions", "Replay"))
		p.sees("the plan is shown", `document.querySelector('#dialog').open && document.querySelector('#effects').textContent.includes('1 dead letter')`)
		p.run(chromedp.KeyEvent("\r"))
		p.told("1 dead letter handled")
		p.sees("the dead letter has left", `document.querySelectorAll('#letter-rows tr').length === 0`)
		p.run(chromedp.KeyEvent("\x1b"))
		f.repair(false)
	})

	p.step("slow sink", func(t *testing.T) {
		f.post(`{"id":"order-20","slow":true}`)
		p.rangesSay("handler call running for", "Next: look at what the handler calls")
		p.tidy()
		p.screenshot("operators-slow")
		f.status("handler call running for")
		p.plan("Manage all leases of orders", "pause", map[string]string{"lease-reason": "the sink is slow"})
		p.sees("the plan is shown", `document.querySelector('#effects').textContent.includes('stops: the sink is slow')`)
		p.screenshot("operators-plan")
		p.confirm("stops: the sink is slow")
		f.repair(true)
		p.told("pause of orders is done: 2 ranges")
		p.rangesSay("paused by an operator", "the sink is slow", "Next: resume the range")
		f.status("paused by an operator")
		p.sees("no range has an owner", `[...document.querySelectorAll('#range-rows tr')].every(r => r.cells[2].textContent === '(free)')`)
		p.plan("Manage all leases of orders", "resume", nil)
		p.confirm("continues")
		p.told("resume of orders is done: 2 ranges")
		p.caughtUp()
	})

	p.step("dead host", func(t *testing.T) {
		other, _ := f.host("host-b")
		p.sees("the other host has a lease", `[...document.querySelectorAll('#hosts li')].some(h => h.textContent.includes('host-b') && h.textContent.includes('another process'))`)
		other.kill()
		p.rangesSay("owner silent for", "Next: check that the owner's process runs")
		p.tidy()
		p.screenshot("operators-dead-host")
		p.sees("host-a has both ranges", `[...document.querySelectorAll('#range-rows tr')].every(r => r.cells[2].textContent === 'host-a')`)
		p.caughtUp()
	})

	p.step("throttled account", func(t *testing.T) {
		fault := f.manage(http.MethodPost, "faults", `{"method":"GET","resource":"docs","header":{"A-IM":"."},"status":429,"substatus":3200,"retryAfter":"100ms"}`)
		f.post(`{"id":"order-30"}`)
		p.rangesSay("feed throttled for", "Next: raise the throughput")
		p.tidy()
		p.screenshot("operators-throttled")
		f.manage(http.MethodDelete, "faults/"+fault.ID, "")
		p.caughtUp()
	})

	p.step("rewind", func(t *testing.T) {
		p.plan("Manage range 0", "seek", map[string]string{"lease-to": "beginning"})
		p.confirm("repeats ")
		p.told("seek of orders is done: 1 range")
		p.caughtUp()
		p.sees("the timeline has the action", `document.querySelector('#moments').textContent.includes('seek of orders is done: 1 range')`)
	})

	p.tidy()
	p.colours("dark")
	p.screenshot("operators-dark")
	if bad := p.complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %q", bad)
	}
	if text := host.output.String(); strings.Contains(text, pageToken) {
		t.Error("the output has the token")
	}
	if code := host.stop(t); code != 0 {
		t.Errorf("the host ended with %d", code)
	}
}

// TestSeekAfterLeasesMovedIsRefused: a plan that a viewer has seen is done only if the
// leases are as it says. Each action has two lines in the log, and neither a secret.
func TestSeekAfterLeasesMovedIsRefused(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	host, address := f.host("host-a")
	p := f.open(address)
	f.post(`{"id":"order-1"}`, `{"id":"order-2"}`)
	p.caughtUp()
	p.plan("Manage all leases of orders", "seek", map[string]string{"lease-to": "beginning"})
	p.sees("the plan is shown", `document.querySelector('#effects').textContent.includes('owner host-a: seek')`)
	if out, code := f.command("leases", "pause", "--function", "orders", "--reason", "moved away", "--yes"); code != 0 {
		t.Fatalf("leases pause: %d\n%s", code, out)
	}
	p.sees("the leases are free", `fetch('api/v1/ranges').then(r => r.json()).then(l => l.items.every(r => !r.owner))`)
	p.press(`document.querySelector('#dialog-do')`)
	p.sees("it is refused", `document.querySelector('#dialog-error').textContent.includes('moved from owner host-a to (free)')`)
	p.leaveDialog()
	const conflict = `fetch('api/v1/plans', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ action: 'seek', select: { function: 'orders' }, args: { to: 'beginning' } }) }).then(r => r.json()).then(p => p.plan)`
	plan := evaluate[string](p, conflict)
	if out, code := f.command("leases", "resume", "--function", "orders", "--yes"); code != 0 {
		t.Fatalf("leases resume: %d\n%s", code, out)
	}
	p.sees("the host has the leases again", `fetch('api/v1/ranges').then(r => r.json()).then(l => l.items.every(r => r.owner === 'host-a'))`)
	if status := evaluate[int](p, `fetch('api/v1/plans/`+plan+`', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' }).then(r => r.status)`); status != http.StatusConflict {
		t.Errorf("status %d, want 409", status)
	}
	p.plan("Manage range 1", "seek", map[string]string{"lease-to": "beginning"})
	p.confirm("seek from")
	p.told("seek of orders is done: 1 range")

	var outcomes []string
	for _, line := range host.actions() {
		outcomes = append(outcomes, fmt.Sprint(line["action"], " ", line["outcome"]))
		if line["via"] != "page" || line["remote"] == "" || line["function"] != "orders" || line["plan"] == "" || line["count"] == nil {
			t.Errorf("line %v", line)
		}
	}
	if got := strings.Join(outcomes, ", "); got != "seek planned, seek refused, seek planned, seek refused, seek planned, seek done" {
		t.Errorf("actions in the log: %s", got)
	}
	key := regexp.MustCompile(`AccountKey=([^;]+)`).FindStringSubmatch(f.settings["CosmosDB"])
	page := evaluate[string](p, `Promise.all(['status', 'ranges', 'settings', 'timeline'].map(n => fetch('api/v1/' + n).then(r => r.text()))).then(t => t.join())`)
	for _, secret := range []string{pageToken, key[1]} {
		if strings.Contains(host.output.String(), secret) || strings.Contains(page, secret) {
			t.Errorf("the log or the page shows the secret %s", secret)
		}
	}
}

// TestKeyboardAloneReplaysDeadLetters: with Tab, Enter and Escape a viewer opens a dead
// letter and replays it. The focus stays where it is while rows arrive, and comes back.
func TestKeyboardAloneReplaysDeadLetters(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	_, address := f.host("host-a")
	p := f.open(address)
	f.post(`{"id":"order-1","fail":true}`)
	p.sees("the dead letter is listed", "!!("+row("letter-rows", "order-1")+")")
	tabTo := func(label string) {
		t.Helper()
		for range 80 {
			p.run(chromedp.KeyEvent("\t"))
			if evaluate[string](p, `document.activeElement.textContent`) == label {
				return
			}
		}
		t.Fatalf("Tab does not reach %s", label)
	}
	p.run(script(`document.activeElement.blur()`))
	for range 80 {
		tabTo("order-1")
		if evaluate[bool](p, `!!document.activeElement.dataset.letter`) {
			break
		}
	}
	p.run(script(`window.focused = document.activeElement`))
	f.post(`{"id":"order-2","fail":true}`, `{"id":"order-3"}`)
	p.sees("a second dead letter has arrived", `document.querySelectorAll('#letter-rows tr').length === 2`)
	if !evaluate[bool](p, `document.activeElement === window.focused && document.activeElement.textContent === 'order-1'`) {
		t.Error("the focus was lost when rows arrived")
	}
	p.run(chromedp.KeyEvent("\r"))
	p.sees("the drawer has the focus", `document.activeElement.id === 'drawer-title'`)
	f.repair(true)
	tabTo("Replay")
	p.run(chromedp.KeyEvent("\r"))
	p.sees("the dialog has the focus", `document.querySelector('#dialog').open && document.activeElement.id === 'dialog-do'`)
	p.run(chromedp.KeyEvent("\x1b"))
	p.sees("the focus is back", `!document.querySelector('#dialog').open && document.activeElement.textContent === 'Replay'`)
	p.run(chromedp.KeyEvent("\r"))
	p.sees("the dialog has the focus again", `document.querySelector('#dialog').open && document.activeElement.id === 'dialog-do'`)
	p.run(chromedp.KeyEvent("\r"))
	p.sees("the dead letter has left", `document.querySelectorAll('#letter-rows tr').length === 1`)
}

// TestDiscardNeedsTheCount: to delete dead letters a viewer types how many; a copy is
// offered first.
func TestDiscardNeedsTheCount(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	_, address := f.host("host-a")
	p := f.open(address)
	f.post(`{"id":"order-1","fail":true}`, `{"id":"order-2","fail":true}`, `{"id":"other","fail":true}`)
	p.sees("the dead letters are listed", `document.querySelectorAll('#letter-rows tr').length === 3`)
	p.run(script(`[...document.querySelectorAll('#letter-rows tr')].find(r => r.textContent.includes('other')).querySelector('[data-select]').click()`))
	p.sees("one can be discarded", `!!`+button("#letter-actions", "Discard 1 selected dead letter"))
	if copied := evaluate[string](p, `fetch(document.querySelector('#export-letters').href).then(r => r.text())`); strings.Count(copied, "\n") != 1 || !strings.Contains(copied, `"documentId":"other"`) {
		t.Errorf("the export is\n%s", copied)
	}
	p.press(button("#letter-actions", "Discard 1 selected dead letter"))
	p.sees("the plan of one is shown", `document.querySelector('#effects').textContent.startsWith('1 dead letter of orders')`)
	p.leaveDialog()
	p.run(script(`const key = document.querySelector('#filters [name=key]'); key.value = 'order-'; key.dispatchEvent(new Event('input', { bubbles: true }))`))
	p.press(button("#letter-actions", "Discard all of orders, key order-"))
	p.sees("the plan is shown", `document.querySelector('#effects').textContent.startsWith('2 dead letters of orders')`)
	copied := evaluate[string](p, `fetch(document.querySelector('#export-link').href).then(r => r.text())`)
	if strings.Count(copied, "\n") != 2 || !strings.Contains(copied, `"documentId":"order-1"`) || strings.Contains(copied, `"documentId":"other"`) {
		t.Errorf("the copy is\n%s", copied)
	}
	p.press(`document.querySelector('#dialog-do')`)
	p.sees("it is refused", `document.querySelector('#dialog-error').textContent.includes('type 2')`)
	p.run(script(`document.querySelector('#confirm').value = '2'`))
	p.press(`document.querySelector('#dialog-do')`)
	p.told("2 dead letters deleted")
	p.run(script(`document.querySelector('#filters').reset()`))
	p.sees("the other one stays", `document.querySelectorAll('#letter-rows tr').length === 1 && document.querySelector('#letter-rows').textContent.includes('other')`)
}

// TestAddressLeadsToOneRangeOrDeadLetter: the address in the browser is a link without the token.
// Another viewer signs in and sees the same range and the same dead letter.
func TestAddressLeadsToOneRangeOrDeadLetter(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	_, address := f.host("host-a")
	p := f.open(address)
	f.post(`{"id":"order-1","fail":true}`, `{"id":"order-2","fail":true}`)
	p.sees("the dead letters are listed", `document.querySelectorAll('#letter-rows tr').length === 2`)
	p.openRow("letter-rows", "order-1")
	shared := evaluate[string](p, `location.href`)
	if !strings.Contains(shared, "?letter=") || strings.Contains(shared, pageToken) {
		t.Errorf("the address of the dead letter is %s", shared)
	}
	other := newTab(t)
	other.follow(chromedp.Navigate(address + "sign-in" + shared[strings.Index(shared, "?"):]))
	other.run(script(`document.querySelector('[name=token]').value = '` + pageToken + `'`))
	other.follow(script(`document.querySelector('form').submit()`))
	other.sees("the dead letter is open", `!document.querySelector('#drawer').hidden && document.querySelector('#drawer-title').textContent.includes('order-1')`)
	other.closeDrawer()
	other.sees("the ranges are listed", `document.querySelectorAll('#range-rows tr').length === 2`)
	other.follow(script(`document.querySelectorAll('#range-rows a')[1].click()`))
	other.sees("the range is alone", `document.querySelectorAll('#range-rows tr').length === 1 && document.querySelector('#range-rows tr').cells[1].textContent === '1' && document.querySelector('#ranges-note').textContent.startsWith('1 range found')`)
	if at := evaluate[string](other, `location.search`); at != "?function=orders&range=1" {
		t.Errorf("the address of the range is %s", at)
	}
}
