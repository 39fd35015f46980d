package trigger

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

func TestOptionsThatCannotWork(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, test := range []struct {
			options Options
			want    string
		}{
			{Options{LeaseRenewInterval: time.Minute}, "options: LeaseRenewInterval=1m0s: must be less than half of LeaseExpirationInterval=1m0s"},
			{Options{LeaseRenewInterval: 10 * time.Second, LeaseExpirationInterval: 20 * time.Second}, "less than half of LeaseExpirationInterval"},
			{Options{LeaseExpirationInterval: 30 * time.Second}, "LeaseRenewInterval=17s"},
			{Options{LeaseExpirationInterval: 12 * time.Second, LeaseRenewInterval: time.Second}, "LeaseAcquireInterval=13s: must be less than LeaseExpirationInterval=12s"},
			{Options{LeaseRenewInterval: 99 * time.Millisecond}, "LeaseRenewInterval=99ms: must be at least 100ms"},
			{Options{FeedPollDelay: -1}, "FeedPollDelay=-1ns: must be above 0"},
			{Options{LeaseAcquireInterval: -time.Second}, "LeaseAcquireInterval=-1s"},
			{Options{MaxLeases: -1}, "MaxLeases=-1: must not be negative"},
			{Options{MinLeases: 5, MaxLeases: 4}, "MinLeases=5: must not be more than MaxLeases=4"},
			{Options{ReadAhead: -1}, "ReadAhead"},
		} {
			f := Function{Name: "f", Container: w.items, Handler: w.record("a")}
			if _, err := New(w.leases, []Function{f}, &test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want an error about %q", test.options, err, test.want)
			}
		}
	})
}

func TestFunctionsThatCannotWork(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		good := Function{Name: "a", Container: w.items, Handler: w.record("a")}
		for want, change := range map[string]func(*Function){
			"cannot contain":                      func(f *Function) { f.Name = "games/scores" },
			"Container: set":                      func(f *Function) { f.Container = nil },
			"Handler: set":                        func(f *Function) { f.Handler = nil },
			"Lanes=-1: must":                      func(f *Function) { f.Lanes = -1 },
			"StallAfter=-1ns: must":               func(f *Function) { f.StallAfter = -1 },
			"BreakerPause=-1ns: must":             func(f *Function) { f.BreakerPause = -1 },
			"MaxAttempts=-2":                      func(f *Function) { f.MaxAttempts = -2 },
			"MaxAttempts=3: without a store":      func(f *Function) { f.MaxAttempts = 3 },
			"RetryMaxAge=1h0m0s: without a store": func(f *Function) { f.RetryMaxAge = time.Hour },
			"LanesByID=true: spreads nothing":     func(f *Function) { f.LanesByID = true },
			"Name=\"\": set it":                   func(f *Function) { f.Name = "" },
			"Checkpoint.Manual=true: leaves nothing for Checkpoint.Every": func(f *Function) { f.Checkpoint = Checkpoint{Manual: true, Every: 5} },
			"needs a continuation":                             func(f *Function) { f.StartFrom = FromContinuation("") },
			"BlockKeys=true: needs a store":                    func(f *Function) { f.BlockKeys, f.DeadLetters = true, DropDeadLetters },
			"BlockKeys=true: keeps the order":                  func(f *Function) { f.BlockKeys, f.LanesByID, f.DeadLetters = true, true, DropDeadLetters },
			"RetryMin=1m0s: must not be more than RetryMax=1s": func(f *Function) { f.RetryMin, f.RetryMax = time.Minute, time.Second },
			"share the lease prefix":                           func(f *Function) { f.Name, f.LeasePrefix = "b", "a" },
			"two functions are named \"a\"":                    func(f *Function) { f.LeasePrefix = "b" },
			"all versions begin":                               func(f *Function) { f.ChangeFeedMode, f.StartFrom = cosmos.AllVersions, FromBeginning() },
			"SoftDeleteProperty=deleted: all versions":         func(f *Function) { f.ChangeFeedMode, f.SoftDeleteProperty = cosmos.AllVersions, "deleted" },
		} {
			f := good
			change(&f)
			if _, err := New(w.leases, []Function{good, f}, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error about %q", err, want)
			}
		}
	})
}

// What is read ahead of slow handlers fits the budget, over all ranges, and one
// page of each range.
func TestReadAheadKeepsToItsBudget(t *testing.T) {
	const limit, page = 20_000, 4_000
	inWorld(t, 4, func(t *testing.T, w *world) {
		padding := strings.Repeat("x", 1_000)
		for i := range 200 {
			id := "doc" + strings.Repeat("i", i)
			doc := map[string]any{"id": id, "player": id, "version": 1, "padding": padding}
			_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey(id), doc)
			must(t, err)
			w.written[id] = 1
		}
		record := w.record("a")
		h := w.host("a", func(ctx context.Context, b Batch) error {
			if err := backoff.Sleep(ctx, time.Second); err != nil {
				return err
			}
			return record(ctx, b)
		}, func(f *Function, o *Options) { f.MaxItemsPerInvocation, o.ReadAhead = 2, limit })
		stop := w.running(h)
		most := int64(0)
		for w.count() < len(w.written) {
			time.Sleep(100 * time.Millisecond)
			most = max(most, h.host.pageBudget.UsedBytes())
		}
		stop()
		w.complete(0)
		if most > limit+4*page || most < limit/2 {
			t.Errorf("%d bytes read ahead, want most of %d and no more than a page of each range beside it", most, limit)
		}
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			t.Errorf("%d bytes are never given back", used)
		}
	})
}

// stuckFeed is an account whose feed answers with changes and the continuation
// that it was asked with, until it is mended, or was asked more often than
// anybody should.
type stuckFeed struct {
	w       *world
	mended  atomic.Bool
	answers atomic.Int64
}

const tooOften = 300

func (s *stuckFeed) Do(r *http.Request) (*http.Response, error) {
	asked := r.Header.Get("If-None-Match")
	resp, err := counted{s.w}.Do(r)
	if err == nil && r.Header.Get("A-IM") != "" && resp.StatusCode == http.StatusOK && asked != "" && !s.mended.Load() {
		resp.Header.Set("Etag", asked)
		s.mended.Store(s.answers.Add(1) >= tooOften)
	}
	return resp, err
}

func TestFeedThatDoesNotAdvanceIsNotReadForEver(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.fill("doc", 150) // a page and a half
		feed := &stuckFeed{w: w}
		stop := w.running(w.hostThrough("a", feed, w.record("a")))
		time.Sleep(10 * time.Minute)
		if reads := feed.answers.Load(); reads >= tooOften || w.count() != 100 {
			t.Errorf("%d reads and %d deliveries of a feed that stands still after 100 changes", reads, w.count())
		}
		feed.mended.Store(true)
		time.Sleep(2 * time.Minute)
		stop()
		w.complete(0)
	})
}
