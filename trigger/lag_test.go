package trigger

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func (w *world) lagByRange(change ...func(*Function)) map[string]Lag {
	w.t.Helper()
	f := Function{FeedSource: FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()}}
	for _, c := range change {
		c(&f)
	}
	all, err := EstimateLag(w.t.Context(), w.leases, f.FeedSource)
	must(w.t, err)
	found := map[string]Lag{}
	for _, l := range all {
		if !l.Known {
			w.t.Errorf("range %s: %s", l.Range, l.Problem)
		}
		found[l.Range] = l
	}
	return found
}

// What is not known is null in JSON, and not a number.
func TestUnknownLagIsNull(t *testing.T) {
	for want, l := range map[string]Lag{
		`"changes":null,"seconds":null}`: {Changes: 1, Problem: "no lease"},
		`"changes":0`:                    {Known: true},
	} {
		b, err := json.Marshal(l)
		must(t, err)
		if !strings.Contains(string(b), want) || l.Known != !strings.Contains(string(b), "null") {
			t.Errorf("%+v is %s, want %s", l, b, want)
		}
	}
}

func TestLagOfIdleAndBusyRanges(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		if got := w.lagByRange(); len(got) != 0 {
			t.Errorf("lag before the first host: %v", got)
		}
		h := w.host("a", w.recorder("a"))
		w.writeMany("doc", 10)
		_, err := h.Drain(t.Context())
		must(t, err)
		if got := w.lagByRange()["0"]; got.Changes != 0 || !got.Exact || got.Seconds != 0 || got.Continuation == "" {
			t.Errorf("caught up: %+v", got)
		}
		w.write("k", "one")
		time.Sleep(30 * time.Second)
		if got := w.lagByRange()["0"]; got.Changes != 1 || !got.Exact || got.Seconds < 30 || got.Seconds > 31 {
			t.Errorf("one behind: %+v", got)
		}
		w.writeMany("more", 25)
		if got := w.lagByRange()["0"]; got.Changes != 26 || got.Exact {
			t.Errorf("26 behind: %+v", got)
		}
	})
}

func TestLagWithoutCheckpoint(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		w.createLease(newLeaseDocument(w.leasePrefix(), "0", "", "FF"))
		if got := w.lagByRange()["0"]; got.Changes != 10 {
			t.Errorf("from the beginning: %+v", got)
		}
		if got := w.lagByRange(func(f *Function) { f.StartFrom = FromNow() })["0"]; got.Changes != 0 {
			t.Errorf("from now: %+v", got)
		}
	})
}

func TestLagThroughSplitAndMerge(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"))
		w.writeMany("doc", 10)
		_, err := h.Drain(t.Context())
		must(t, err)
		_, err = w.account.Split("db", "items", "0")
		must(t, err)
		if got := w.lagByRange()["0"]; got.Changes != 0 {
			t.Errorf("idle parent: %+v", got)
		}
		w.writeMany("more", 40)
		got := w.lagByRange()["0"]
		if got.Changes < 40 || got.Changes > 42 {
			t.Errorf("parent of a split: %+v", got)
		}
		_, err = h.Drain(t.Context())
		must(t, err)
		for token, l := range w.lagByRange() {
			if l.Changes != 0 {
				t.Errorf("child %s: %+v", token, l)
			}
		}
		ranges, err := w.items.Ranges(t.Context())
		must(t, err)
		_, err = w.account.Merge("db", "items", ranges[0].ID, ranges[1].ID)
		must(t, err)
		w.writeMany("merged", 10)
		for token, l := range w.lagByRange() {
			if l.Changes == 0 {
				t.Errorf("range %s of a merge: %+v", token, l)
			}
		}
	})
}

// A coverage gap is reported as a problem and not as a lag of 0.
func TestLagReportsCoverageGap(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		f := Function{FeedSource: FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()}}
		for _, l := range w.leaseDocuments() {
			_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
			must(t, err)
			if got, err := EstimateLag(t.Context(), w.leases, f.FeedSource); err != nil || !reportsGap(got, l.token) {
				t.Errorf("without the lease of range %s: %v, %+v", l.token, err, got)
			}
		}
	})
}

func reportsGap(lags []Lag, token string) bool {
	return len(lags) == 2 && slices.ContainsFunc(lags, func(l Lag) bool {
		return l.Range == token && l.Changes == 1 && !l.Exact && strings.HasPrefix(l.Problem, "no lease covers")
	})
}

// A lease of .NET's older schema has no key range: it covers the range of its id and,
// after a split, the descendants of that range.
func TestLagOfLeaseWithoutKeyRange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.createLease(newLeaseDocument(w.leasePrefix(), "0", "", ""))
		if got := w.lagByRange(); len(got) != 1 {
			t.Errorf("lag %v", got)
		}
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		if got := w.lagByRange(); len(got) != 1 {
			t.Errorf("after a split: %v", got)
		}
	})
}

// Without a session token the number of changes is not known, unless all of them are read.
func TestLagWithoutSessionTokenIsUnknown(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a")).Drain(t.Context())
		must(t, err)
		w.writeMany("doc", 3)
		items := w.clientOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			resp, err := w.account.Do(r)
			if err == nil && r.Header.Get("A-IM") != "" {
				resp.Header.Del("X-Ms-Session-Token")
			}
			return resp, err, true
		}}).Container("db", "items")
		source := FeedSource{Name: "test", Container: items, StartFrom: FromBeginning()}
		lags, err := EstimateLag(t.Context(), w.leases, source)
		must(t, err)
		if l := lags[0]; l.Kind() != "unknown" || l.Changes != 1 || l.Problem == "" {
			t.Errorf("estimate: %+v", l)
		}
		lags, err = CountLag(t.Context(), w.leases, source)
		must(t, err)
		if l := lags[0]; l.Kind() != "exact" || l.Changes != 3 {
			t.Errorf("count: %+v", l)
		}
	})
}

func TestLagOfFailingRange(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", failOnPoison(w.recorder("a"))))
		w.write("k", "poison")
		time.Sleep(10 * time.Minute)
		if got := w.lagByRange()["0"]; got.Changes != 1 || got.Seconds < 600 || got.Owner != "a" {
			t.Errorf("blocked: %+v", got)
		}
		stop()
	})
}

// While the feed is throttled, a lease tells its part after two seconds.
func TestLagOfThrottledFeed(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 10)
		time.Sleep(time.Minute)
		w.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/items/docs$", Status: 429, RetryAfter: 3 * time.Second})
		began := time.Now()
		lags, err := CountLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, StartFrom: FromBeginning()})
		must(t, err)
		if took := time.Since(began); took > feedPatience+100*time.Millisecond {
			t.Errorf("it took %s", took)
		}
		for _, l := range lags {
			if l.Known || l.Owner != "a" || l.Continuation == "" || !strings.Contains(l.Problem, "has not answered in time") || !strings.Contains(l.Problem, "429") {
				t.Errorf("range %s: %+v", l.Range, l)
			}
		}
		if len(lags) != 4 {
			t.Errorf("%d leases", len(lags))
		}
		stop()
	})
}

func TestLagNamesInvalidLease(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		id := w.leasePrefix() + "..0"
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "LeaseToken": "0", "version": 9})
		must(t, err)
		got, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items})
		must(t, err)
		if len(got) != 1 || got[0].Problem == "" || got[0].Changes != 1 {
			t.Errorf("lag %s", fmt.Sprint(got))
		}
	})
}

func TestLagOfAllVersions(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		h := &versionHistory{}
		_, err := w.host("a", h.handler(), allVersions).Drain(t.Context())
		must(t, err)
		h.put(w, "doc", 0)
		h.put(w, "doc", 0)
		h.remove(w, "doc")
		time.Sleep(time.Minute)
		lags, err := EstimateLag(t.Context(), w.leases, FeedSource{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions})
		must(t, err)
		if len(lags) != 1 || lags[0].Changes != 3 || lags[0].Seconds != 60 {
			t.Errorf("lag %+v", lags)
		}
		_, err = w.host("a", h.handler(), allVersions).Drain(t.Context())
		must(t, err)
		h.checkComplete(t)
	})
}
