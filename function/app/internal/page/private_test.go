package page

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"halley/trigger"
)

// TestPrivatePageNeedsTheTokenForAllData: on a page that other machines can reach, the
// token guards reads as well, under every name, and the form turns it into a cookie.
func TestPrivatePageNeedsTheTokenForAllData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t)
		p.options.Private = true
		foreign := func(r *http.Request) {
			r.Header.Del("Authorization")
			r.Host = "status.example:8082"
		}
		for path, want := range map[string]int{
			"/": 401, "/page.js": 401, "/page.css": 200, "/sign-in": 200, "/plain": 401, "/plain-letter?letter=letter": 401, "/api/v1/status": 401, "/api/v1/ranges": 401,
			"/api/v1/letters/letter/document": 401, "/api/v1/letters.jsonl": 401, "/api/v1/stream": 401, "/?token=wrong": 403,
		} {
			r := ask(t, p, "GET", path, "", foreign)
			if r.StatusCode != want || r.Header.Get("Content-Security-Policy") != securityPolicy {
				t.Errorf("%s: status %d, want %d", path, r.StatusCode, want)
			}
		}
		signIn := func(token string) *http.Response {
			return ask(t, p, "POST", "/sign-in", url.Values{"token": {token}}.Encode(), func(r *http.Request) {
				foreign(r)
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("X-Forwarded-Proto", "https")
			})
		}
		if r := signIn("wrong"); r.StatusCode != 403 || len(r.Cookies()) > 0 {
			t.Errorf("a wrong token: status %d, cookies %v", r.StatusCode, r.Cookies())
		}
		r := signIn("right")
		if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 || !r.Cookies()[0].Secure || !r.Cookies()[0].HttpOnly {
			t.Fatalf("the right token: status %d, cookies %v", r.StatusCode, r.Cookies())
		}
		cookie := r.Cookies()[0]
		for _, path := range []string{"/", "/plain", "/api/v1/status"} {
			r := ask(t, p, "GET", path, "", func(r *http.Request) {
				foreign(r)
				r.AddCookie(cookie)
			})
			if r.StatusCode != 200 {
				t.Errorf("%s with the cookie: status %d", path, r.StatusCode)
			}
		}
	})
}

// TestHiddenDocumentsAreNeitherShownNorSent: all ways to a document are closed; errors
// and keys stay.
func TestHiddenDocumentsAreNeitherShownNorSent(t *testing.T) {
	p := newPage(t)
	p.options.Hidden = true
	p.options.Source.ExportDeadLetters = func(context.Context, io.Writer, Selection) error { return errors.New("not called") }
	_ = p.options.Recorder.Watch("a", 10, func(context.Context, trigger.Batch) error { return nil })(t.Context(), batch(1, written("1", 1, 0)))
	id := p.options.Recorder.list(filter{}, "", 1).Items[0].ID
	for path, want := range map[string]int{
		"/api/v1/letters/letter": 200, "/api/v1/changes/" + id: 200, "/plain-letter?letter=letter": 200,
		"/api/v1/letters/letter/document": 403, "/api/v1/changes/" + id + "/document": 403, "/api/v1/letters.jsonl": 403,
	} {
		r := ask(t, p, "GET", path, "", nil)
		text, _ := io.ReadAll(r.Body)
		if r.StatusCode != want || strings.Contains(string(text), "9007199254740993") || strings.Contains(string(text), `\"id\"`) {
			t.Errorf("%s: status %d, want %d: %s", path, r.StatusCode, want, text)
		}
	}
	if d := decode[letterDetail](t, ask(t, p, "GET", "/api/v1/letters/letter", "", nil), 200); !d.Hidden || d.Text != "refused" {
		t.Errorf("dead letter %+v", d)
	}
}

// TestPolledAnswersHaveTags: a viewer that has the answer gets 304, and there is no
// stream.
func TestPolledAnswersHaveTags(t *testing.T) {
	p := newPage(t)
	p.options.Polled = true
	for _, path := range []string{"ranges", "letters", "settings", "timeline", "changes"} {
		tag := ask(t, p, "GET", "/api/v1/"+path, "", nil).Header.Get("ETag")
		again := ask(t, p, "GET", "/api/v1/"+path, "", func(r *http.Request) { r.Header.Set("If-None-Match", tag) })
		if tag == "" || again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: tag %q, then status %d", path, tag, again.StatusCode)
		}
	}
	p.options.Recorder.Note(Moment{Text: "new"})
	if r := ask(t, p, "GET", "/api/v1/timeline", "", func(r *http.Request) { r.Header.Set("If-None-Match", `"0"`) }); r.StatusCode != 200 {
		t.Errorf("another tag: status %d", r.StatusCode)
	}
	decode[failure](t, ask(t, p, "GET", "/api/v1/stream", "", nil), 404)
}

// TestPlanIsRefusedWhenItsObjectsMoved: nothing is done then, and a wrong confirmation
// keeps the plan.
func TestPlanIsRefusedWhenItsObjectsMoved(t *testing.T) {
	p := newPage(t)
	done := 0
	var moved error
	p.options.Actions = []Action{{Name: "discard", Plan: func(context.Context, Request) (Plan, error) {
		return Plan{
			Effects: []string{"two are deleted"}, Confirm: "2", Moved: func(context.Context) error { return moved },
			Do: func(context.Context) (string, error) { done++; return "deleted", nil },
		}, nil
	}}}
	plan := func() string {
		t.Helper()
		return decode[struct{ Plan string }](t, ask(t, p, "POST", "/api/v1/plans", `{"action":"discard"}`, nil), 200).Plan
	}
	id := plan()
	if f := decode[failure](t, ask(t, p, "POST", "/api/v1/plans/"+id, `{"confirm":"3"}`, nil), 409); f.Code != "confirm" {
		t.Errorf("failure %+v", f)
	}
	decode[struct{ Operation string }](t, ask(t, p, "POST", "/api/v1/plans/"+id, `{"confirm":"2"}`, nil), 202)
	p.working.Wait()
	id, moved = plan(), errors.New("one has left")
	if f := decode[failure](t, ask(t, p, "POST", "/api/v1/plans/"+id, `{"confirm":"2"}`, nil), 409); f.Code != "moved" || !strings.Contains(f.Message, "one has left") {
		t.Errorf("failure %+v", f)
	}
	p.working.Wait()
	if done != 1 {
		t.Errorf("done %d times, want once", done)
	}
}

// TestRecorderOfFailuresKeepsNoDocuments: it records failed calls and what becomes of
// their changes, at most 200, and nothing about the others.
func TestRecorderOfFailuresKeepsNoDocuments(t *testing.T) {
	r := &Recorder{FailuresOnly: true}
	fails := true
	handle := r.Watch("", 3, func(context.Context, trigger.Batch) error {
		if fails {
			return errors.New("refused")
		}
		return nil
	})
	fails = false
	_ = handle(t.Context(), batch(1, written("fine", 1, 0)))
	if l := r.list(filter{}, "", 10); len(l.Items) > 0 {
		t.Errorf("a call that succeeded is recorded: %+v", l)
	}
	fails = true
	_ = handle(t.Context(), batch(1, written("bad", 2, 0)))
	row := r.list(filter{}, "", 10).Items[0]
	detail, change, _ := r.Find(row.ID)
	if row.State != Failing || row.Error != "refused" || row.DocumentID != "bad" || !detail.Hidden || len(change.Document) > 0 || detail.Document != "" {
		t.Errorf("row %+v, detail %+v", row, detail)
	}
	fails = false
	_ = handle(t.Context(), batch(2, written("bad", 2, 0), written("other", 3, 0)))
	if l := r.list(filter{}, "", 10); len(l.Items) != 1 || l.Items[0].State != Handled {
		t.Errorf("after a call that succeeded: %+v", l)
	}
	fails = true
	for i := range 2 * maxFailures {
		_ = handle(t.Context(), batch(1, written(strings.Repeat("x", i+1), int64(i+10), 0)))
	}
	if l := r.list(filter{}, "", 10); l.Kept != maxFailures || l.Dropped != maxFailures+1 {
		t.Errorf("%d kept, %d dropped", l.Kept, l.Dropped)
	}
	defer func() {
		if recover() != nil {
			t.Error("a panic leaves the recorder")
		}
	}()
	var p *trigger.PanicError
	if err := r.Watch("", 3, func(context.Context, trigger.Batch) error { panic("boom") })(t.Context(), batch(1, written("panics", 1, 0))); !errors.As(err, &p) {
		t.Errorf("error %v", err)
	}
}

// TestMarkupEscapes: no value becomes markup, and characters that control the text are
// shown.
func TestMarkupEscapes(t *testing.T) {
	var m markup
	m.add(`<a title="%s">%s</a>`, `"><script>`, "%s <b>\u202e\x00&")
	if got, want := m.out.String(), `<a title="&#34;&gt;&lt;script&gt;">%s &lt;b&gt;\u202e\u0000&amp;</a>`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
