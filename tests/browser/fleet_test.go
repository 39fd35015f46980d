package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// pageToken is that of the hosts in these tests.
const pageToken = "the-token-of-these-tests"

// fleet is an account and the settings of hosts on it.
type fleet struct {
	t        *testing.T
	account  *program
	address  string // of the account
	settings map[string]string
	repaired string // file
}

// newFleet serves an account with a monitored container of two ranges.
func newFleet(t *testing.T, more map[string]string) *fleet {
	t.Helper()
	return newFleetOf(t, 2, more)
}

// newFleetOf does the same with another number of ranges, and with more arguments of the account.
func newFleetOf(t *testing.T, ranges int, more map[string]string, arguments ...string) *fleet {
	t.Helper()
	f := &fleet{t: t, repaired: filepath.Join(t.TempDir(), "repaired")}
	f.account = startProgram(t, nil, built.halley, append([]string{"emulator", "--addr", "127.0.0.1:0", "--container", fmt.Sprintf("shop/orders:/id:ranges=%d", ranges), "--container", "shop/leases:/id"}, arguments...)...)
	connection := ""
	eventually(t, "the account answers", func() bool {
		connection = accountLine.FindString(f.account.output.String())
		return connection != ""
	})
	f.address = regexp.MustCompile(`http://[^/]+/`).FindString(connection)
	f.settings = map[string]string{
		"CosmosDB": connection, "HALLEY_DATABASE_NAME": "shop", "HALLEY_CONTAINER_NAME": "orders", "HALLEY_START_FROM": "beginning",
		"HALLEY_PAGE_TOKEN": pageToken, "HALLEY_ORDERS_REPAIRED": f.repaired,
		"HALLEY_FEED_POLL_DELAY": "100ms", "HALLEY_LEASE_ACQUIRE_INTERVAL": "500ms", "HALLEY_LEASE_RENEW_INTERVAL": "700ms",
		"HALLEY_LEASE_EXPIRATION_INTERVAL": "14s", "HALLEY_STALL_AFTER": "2s", "HALLEY_MAX_ATTEMPTS": "3", "HALLEY_RETRY_MIN": "20ms", "HALLEY_RETRY_MAX": "100ms",
		"HALLEY_LOG_FORMAT": "json",
	}
	for name, value := range more {
		f.settings[name] = value
	}
	return f
}

// host runs a host with the page, and returns the page's address.
func (f *fleet) host(owner string) (*program, string) {
	f.t.Helper()
	settings := map[string]string{"HALLEY_OWNER": owner}
	for name, value := range f.settings {
		settings[name] = value
	}
	h := startProgram(f.t, settings, built.orders, "run", "--page", "127.0.0.1:0")
	address := ""
	eventually(f.t, "the host prints the address of its page", func() bool {
		if found := regexp.MustCompile(`page: (http://\S+)`).FindStringSubmatch(h.output.String()); found != nil {
			address = found[1]
		}
		return address != ""
	})
	return h, address
}

// open opens a page with the token.
func (f *fleet) open(address string) *tab {
	f.t.Helper()
	return openTab(f.t, address+"?token="+pageToken)
}

func (f *fleet) post(documents ...string) {
	f.t.Helper()
	postTo(f.t, f.settings["CosmosDB"], documents...)
}

// command runs a command of the app, as on a terminal of the person on call.
func (f *fleet) command(args ...string) (output string, code int) {
	f.t.Helper()
	cmd := exec.Command(built.orders, args...)
	cmd.Env, cmd.Dir = environment(f.settings), f.t.TempDir()
	out, err := cmd.CombinedOutput()
	if _, failed := err.(*exec.ExitError); err != nil && !failed {
		f.t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// status waits until halley status says so.
func (f *fleet) status(says string) {
	f.t.Helper()
	var out string
	eventually(f.t, "status says "+says, func() bool {
		out, _ = f.command("status")
		return strings.Contains(out, says)
	})
}

// repair has the sink take everything, or not.
func (f *fleet) repair(is bool) {
	f.t.Helper()
	var err error
	if is {
		err = os.WriteFile(f.repaired, nil, 0o600)
	} else {
		err = os.Remove(f.repaired)
	}
	if err != nil {
		f.t.Fatal(err)
	}
}

// manage sends a request to the account's management.
func (f *fleet) manage(method, path, body string) (answer struct{ ID string }) {
	f.t.Helper()
	r, err := http.NewRequest(method, f.address+"_emulator/"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	got, err := http.DefaultClient.Do(r)
	if err != nil {
		f.t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != http.StatusOK {
		f.t.Fatalf("%s %s: %s", method, path, got.Status)
	}
	if method == http.MethodPost {
		if err := json.NewDecoder(got.Body).Decode(&answer); err != nil {
			f.t.Fatal(err)
		}
	}
	return answer
}

// actions returns the lines of the log about actions of operators.
func (d *program) actions() (lines []map[string]any) {
	for line := range bytes.Lines([]byte(d.output.String())) {
		var fields map[string]any
		if json.Unmarshal(line, &fields) == nil && fields["message"] == "operator action" {
			lines = append(lines, fields)
		}
	}
	return lines
}

// caughtUp waits until the page shows two ranges without lag.
func (p *tab) caughtUp() {
	p.t.Helper()
	p.sees("both ranges have caught up", `[...document.querySelectorAll('#range-rows tr')].filter(r => r.textContent.includes('caught up')).length === 2`)
}

// rangesSay waits until the table of ranges shows the texts.
func (p *tab) rangesSay(texts ...string) {
	p.t.Helper()
	for _, text := range texts {
		p.sees("the ranges say "+text, fmt.Sprintf(`document.querySelector('#range-rows').textContent.includes(%q)`, text))
	}
}

// plan opens the dialog about the leases, of the button with a label, and asks for the
// plan of an action.
func (p *tab) plan(label, action string, fields map[string]string) {
	p.t.Helper()
	button := fmt.Sprintf(`document.querySelector('button[aria-label=%q]')`, label)
	eventually(p.t, "the dialog of "+label+" is open", func() bool {
		if evaluate[bool](p, `document.querySelector('#dialog').open`) {
			return evaluate[bool](p, `!document.querySelector('#lease-form').hidden`)
		}
		p.press(button) // again if the row was drawn again between the focus and the key
		return false
	})
	p.run(script(fmt.Sprintf(`document.querySelector('#lease-action').value = %q; document.querySelector('#lease-action').dispatchEvent(new Event('input'))`, action)))
	for id, value := range fields {
		p.run(script(fmt.Sprintf(`document.querySelector('#%s').value = %q`, id, value)))
	}
	p.press(`document.querySelector('#dialog-do')`)
}

// confirm does the plan that the dialog shows.
func (p *tab) confirm(effect string) {
	p.t.Helper()
	p.sees("the plan is shown", fmt.Sprintf(`document.querySelector('#lease-form').hidden && document.querySelector('#effects').textContent.includes(%q)`, effect))
	p.press(`document.querySelector('#dialog-do')`)
	p.sees("the dialog is closed", `!document.querySelector('#dialog').open`)
}

// leaveDialog closes the dialog without doing anything.
func (p *tab) leaveDialog() {
	p.t.Helper()
	p.sees("the button works again", `!document.querySelector('#dialog-do').disabled`)
	p.run(chromedp.KeyEvent("\x1b"))
	p.sees("the dialog is closed", `!document.querySelector('#dialog').open`)
}

// told waits for the note about an action.
func (p *tab) told(text string) {
	p.t.Helper()
	p.sees("the page tells: "+text, fmt.Sprintf(`!document.querySelector('#notice').hidden && document.querySelector('#notice').textContent.includes(%q)`, text))
}

// tidy prepares the page for a picture.
func (p *tab) tidy() {
	p.t.Helper()
	p.run(script(`document.activeElement.blur(); scrollTo({ top: 0, behavior: 'instant' }); document.querySelector('#notice').hidden = true`))
}

// A host that waits for its leases has run, and the page says so; its times have a date and a zone.
func TestHostWithoutRangesHasRun(t *testing.T) {
	t.Parallel()
	f := newFleet(t, nil)
	fault := f.manage(http.MethodPost, "faults", `{"method":"POST","resource":"docs","path":"colls/leases","status":403}`)
	_, address := f.host("waiting")
	p := f.open(address)
	p.sees("the page says that the host has no range yet", `document.querySelector('#ranges-empty').textContent === 'No host has a range yet.' && !document.querySelector('#ranges-empty').hidden`)
	f.manage(http.MethodDelete, "faults/"+fault.ID, "")
	p.sees("the host has its ranges", `document.querySelectorAll('#range-rows tr').length === 2 && document.querySelector('#ranges-empty').hidden`)
	p.sees("times have a date and a zone", `/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*Z$/.test(document.querySelector('#moments time').dateTime) && /\d{4}/.test(document.querySelector('#moments time').title)`)
}
