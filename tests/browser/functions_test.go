package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// functionsFront is the HTTP side of the Functions host: it wraps requests below
// /api/status into invocations of the function status, as azure-functions-host does
// without forwarding, and unwraps the answers.
type functionsFront struct {
	t       *testing.T
	handler string // address of the custom handler
}

func (f functionsFront) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.Path, "/api/status")
	if !ok {
		http.NotFound(w, r)
		return
	}
	body, _ := io.ReadAll(r.Body)
	query := map[string]string{}
	for name := range r.URL.Query() {
		query[name] = r.URL.Query().Get(name)
	}
	invocation, err := json.Marshal(map[string]any{
		"Data": map[string]any{"req": map[string]any{
			"Url": "http://" + r.Host + r.URL.RequestURI(), "Method": r.Method, "Query": query, "Headers": r.Header,
			"Params": map[string]string{"path": strings.TrimPrefix(rest, "/")}, "Identities": []any{}, "Body": string(body),
		}},
		"Metadata": map[string]any{"sys": map[string]string{"MethodName": "status"}},
	})
	if err != nil {
		f.t.Error(err)
	}
	answer, err := http.Post(f.handler+"status", "application/json; charset=utf-8", bytes.NewReader(invocation))
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	var result struct {
		Outputs struct {
			Res struct {
				StatusCode int
				Headers    map[string]string
				Body       string
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&result); err != nil || answer.StatusCode != http.StatusOK {
		f.t.Errorf("%s %s: status %d: %v", r.Method, r.URL, answer.StatusCode, err)
		return
	}
	for name, value := range result.Outputs.Res.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(result.Outputs.Res.StatusCode)
	_, _ = io.WriteString(w, result.Outputs.Res.Body)
}

// TestPageUnderFunctionsIsPolled: below /api/status the page asks for the token, then for
// updates every few seconds; its policy is intact, and actions work.
func TestPageUnderFunctionsIsPolled(t *testing.T) {
	t.Parallel()
	f := newFleet(t, map[string]string{"HALLEY_MODE": "continuous"})
	port := 10_500 + rand.IntN(500) // the system gives none of these to a process by itself
	f.settings["FUNCTIONS_CUSTOMHANDLER_PORT"] = fmt.Sprint(port)
	handler := startProgram(t, f.settings, built.orders)
	delete(f.settings, "FUNCTIONS_CUSTOMHANDLER_PORT")
	at := fmt.Sprintf("http://127.0.0.1:%d/", port)
	eventually(t, "the handler is ready", func() bool {
		answer, err := http.Get(at)
		if err == nil {
			_ = answer.Body.Close()
		}
		return err == nil
	})
	front := httptest.NewServer(functionsFront{t, at})
	t.Cleanup(front.Close)

	for path, want := range map[string]int{"/api/status/api/v1/status": 401, "/api/status/api/v1/stream": 401, "/api/status/plain": 401, "/api/status/page.css": 200} {
		answer, err := http.Get(front.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if policy := answer.Header.Get("Content-Security-Policy"); answer.StatusCode != want || !strings.HasPrefix(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: status %d, want %d; policy %q", path, answer.StatusCode, want, policy)
		}
	}
	p := newTab(t)
	p.follow(chromedp.Navigate(front.URL + "/api/status"))
	p.hasText("Token of the page")
	if at := evaluate[string](p, `location.pathname`); at != "/api/status/" {
		t.Errorf("the page is at %s", at)
	}
	p.submit("form", map[string]string{"token": pageToken})
	p.run(chromedp.WaitVisible(chromedp.CSS("#connection.live")))
	p.run(script(`window.reports = []; document.addEventListener('securitypolicyviolation', e => reports.push(e.violatedDirective))`))
	f.post(`{"id":"order-1"}`, `{"id":"order-2","fail":true}`)
	p.sees("polls bring the dead letter", "!!("+row("letter-rows", "order-2")+")")
	p.caughtUp()
	f.repair(true)
	p.openRow("letter-rows", "order-2")
	p.press(button("#drawer-actions", "Replay"))
	p.sees("the plan is shown", `document.querySelector('#dialog').open`)
	p.run(chromedp.KeyEvent("\r"))
	p.told("1 dead letter handled")
	p.sees("the dead letter has left", `document.querySelectorAll('#letter-rows tr').length === 0`)
	p.run(chromedp.KeyEvent("\x1b"))
	// Those of the ranges change, as their rates have slots of 5 s.
	p.sees("answers that did not change are not sent again", `performance.getEntriesByType('resource').some(e => e.name.includes('/letters?') && e.responseStatus === 304)`)
	if reports := evaluate[[]string](p, `reports`); len(reports) > 0 {
		t.Errorf("reports of the policy: %q", reports)
	}
	if bad := p.complaints(); len(bad) > 0 {
		t.Errorf("the browser complains: %q", bad)
	}
	if lines := handler.actions(); len(lines) != 2 || lines[1]["outcome"] != "done" {
		t.Errorf("actions in the log: %v", lines)
	}
}
