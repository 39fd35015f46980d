package page

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// Guesses of the token wait for a second each, whichever way they come, and are one log line a
// minute. The right token and requests without one never wait, also during guesses.
func TestWrongTokensAreSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPage(t)
		p.options.Private = true
		core, log := observer.New(zapcore.DebugLevel)
		p.options.Log = zap.New(core)
		took := func(method, path, body string, change func(*http.Request)) time.Duration {
			began := time.Now()
			ask(t, p, method, path, body, func(r *http.Request) {
				r.Header.Del("Authorization")
				if change != nil {
					change(r)
				}
			})
			return time.Since(began)
		}
		bearer := func(token string) func(*http.Request) {
			return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
		}
		cookie := func(r *http.Request) { r.AddCookie(&http.Cookie{Name: cookieName(r), Value: "wrong"}) }
		form := url.Values{"token": {"wrong"}}.Encode()
		for name, delay := range map[string]time.Duration{
			"bearer": took("GET", "/api/v1/status", "", bearer("wrong")), "cookie": took("GET", "/", "", cookie),
			"address": took("GET", "/?token=wrong", "", nil), "form": took("POST", "/sign-in", form, nil),
		} {
			if delay != wrongTokenDelay {
				t.Errorf("a wrong token by %s waits %v", name, delay)
			}
		}
		guesses, end := context.WithCancel(t.Context())
		var guessing sync.WaitGroup
		for range 100 {
			guessing.Go(func() {
				ask(t, p, "GET", "/api/v1/status", "", func(r *http.Request) {
					*r = *r.WithContext(guesses)
					bearer("wrong")(r)
				})
			})
		}
		synctest.Wait()
		for name, delay := range map[string]time.Duration{
			"bearer": took("GET", "/api/v1/status", "", bearer("right")), "address": took("GET", "/?token=right", "", nil),
			"none": took("GET", "/api/v1/status", "", nil),
		} {
			if delay != 0 {
				t.Errorf("%s waits %v", name, delay)
			}
		}
		end()
		gone := time.Now()
		if guessing.Wait(); time.Since(gone) != 0 {
			t.Errorf("guesses of clients that have gone wait %v", time.Since(gone))
		}
		lines := log.FilterMessage("operator refused: wrong token")
		if lines.Len() != 1 || lines.All()[0].ContextMap()["tokens"] != int64(1) {
			t.Errorf("%d lines within a minute, the first with %v", lines.Len(), lines.All()[:min(1, lines.Len())])
		}
		time.Sleep(wrongTokenLog)
		took("GET", "/?token=wrong", "", nil)
		lines = log.FilterMessage("operator refused: wrong token")
		if lines.Len() != 2 || lines.All()[1].ContextMap()["tokens"] != int64(104) {
			t.Errorf("%d lines after a minute, the last with %v", lines.Len(), lines.All()[max(0, lines.Len()-1):])
		}
	})
}
