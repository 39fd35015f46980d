package page

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
)

// newPage returns a page with one dead letter and an action echo, which fails if the
// document is "bad".
// refused is the dead letter of the page's source.
var refused = trigger.DeadLetter{
	Kind: trigger.RecordDead, ID: "letter", Function: "orders", DocumentID: "1", Document: []byte(`{"n":9007199254740993}`), Error: "refused",
}

func newPage(t *testing.T, change ...func(*Options)) *Page {
	t.Helper()
	o := Options{
		App: "shop", Token: "right", Recorder: &Recorder{},
		Source: Source{
			Look: func(context.Context) State {
				return State{
					Hosts:     []Host{{Name: "a", State: "running"}, {Name: "b", State: "killed"}},
					Functions: []Function{{Name: "orders"}},
					Why:       []Cause{{Title: "orders: no progress in 1 of 2 ranges: 1", Cause: "without an owner <b>", Since: "9:00", Evidence: "range 1", Next: "start a host"}},
					Ranges: []Range{
						{Function: "orders", Range: "0", Owner: "a", Changes: 3, Known: true, Seconds: 4},
						{Function: "orders", Range: "1", Problem: "without an owner", Changes: 2, Known: true},
					},
				}
			},
			DeadLetters: func(context.Context, LetterQuery) (LetterPage, error) {
				return LetterPage{Records: []trigger.DeadLetter{refused}, Dead: 1, Searched: 1, Problem: "damaged dead letter"}, nil
			},
			FindDeadLetter: func(_ context.Context, id string) (trigger.DeadLetter, error) {
				if id != refused.ID {
					return trigger.DeadLetter{}, errors.New("no such dead letter")
				}
				return refused, nil
			},
			Settings: []Setting{{"HALLEY_OWNER", "a", "default"}},
		},
		Actions: []Action{{Name: "echo", Plan: func(_ context.Context, r Request) (Plan, error) {
			if r.Select.Document == "" {
				return Plan{}, errors.New("name a document")
			}
			return Plan{Effects: []string{"document " + r.Select.Document}, Do: func(context.Context) (string, error) {
				if r.Select.Document == "bad" {
					return "", errors.New("it is bad")
				}
				return "done with " + r.Select.Document, nil
			}}, nil
		}}},
	}
	for _, c := range change {
		c(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// ask sends a request with the token to the page.
func ask(t *testing.T, p *Page, method, path, body string, change func(*http.Request)) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "http://127.0.0.1:8082"+path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer right")
	r.Header.Set("Content-Type", "application/json")
	if change != nil {
		change(r)
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result()
}

func decode[T any](t *testing.T, r *http.Response, status int) (v T) {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode != status {
		t.Fatalf("status %d, want %d: %s", r.StatusCode, status, text)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return v
}

// TestForeignRequestsAreRefused: a rebound name, another origin and a wrong token reach
// nothing; reads of this machine need no token.
func TestForeignRequestsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t)
		const plan = `{"action":"echo","select":{"document":"1"}}`
		header := func(name, value string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set(name, value) }
		}
		for name, test := range map[string]struct {
			method, path string
			change       func(*http.Request)
			status       int
		}{
			"read":                        {"GET", "/api/v1/status", header("Authorization", ""), 200},
			"page":                        {"GET", "/", header("Authorization", ""), 200},
			"localhost":                   {"GET", "/api/v1/status", func(r *http.Request) { r.Host = "localhost:8082" }, 200},
			"IPv6":                        {"GET", "/api/v1/status", func(r *http.Request) { r.Host = "[::1]:8082" }, 200},
			"another name":                {"GET", "/api/v1/status", func(r *http.Request) { r.Host = "evil.example:8082" }, 403},
			"no name":                     {"GET", "/api/v1/status", func(r *http.Request) { r.Host = "" }, 403},
			"another machine":             {"GET", "/api/v1/status", func(r *http.Request) { r.Host = "10.0.0.1:8082" }, 403},
			"name of the page rebound":    {"POST", "/api/v1/plans", func(r *http.Request) { r.Host = "evil.example"; r.Header.Set("Origin", "http://evil.example") }, 403},
			"action":                      {"POST", "/api/v1/plans", nil, 200},
			"action of the page":          {"POST", "/api/v1/plans", header("Sec-Fetch-Site", "same-origin"), 200},
			"action without a token":      {"POST", "/api/v1/plans", header("Authorization", ""), 401},
			"action with another token":   {"POST", "/api/v1/plans", header("Authorization", "Bearer wrong"), 401},
			"action of another site":      {"POST", "/api/v1/plans", header("Sec-Fetch-Site", "cross-site"), 403},
			"action of another port":      {"POST", "/api/v1/plans", header("Sec-Fetch-Site", "same-site"), 403},
			"action of an old browser":    {"POST", "/api/v1/plans", header("Origin", "http://evil.example"), 403},
			"form":                        {"POST", "/api/v1/plans", header("Content-Type", "text/plain"), 415},
			"sign in with another token":  {"GET", "/?token=wrong", nil, 403},
			"sign in with an empty token": {"GET", "/?token=", nil, 403},
			"unknown path":                {"GET", "/api/v1/secrets", nil, 404},
		} {
			r := ask(t, p, test.method, test.path, plan, test.change)
			if r.StatusCode != test.status {
				t.Errorf("%s: status %d, want %d", name, r.StatusCode, test.status)
			}
			if policy := r.Header.Get("Content-Security-Policy"); policy != securityPolicy || strings.Contains(policy, "unsafe") || r.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: headers %v", name, r.Header)
			}
		}
	})
}

// TestTokenBecomesCookie: the address with the token leads to one without, and the
// cookie permits actions on this port alone.
func TestTokenBecomesCookie(t *testing.T) {
	p := newPage(t)
	r := ask(t, p, "GET", "/?token=right", "", nil)
	if r.StatusCode != http.StatusSeeOther || r.Header.Get("Location") != "./" || len(r.Cookies()) != 1 {
		t.Fatalf("status %d, headers %v", r.StatusCode, r.Header)
	}
	cookie := r.Cookies()[0]
	if cookie.Name != "halley-page-8082" || !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode {
		t.Errorf("cookie %v", cookie)
	}
	with := func(r *http.Request) {
		r.Header.Del("Authorization")
		r.AddCookie(cookie)
	}
	if st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", with), 200); !st.CanAct {
		t.Error("the cookie permits nothing")
	}
	other := func(r *http.Request) {
		with(r)
		r.Host = "127.0.0.1:9999"
	}
	if st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", other), 200); st.CanAct {
		t.Error("the cookie permits actions on another port")
	}
}

func TestStatusSumsUp(t *testing.T) {
	p := newPage(t)
	decode[items[letterRow]](t, ask(t, p, "GET", "/api/v1/letters", "", nil), 200) // they are counted
	st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", nil), 200)
	if st.Health != (health{Changes: 5, Known: true, Seconds: 4, Problems: 1, Letters: 1, Hosts: 1}) || len(st.Actions) != 1 || st.App != "shop" {
		t.Errorf("status %+v", st)
	}
	l := decode[items[letterRow]](t, ask(t, p, "GET", "/api/v1/letters", "", nil), 200)
	if len(l.Items) != 1 || l.Problem != "damaged dead letter" {
		t.Errorf("dead letters %+v", l)
	}
	d := decode[letterDetail](t, ask(t, p, "GET", "/api/v1/letters/letter", "", nil), 200)
	if !strings.Contains(d.Document, "9007199254740993") || d.Text != "refused" {
		t.Errorf("dead letter %+v", d)
	}
	decode[failure](t, ask(t, p, "GET", "/api/v1/letters/other", "", nil), 404)
}

// TestLargeDocumentIsDownloaded: the page shows the beginning of a document, and a
// download has each byte of it.
func TestLargeDocumentIsDownloaded(t *testing.T) {
	p := newPage(t)
	change := written("large", 1, 2<<20)
	_ = p.options.Recorder.Watch("a", 10, func(context.Context, trigger.Batch) error { return nil })(t.Context(), batch(1, change))
	id := p.options.Recorder.list(filter{}, "", 1).Items[0].ID
	d := decode[Detail](t, ask(t, p, "GET", "/api/v1/changes/"+id, "", nil), 200)
	if !d.Truncated || len(d.Document) != maxShown || d.Size != len(change.Document) {
		t.Errorf("%d bytes are shown of %d, truncated: %v", len(d.Document), d.Size, d.Truncated)
	}
	r := ask(t, p, "GET", "/api/v1/changes/"+id+"/document", "", nil)
	all, _ := io.ReadAll(r.Body)
	if string(all) != string(change.Document) || r.Header.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(r.Header.Get("Content-Disposition"), "attachment;") {
		t.Errorf("%d bytes, headers %v", len(all), r.Header)
	}
}

// TestActionIsPlannedThenDone: a plan does nothing, can be done once, and its operation
// tells of the end.
func TestActionIsPlannedThenDone(t *testing.T) {
	p := newPage(t)
	type planned struct {
		Plan     string
		Effects  []string
		Warnings []string
	}
	do := func(document string) operation {
		t.Helper()
		plan := decode[planned](t, ask(t, p, "POST", "/api/v1/plans", `{"action":"echo","select":{"document":"`+document+`"}}`, nil), 200)
		if len(plan.Effects) != 1 || plan.Effects[0] != "document "+document {
			t.Errorf("plan %+v", plan)
		}
		begun := decode[struct{ Operation string }](t, ask(t, p, "POST", "/api/v1/plans/"+plan.Plan, "{}", nil), 202)
		decode[failure](t, ask(t, p, "POST", "/api/v1/plans/"+plan.Plan, "{}", nil), 409)
		p.working.Wait()
		return decode[operation](t, ask(t, p, "GET", "/api/v1/operations/"+begun.Operation, "", nil), 200)
	}
	if o := do("1"); o != (operation{State: "done", Done: 1, Total: 1, Text: "done with 1"}) {
		t.Errorf("operation %+v", o)
	}
	if o := do("bad"); o != (operation{State: "failed", Failed: 1, Total: 1, Text: "it is bad"}) {
		t.Errorf("operation %+v", o)
	}
	if all := p.options.Recorder.timeline(0); len(all) != 2 || all[0].Text != "echo: done with 1" || all[1].Text != "echo: failed: it is bad" {
		t.Errorf("timeline %+v", all)
	}
	if f := decode[failure](t, ask(t, p, "POST", "/api/v1/plans", `{"action":"echo"}`, nil), 422); f.Message != "name a document" {
		t.Errorf("failure %+v", f)
	}
	decode[failure](t, ask(t, p, "POST", "/api/v1/plans", `{"action":"drop tables"}`, nil), 404)
	decode[failure](t, ask(t, p, "POST", "/api/v1/plans", `no JSON`, nil), 400)
}

func TestPlansExpire(t *testing.T) {
	var s plans
	s.init()
	id, _ := s.keep(waitingPlan{expires: time.Now().Add(-time.Second)})
	if _, ok := s.take(id, ""); ok == nil {
		t.Error("an expired plan was done")
	}
	for range maxPlans {
		if _, ok := s.keep(waitingPlan{expires: time.Now().Add(time.Minute)}); !ok {
			t.Fatal("a plan was refused")
		}
	}
	if _, ok := s.keep(waitingPlan{expires: time.Now().Add(time.Minute)}); ok {
		t.Error("plans are not bounded")
	}
	for range 2 * maxPlans {
		s.end(s.begin(), "", nil)
	}
	if len(s.operations) > maxPlans || len(s.order) != len(s.operations) {
		t.Errorf("%d operations are kept", len(s.operations))
	}
}

// event is one event of a stream.
type event struct{ id, name, data string }

// openStream follows the page's stream on a real connection.
func openStream(t *testing.T, address, query, last string) (next func() event, status int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/api/v1/stream"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, 1<<20)
	return func() (e event) {
		for lines.Scan() {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.name = value
			case "data":
				e.data = value
			case "":
				return e
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return e
	}, answer.StatusCode
}

// serve serves the page until the test ends.
func serve(t *testing.T, p *Page) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- p.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String()
}

// TestStreamContinues: a viewer gets all once, then updates, and after a reconnect the
// changes since. A viewer of another run reads all again.
func TestStreamContinues(t *testing.T) {
	p := newPage(t)
	address := serve(t, p)
	next, _ := openStream(t, address, "", "")
	seen := map[string]event{}
	for range 4 {
		e := next()
		seen[e.name] = e
	}
	for _, name := range []string{"reset", "range", "letter", "status"} {
		if seen[name].data == "" {
			t.Errorf("no event %s: %v", name, seen)
		}
	}
	handle := p.options.Recorder.Watch("a", 10, func(context.Context, trigger.Batch) error { return nil })
	_ = handle(t.Context(), batch(1, written("1", 1, 0)))
	e := next()
	for ; e.name != "change"; e = next() {
	}
	var l changeList
	if err := json.Unmarshal([]byte(e.data), &l); err != nil || len(l.Items) != 1 || l.Items[0].State != Handled {
		t.Errorf("%v: %s", err, e.data)
	}
	_ = handle(t.Context(), batch(1, written("2", 2, 0)))
	again, _ := openStream(t, address, "", e.id)
	if e := again(); e.name != "change" || !strings.Contains(e.data, `"documentId":"2"`) || strings.Contains(e.data, `"documentId":"1"`) {
		t.Errorf("after a reconnect: %+v", e)
	}
	other, _ := openStream(t, address, "", "another-7")
	if e := other(); e.name != "reset" {
		t.Errorf("a viewer of another run gets %+v", e)
	}
}

// TestStreamsAreBounded: a viewer too many is told so, and a stream that ends makes
// room.
func TestStreamsAreBounded(t *testing.T) {
	p := newPage(t)
	address := serve(t, p)
	for i := range maxStreams {
		if next, status := openStream(t, address, "", ""); status != http.StatusOK || next().name != "reset" {
			t.Fatalf("stream %d: status %d", i, status)
		}
	}
	if _, status := openStream(t, address, "", ""); status != http.StatusServiceUnavailable {
		t.Errorf("status %d", status)
	}
}

// TestManyUpdatesAreCut: one update has the newest changes, and says that there are more.
func TestManyUpdatesAreCut(t *testing.T) {
	p := newPage(t)
	handle := p.options.Recorder.Watch("a", 10, func(context.Context, trigger.Batch) error { return nil })
	for i := range 3 * maxUpdates {
		_ = handle(t.Context(), batch(1, written(fmt.Sprint(i), int64(i), 0)))
	}
	l := decode[changeList](t, ask(t, p, "GET", "/api/v1/changes?since=0&limit=200", "", nil), 200)
	if len(l.Items) != maxUpdates || !l.More || l.Items[0].DocumentID != fmt.Sprint(3*maxUpdates-1) {
		t.Errorf("%d changes, more: %v", len(l.Items), l.More)
	}
}

var update = flag.Bool("update", false, "compress the files of the page again")

func decompressed(t *testing.T, compressed string) string {
	t.Helper()
	file, err := gzip.NewReader(strings.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestAssetsAreCompressed: the app holds the files as they are in assets.
func TestAssetsAreCompressed(t *testing.T) {
	for name, compressed := range map[string]string{"index.html": indexFile, "page.css": styleFile, "page.js": scriptFile} {
		text, err := os.ReadFile("assets/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if *update {
			var b bytes.Buffer
			z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = z.Write(text) // into memory
			_ = z.Close()
			if err := os.WriteFile("assets/"+name+".gz", b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if decompressed(t, compressed) != string(text) {
			t.Errorf("%s.gz is another file: go test ./function/app/internal/page -run TestAssetsAreCompressed -update", name)
		}
	}
}

// TestAssetsStaySmall: every app holds them.
func TestAssetsStaySmall(t *testing.T) {
	size := 0
	for name, compressed := range map[string]string{"index.html": indexFile, "page.css": styleFile, "page.js": scriptFile} {
		size += len(compressed)
		text := decompressed(t, compressed)
		for _, not := range []string{"http://", "https://", "style=", "onclick", "innerHTML"} {
			if strings.Contains(strings.ReplaceAll(text, "http://www.w3.org/2000/svg", ""), not) {
				t.Errorf("%s has %s, which the policy forbids", name, not)
			}
		}
	}
	if size == 0 || size > 20_000 {
		t.Errorf("%d bytes, want 20,000 at most", size)
	}
}

// The page begins with the causes that the command why prints, with and without a script.
func TestPageSaysWhy(t *testing.T) {
	p := newPage(t)
	if st := decode[status](t, ask(t, p, "GET", "/api/v1/status", "", nil), 200); len(st.Why) != 1 || st.Why[0].Next != "start a host" {
		t.Errorf("why: %+v", st.Why)
	}
	body, err := io.ReadAll(ask(t, p, "GET", "/plain", "", nil).Body)
	if err != nil {
		t.Fatal(err)
	}
	text := string(body)
	causes, ranges := strings.Index(text, "<td>without an owner &lt;b&gt;</td><td>9:00</td><td>range 1</td><td>start a host</td>"), strings.Index(text, "<h2>Functions and ranges</h2>")
	if causes < 0 || causes > ranges {
		t.Errorf("the causes are at %d of\n%s", causes, text)
	}
}
