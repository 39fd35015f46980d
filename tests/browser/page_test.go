package browser

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// TestChangesShowWithinASecond: a program in another language writes to dev of a new app,
// and the page shows the change handled within a second. It measures, so no other test
// runs beside it.
func TestChangesShowWithinASecond(t *testing.T) {
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0", "--hosts", "2")
	p := openTab(t, d.page)
	var took []time.Duration
	for n := range 5 {
		id := fmt.Sprint("order-", n)
		d.post(t, fmt.Sprintf(`{"id":%q,"customer":"eve","total":%d}`, id, 10*n))
		answered := time.Now()
		p.showsChange(id, "handled")
		took = append(took, time.Since(answered))
	}
	t.Logf("from the answer to the page: %v", took)
	if slices.Sort(took); took[len(took)/2] > time.Second {
		t.Errorf("from the answer to the page: %v, want a second at most", took)
	}
}

// TestPageShowsAndChangesTheLifeOfChanges: poison, edit and deliver, split, merge, kill
// and start work from the page.
func TestPageShowsAndChangesTheLifeOfChanges(t *testing.T) {
	t.Parallel()
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0", "--hosts", "2")
	p := openTab(t, d.page)
	if at := evaluate[string](p, `location.href`); strings.Contains(at, "token") {
		t.Errorf("the token stays in the address %s", at)
	}

	for n := range 5 {
		id := fmt.Sprint("order-", n)
		d.post(t, fmt.Sprintf(`{"id":%q,"customer":"eve","total":%d}`, id, 10*n))
		p.showsChange(id, "handled")
	}

	p.step("deliver again", func(t *testing.T) {
		p.openRow("change-rows", "order-1")
		p.press(button("#drawer-actions", "Deliver again"))
		p.sees("the plan is shown", `document.querySelector('#dialog').open && document.querySelector('#effects').innerText.includes('called once with document order-1')`)
		p.run(chromedp.KeyEvent("\r"))
		p.sees("the second call is shown", `document.querySelectorAll('#life li').length === 2 && document.querySelector('#life').innerText.includes('delivered from this page')`)
		p.closeDrawer()
		if focused := evaluate[string](p, `document.activeElement.textContent`); focused != "order-1" {
			t.Errorf("the focus is at %q, not at the row that was opened", focused)
		}
	})

	p.step("poison", func(t *testing.T) {
		p.openRow("change-rows", "order-2")
		p.press(button("#drawer-actions", "Poison"))
		p.closeDrawer()
		p.sees("the range is stalled, and the page says why", `(() => {
			const state = document.querySelector('#range-rows').textContent
			return state.includes('stalled') && /attempt \d of 10/.test(state) && state.includes('Next: repair the handler')
		})()`)
		p.run(script(`document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' }); document.querySelector('#notice').hidden = true`))
		p.screenshot("page")
		p.showsChange("order-2", "dead-lettered")
		p.openRow("change-rows", "order-2")
		life := evaluate[string](p, `document.querySelector('#life').textContent`)
		for _, says := range []string{"attempt 10 failed", "document order-2 is poison", "goroutine", "poison.go"} {
			if !strings.Contains(life, says) {
				t.Errorf("the life of the change lacks %q:\n%s", says, life)
			}
		}
		p.screenshot("page-change")
		p.closeDrawer()
		p.sees("the dead letter is listed", "!!("+row("letter-rows", "order-2")+")")
	})

	p.step("deliver a dead letter again", func(t *testing.T) {
		p.openRow("letter-rows", "order-2")
		p.press(button("#drawer-actions", "Deliver again"))
		p.sees("the plan is shown", `document.querySelector('#dialog').open`)
		p.run(chromedp.KeyEvent("\r"))
		p.told("document order-2: handler panicked")
		p.closeDrawer()
	})

	p.step("edit and deliver", func(t *testing.T) {
		p.openRow("letter-rows", "order-2")
		p.press(button("#drawer-actions", "Edit and deliver"))
		p.sees("the editor is open", `document.querySelector('#dialog').open && document.querySelector('#editor-text').value.includes('"total": 20')`)
		p.run(script(`document.querySelector('#editor-text').value = 'no JSON'`))
		p.press(`document.querySelector('#dialog-do')`)
		p.sees("the error is shown", `document.querySelector('#dialog-error').innerText.includes('not JSON')`)
		p.run(script(`document.querySelector('#editor-text').value = '{"id": "order-2", "customer": "eve", "total": 21}'`))
		p.press(`document.querySelector('#dialog-do')`)
		p.sees("the difference is shown, and the focus is at its button", `document.querySelector('#effects').innerText.includes('"total": 21') && document.activeElement.id === 'dialog-do'`)
		p.run(chromedp.KeyEvent("\r"))
		p.sees("the dead letter has left", `document.querySelectorAll('#letter-rows tr').length === 0`)
		p.run(chromedp.KeyEvent("\x1b"))
		p.showsChange("order-2", "handled")
	})

	p.step("cure", func(t *testing.T) {
		p.press(button("#poison", "Cure"))
		p.sees("there is no poison", `document.querySelectorAll('#poison li').length === 0`)
	})

	p.step("split and merge", func(t *testing.T) {
		ranges := `[...document.querySelectorAll('#range-rows tr')].map(r => r.cells[1].textContent).join()`
		p.press(button("#range-rows", "Split"))
		p.keepsFocus("Split")
		p.sees("the children are owned by both hosts", `(() => {
			const rows = [...document.querySelectorAll('#range-rows tr')]
			return rows.length === 2 && new Set(rows.map(r => r.cells[2].textContent)).size === 2 && rows.every(r => r.cells[2].textContent.startsWith('dev-'))
		})()`)
		p.keepsFocus("Split, when its range is gone")
		if got := evaluate[string](p, ranges); got != "1,2" {
			t.Errorf("ranges %s", got)
		}
		p.press(button("#range-rows", "Merge with next"))
		p.sees("the merge is in the timeline", `document.querySelector('#moments').innerText.includes('ranges 1 and 2 were merged into 3')`)
		p.sees("leases of the merged range are owned", `[...document.querySelectorAll('#range-rows tr')].every(r => r.cells[2].textContent.startsWith('dev-'))`)
		p.sees("the split is in the timeline", `document.querySelector('#moments').innerText.includes('replaced by 1, 2')`)
	})

	p.step("kill and start a host", func(t *testing.T) {
		p.press(`[...document.querySelectorAll('#hosts button')].find(b => b.getAttribute('aria-label') === 'Kill dev-1')`)
		p.sees("the host is killed", `[...document.querySelectorAll('#hosts li')].some(h => h.innerText.includes('killed') && h.innerText.includes('dev-1'))`)
		p.keepsFocus("Kill")
		p.press(button("#host-actions", "Start a host"))
		p.keepsFocus("Start a host")
		p.sees("a third host runs", `[...document.querySelectorAll('#hosts li')].some(h => h.innerText.includes('running') && h.innerText.includes('dev-3'))`)
		p.sees("the others own all leases", `(() => {
			const rows = [...document.querySelectorAll('#range-rows tr')]
			return rows.length > 0 && rows.every(r => ['dev-2', 'dev-3'].includes(r.cells[2].textContent))
		})()`)
		d.post(t, `{"id":"late","customer":"eve","total":1}`)
		p.showsChange("late", "handled")
	})

	p.run(script(`document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' }); document.querySelector('#notice').hidden = true`))
	p.colours("dark")
	p.screenshot("page-dark")
	if bad := p.complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %q", bad)
	}
	if code := d.stop(t); code != 0 {
		t.Errorf("dev ended with %d", code)
	}
}

// hostileDocument tries to become markup in each text that the page shows: id, key,
// values, and a property name. Its direction marks would reorder the text.
const hostileDocument = `{"id":"<img src=x onerror=hacked()>\u202e","<script>hacked()</script>":1,"a":"</pre><script>hacked()</script>","b":"'\"><svg onload=hacked()>","n":9007199254740993}`

// TestHostileDocumentsRunNothing: a document is shown as it is, and becomes nothing else.
func TestHostileDocumentsRunNothing(t *testing.T) {
	t.Parallel()
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0")
	p := openTab(t, d.page)
	p.run(script(`window.hacks = 0; window.hacked = () => { window.hacks++ }; window.reports = []; document.addEventListener('securitypolicyviolation', e => reports.push(e.violatedDirective))`))
	d.post(t, hostileDocument)
	p.press(`[...document.querySelectorAll('#change-rows button.row')].find(b => b.textContent.startsWith('<img'))`)
	p.sees("the drawer shows the document", `!document.querySelector('#drawer').hidden && document.querySelector('#document').textContent.includes('9007199254740993')`)
	for _, says := range []string{`<script>hacked()</script>`, `</pre>`, `\\u202e`, `<svg onload=hacked()>`} {
		if !evaluate[bool](p, `document.querySelector('#document').textContent.includes("`+says+`")`) {
			t.Errorf("the document lacks %s:\n%s", says, evaluate[string](p, `document.querySelector('#document').textContent`))
		}
	}
	p.press(button("#drawer-actions", "Edit and deliver"))
	p.sees("the editor is open", `document.querySelector('#dialog').open`)
	p.run(script(`document.querySelector('#editor-text').value = document.querySelector('#editor-text').value.replace('9007199254740993', '9007199254740995')`))
	p.press(`document.querySelector('#dialog-do')`)
	p.sees("the difference is shown", `document.querySelector('#effects').innerText.includes('9007199254740995')`)
	p.press(`document.querySelector('#dialog-do')`)
	p.sees("the edited document was handled", `document.querySelector('#life').textContent.includes('edited, delivered from this page')`)
	if n := evaluate[int](p, `hacks`); n > 0 {
		t.Errorf("%d scripts of the document ran", n)
	}
	if found := evaluate[int](p, `document.querySelectorAll('main img, main script, aside img, aside script, svg[onload]').length`); found > 0 {
		t.Errorf("%d elements come from the document", found)
	}
	if reports := evaluate[[]string](p, `reports`); len(reports) > 0 {
		t.Errorf("reports of the policy: %q", reports)
	}
	if !evaluate[bool](p, `(() => { try { document.body.innerHTML = 'x'; return false } catch { return true } })()`) {
		t.Error("innerHTML works: the policy has no trusted types")
	}
}

// TestPageRecoversWhenDevStartsAgain: a viewer learns that the connection is lost, and
// the page shows the new run once that is there.
func TestPageRecoversWhenDevStartsAgain(t *testing.T) {
	t.Parallel()
	d := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0")
	p := openTab(t, d.page)
	d.post(t, `{"id":"before","customer":"eve"}`)
	p.showsChange("before", "handled")
	at := strings.TrimSuffix(strings.TrimPrefix(d.page[:strings.Index(d.page, "/?")], "http://"), "/")
	d.kill()
	p.sees("the page says that it is not connected", `/^Not connected since \d/.test(document.querySelector('#connection').textContent)`)
	again := startDev(t, built.shop, "--addr", "127.0.0.1:0", "--page="+at)
	p.sees("the page is live", `document.querySelector('#connection').className === 'live'`)
	again.post(t, `{"id":"after","customer":"eve"}`)
	p.showsChange("after", "handled")
	if evaluate[bool](p, "!!"+row("change-rows", "before")) {
		t.Error("the page still shows the change of the run before")
	}
	p.sees("actions need the new token", `!document.querySelector('#readonly').hidden && document.querySelectorAll('#hosts button').length === 0`)
	p.goLive(again.page)
	p.sees("actions are there", `document.querySelectorAll('#hosts button').length === 1`)
}

// TestLoadStaysWithinBounds: while two functions get 10,000 documents in 10 seconds, the
// page keeps its bounds and answers. It measures, so no other test runs beside it.
func TestLoadStaysWithinBounds(t *testing.T) {
	d := startDev(t, built.halley, "--addr", "127.0.0.1:0", "--page=127.0.0.1:0", "--rate", "1000", "--hosts", "2")
	p := openTab(t, d.page)
	p.sees("10,000 changes have come", `+(document.querySelector('#kept').textContent.match(/(\d+) older/) || [0, 0])[1] > 10000`)
	began := time.Now()
	if rows := evaluate[int](p, `document.querySelectorAll('#change-rows tr').length`); rows == 0 || rows > 100 {
		t.Errorf("%d rows of changes, want 100 at most", rows)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the page needs %v to answer", took)
	}
	list := evaluate[struct{ Kept, Dropped int }](p, `fetch('api/v1/changes?limit=1').then(r => r.json())`)
	if list.Kept > 1000 || list.Dropped < 10_000 {
		t.Errorf("%d changes are kept and %d dropped, want 1,000 at most", list.Kept, list.Dropped)
	}
	t.Logf("%d kept, %d dropped, heap of the page %.0f MB", list.Kept, list.Dropped, evaluate[float64](p, `performance.memory.usedJSHeapSize / 1e6`))
	eventually(t, "a change opens under load", func() bool { // one may be dropped before its details are read
		p.press(`document.querySelector('#change-rows button.row')`)
		return p.holds(`new Promise(done => setTimeout(() => done(!document.querySelector('#drawer').hidden), 500))`)
	})
	if bad := p.complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %q", bad)
	}
}
