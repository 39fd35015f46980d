package trigger

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/lease"
)

// A drain that reached nothing is an error, also if its deadline passed meanwhile.
func TestDrainThatReachedNothingFails(t *testing.T) {
	feeds := func(f emulator.Fault) emulator.Fault {
		f.Path, f.Header = "/colls/items/docs", map[string]string{"A-IM": ".+"}
		return f
	}
	tests := map[string]struct {
		fault emulator.Fault
		fails bool
	}{
		"nothing answers":              {emulator.Fault{Delay: time.Hour}, true},
		"list of leases throttled":     {emulator.Fault{Path: "/colls/leases/docs$", Method: http.MethodPost, Status: 429, RetryAfter: time.Second}, true},
		"feeds denied":                 {feeds(emulator.Fault{Status: 403}), true},
		"feeds do not answer":          {feeds(emulator.Fault{Delay: time.Hour}), true},
		"feed of one range denied":     {func() emulator.Fault { f := feeds(emulator.Fault{Status: 403}); f.Range = "1"; return f }(), false},
		"lease writes denied":          {emulator.Fault{Path: "/colls/leases/docs/", Method: http.MethodPut, Status: 403}, false},
		"ranges cannot be read at all": {emulator.Fault{Path: "/pkranges", Status: 403}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 2, func(t *testing.T, w *world) {
				quiet := func(_ *Function, o *Options) { o.Logger = slog.New(slog.DiscardHandler) }
				_, err := w.host("a", w.recorder("a"), quiet).Drain(t.Context())
				must(t, err)
				w.writeMany("doc", 20)
				defer w.account.Inject(test.fault)()
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				summary, err := w.host("b", w.recorder("b"), quiet).Drain(ctx)
				if (err != nil) != test.fails {
					t.Errorf("summary %+v, error %v", summary, err)
				}
				if err == nil && (summary.Behind == 0 || summary.Problem == "") {
					t.Errorf("summary %+v names no problem", summary)
				}
			})
		})
	}
}

func TestDrainOfOthersRangesIsNoError(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		summary, err := w.host("b", w.recorder("b")).Drain(t.Context())
		if err != nil || summary.Skipped != 2 {
			t.Errorf("summary %+v, error %v", summary, err)
		}
		stop()
	})
}

func TestLeaseContainerWithDefaultTTLIsRefused(t *testing.T) {
	for _, test := range []struct {
		ttl     int
		refused bool
	}{{3600, true}, {-1, false}} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
				ID: "expiring", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}, DefaultTTL: &test.ttl,
			}))
			leases := w.client().Container("db", "expiring")
			h, err := New(leases, []Function{{FeedSource: FeedSource{Name: "test", Container: w.items}, Handler: w.recorder("a")}}, &Options{Owner: "a"})
			must(t, err)
			_, err = h.Drain(t.Context())
			if errors.Is(err, lease.ErrSetup) != test.refused || test.refused && !strings.Contains(err.Error(), "defaultTtl to -1") {
				t.Errorf("defaultTtl %d: %v", test.ttl, err)
			}
		})
	}
}
