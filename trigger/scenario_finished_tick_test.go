package trigger

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/internal/finished"
)

// positionsRead records the continuations at which the feed is read from now on.
func (w *world) positionsRead() (read func() []string) {
	var positions []string
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onRequest = func(r *http.Request) {
		if r.Header.Get("A-IM") == "" || !strings.HasSuffix(r.URL.Path, "/colls/items/docs") {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		positions = append(positions, r.Header.Get("If-None-Match"))
	}
	return func() []string {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Clone(positions)
	}
}

// tickCases are the leases that a timer invocation meets. Each has a value that calls
// finished all of ten changes but those of one key.
var tickCases = map[string]struct {
	retryIn time.Duration // when the key is due
	change  func(*finished.Value, *leaseDocument)
	news    bool // there is a change behind the ten
	isIdle  bool
	peeks   string // "behind" all changes, at the "position", or "" if the lease is acquired unread
}{
	"nothing is new":               {retryIn: 20 * time.Second, isIdle: true, peeks: "behind"},
	"a change is new":              {retryIn: 20 * time.Second, news: true, peeks: "behind"},
	"the retry is due":             {retryIn: 0},
	"the retry is due in a moment": {retryIn: time.Second},
	"a key does not wait":          {change: func(v *finished.Value, _ *leaseDocument) { v.RetryAt = 0 }},
	"all is finished":              {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Marks = nil }, peeks: "position"},
	"another epoch":                {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Epoch-- }, peeks: "position"},
	"another position":             {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Continuation = `"1"` }, peeks: "position"},
	"another mode":                 {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Mode = "Full-Fidelity Feed" }, peeks: "position"},
	"another phase":                {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Phase = "trial" }, peeks: "position"},
	"another filter":               {retryIn: 20 * time.Second, change: func(v *finished.Value, _ *leaseDocument) { v.Filter = "ab" }, peeks: "position"},
}

// A timer invocation reads behind all changes that are finished or wait for a retry. A
// range without a further change, whose retry is not due, costs one read and no write.
func TestTickPeeksBehindFinishedChanges(t *testing.T) {
	for name, test := range tickCases {
		t.Run(name, func(t *testing.T) {
			drainedWorld(t, func(t *testing.T, w *world) {
				l := w.markFinished("0", w.retryIn(test.retryIn), func(v *finished.Value, l *leaseDocument) {
					if test.change != nil {
						test.change(v, l)
					}
				})
				marks := map[string]string{"behind": w.newestContinuation(), "position": l.continuation}
				if test.news {
					w.write("news", "news")
				}
				read, sent := w.positionsRead(), w.countRequests()
				s, err := w.host("a", w.recorder("a")).Drain(t.Context())
				must(t, err)
				cost := w.countRequests().minus(sent)
				if isIdle := s.Idle == 1 && cost.writes == 0 && cost.feed == 1; isIdle != test.isIdle {
					t.Errorf("%+v cost %+v", s, cost)
				}
				if test.isIdle && s.Lag != 10 {
					t.Errorf("%+v: ten transactions wait", s)
				}
				first := read()[0]
				if test.peeks != "" && first != marks[test.peeks] || test.peeks == "" && first != marks["position"] {
					t.Errorf("the feed is first read at %s of %v, want %q", first, marks, test.peeks)
				}
				if test.peeks == "behind" && !test.isIdle && read()[1] != marks["position"] {
					t.Errorf("the owner reads at %s, and the lease is at %s", read()[1], marks["position"])
				}
				if got := w.deliveredIDs(); test.news && !slices.Contains(got, "news") {
					t.Errorf("delivered %v", got)
				}
			})
		})
	}
}

// A dispatcher sends a message for a range with news, or with a retry that is due, as a
// drain would acquire its lease.
func TestDispatchPeeksBehindFinishedChanges(t *testing.T) {
	for name, test := range tickCases {
		t.Run(name, func(t *testing.T) {
			drainedWorld(t, func(t *testing.T, w *world) {
				l := w.markFinished("0", w.retryIn(test.retryIn), func(v *finished.Value, l *leaseDocument) {
					if test.change != nil {
						test.change(v, l)
					}
				})
				marks := map[string]string{"behind": w.newestContinuation(), "position": l.continuation}
				if test.news {
					w.write("news", "news")
				}
				read, sent := w.positionsRead(), w.countRequests()
				tokens, s := dispatched(t, w.host("a", w.recorder("a")))
				cost := w.countRequests().minus(sent)
				if isIdle := len(tokens) == 0 && s.Idle == 1 && cost.writes == 0; isIdle != test.isIdle {
					t.Errorf("messages for %v, %+v, cost %+v", tokens, s, cost)
				}
				switch positions := read(); {
				case test.peeks == "" && len(positions) > 0, test.peeks != "" && !slices.Equal(positions, []string{marks[test.peeks]}):
					t.Errorf("the feed is read at %v of %v, want %q", positions, marks, test.peeks)
				}
				want := map[bool]int64{false: 10, true: 11}[test.news]
				if test.peeks != "" && s.Lag != want {
					t.Errorf("%+v, want a lag of %d", s, want)
				}
			})
		})
	}
}

// A function with a filter trusts a value of the same filter, and no other: a change that
// another filter leaves out would be lost.
func TestFinishedChangesBelongToAFilter(t *testing.T) {
	for other, isIdle := range map[string]bool{`{"player": ["doc1"]}`: true, `{"player": ["doc2"]}`: false} {
		drainedWorld(t, func(t *testing.T, w *world) {
			filtered := func(f *Function, _ *Options) { f.Filter = Filter{`{"player": ["doc1"]}`} }
			writer := Function{Filter: Filter{other}}
			w.markFinished("0", w.retryIn(20*time.Second), func(v *finished.Value, _ *leaseDocument) { v.Filter = writer.Filter.hash() })
			s, err := w.host("a", w.recorder("a"), filtered).Drain(t.Context())
			must(t, err)
			if (s.Idle == 1) != isIdle {
				t.Errorf("filter %s: %+v", other, s)
			}
		})
	}
}

// Scalers see the position of the lease: an app does not go to zero while a key is retried.
func TestLagIsThatOfThePositionWhileARetryWaits(t *testing.T) {
	drainedWorld(t, func(t *testing.T, w *world) {
		w.markFinished("0", w.retryIn(20*time.Second))
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
		must(t, err)
		if len(lags) != 1 || lags[0].Changes != 10 || !lags[0].Known {
			t.Errorf("lag %+v", lags)
		}
	})
}
