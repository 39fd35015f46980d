package trigger

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestRetentionAlert(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		var mu sync.Mutex
		isBroken, history := true, &versionHistory{}
		good := history.handler()
		host := w.host("a", func(ctx context.Context, b Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if isBroken {
				return errors.New("the sink is down")
			}
			return good(ctx, b)
		}, allVersions, withoutLogger)
		stop := w.startHost(host)
		defer stop()
		problem := func() string { return host.Status().Functions[0].Ranges[0].Problem }
		time.Sleep(time.Minute)
		history.put(w, "doc", 0)
		time.Sleep(20 * time.Minute)
		if got := problem(); !strings.Contains(got, "the sink is down") || strings.Contains(got, "behind") {
			t.Errorf("after 20 of 60 minutes: %q", got)
		}
		time.Sleep(20 * time.Minute)
		if got := problem(); !strings.Contains(got, "the sink is down") || !strings.Contains(got, "40m0s behind") || !strings.Contains(got, "in 20m0s the first will be lost") {
			t.Errorf("after 40 of 60 minutes: %q", got)
		}
		time.Sleep(30 * time.Minute)
		if got := problem(); !strings.Contains(got, "lost unless this host") {
			t.Errorf("after the retention: %q", got)
		}
		mu.Lock()
		isBroken = false
		mu.Unlock()
		time.Sleep(time.Minute)
		if got := problem(); got != "" {
			t.Errorf("after the changes were handled: %q", got)
		}
		history.checkComplete(t)
	})
}

func TestPositionOlderThanRetention(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		_, err := w.host("a", w.recorder("a"), allVersions).Drain(t.Context())
		must(t, err)
		w.writeMany("doc", 3)
		time.Sleep(2 * time.Hour)
		f := Function{FeedSource: FeedSource{Name: "test", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions}}
		lags, err := EstimateLag(t.Context(), w.leases, f.FeedSource)
		must(t, err)
		if len(lags) != 1 || !strings.Contains(lags[0].Problem, "1h0m0s") {
			t.Errorf("the lag says %+v", lags)
		}
		oldContinuation := w.leaseDocuments()["0"].continuation
		summary, err := w.host("a", w.recorder("a"), allVersions, withoutLogger).Drain(t.Context())
		if err == nil || !strings.Contains(err.Error(), "retention") {
			t.Errorf("drain of a range that cannot be read: %v", err)
		}
		if summary.Behind != 1 || w.leaseDocuments()["0"].continuation != oldContinuation {
			t.Errorf("%+v, lease at %s after %s", summary, w.leaseDocuments()["0"].continuation, oldContinuation)
		}
	})
}

// A poison document's key goes to the dead letter store before the position leaves the
// retention because of it.
func TestWaitingKeyLeavesTheRetentionByTheStore(t *testing.T) {
	inVersionsWorld(t, 1, nil, func(t *testing.T, w *world) {
		store, history := &memoryStore{}, &versionHistory{}
		good := history.handler()
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			for _, c := range b.Changes {
				if c.ID() == "poison" {
					return Failed(errPoison, c)
				}
			}
			return good(ctx, b)
		}, allVersions, withStore(store), unending, withoutLogger))
		defer stop()
		time.Sleep(time.Minute)
		history.put(w, "poison", 0)
		history.put(w, "doc", 0)
		time.Sleep(40 * time.Minute)
		if n := len(store.all()); n != 0 {
			t.Errorf("after 40 of 60 minutes %d changes are in the store", n)
		}
		time.Sleep(10 * time.Minute)
		if letters := store.all(); len(letters) != 1 || letters[0].Kind != RecordPostponed || letters[0].Attempts < 10 {
			t.Errorf("after 50 of 60 minutes the store has %+v", letters)
		}
	})
}

// A range that reads late tells that soft-deleted documents will expire before it reads them: by the
// shortest time to live that it has read. A function that begins with old documents is not late, and
// neither is one that has read everything, or whose container has no time to live.
func TestSoftDeletesThatExpireAreTold(t *testing.T) {
	for name, expires := range map[string]bool{"time to live is on": true, "time to live is off": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 1, func(t *testing.T, w *world) {
				w.dropContainer("items")
				definition := cosmos.ContainerDefinition{ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}}
				if perDocument := -1; expires {
					definition.DefaultTTL = &perDocument
				}
				must(t, w.client().CreateContainer(t.Context(), "db", definition))
				logger, log := recordLog(slog.LevelError)
				var isBroken atomic.Bool
				softDelete := func(id string, ttl int) {
					_, err := w.items.Upsert(t.Context(), cosmos.NewPartitionKey(id), map[string]any{"id": id, "player": id, "isDeleted": true, "ttl": ttl})
					must(t, err)
				}
				softDelete("gone", 200*3600)
				w.writeMany("old", 30)
				time.Sleep(101 * time.Hour)
				isBroken.Store(true)
				host := w.host("a", func(ctx context.Context, _ Batch) error {
					for isBroken.Load() && ctx.Err() == nil { // the sink takes nothing
						time.Sleep(time.Second)
					}
					return ctx.Err()
				}, func(f *Function, o *Options) {
					f.SoftDeleteProperty, o.Logger, f.HandlerTimeout, f.MaxAhead, f.PageItems = "isDeleted", logger, 24*time.Hour, 5, 5
				})
				stop := w.startHost(host)
				defer stop()
				problem := func() string { return host.Status().Functions[0].Ranges[0].Problem }
				check := func(when, says string) {
					t.Helper()
					if got := problem(); says == "" && strings.Contains(got, "late") || says != "" && expires != strings.Contains(got, says) {
						t.Errorf("%s: %q", when, got)
					}
				}
				time.Sleep(time.Minute)
				check("a function that begins with old documents", "")
				isBroken.Store(false)
				time.Sleep(5 * time.Minute)
				softDelete("forever", -1)
				softDelete("a", 7200)
				softDelete("b", 3600)
				time.Sleep(time.Minute)
				isBroken.Store(true)
				w.write("late", "late")
				time.Sleep(40 * time.Minute)
				check("everything was read", "")
				w.writeMany("more", 30)
				time.Sleep(20 * time.Minute)
				check("after 20 of 60 minutes", "")
				time.Sleep(20 * time.Minute)
				check("after 40 of 60 minutes", "the range is read 40m0s late, and documents that are marked by isDeleted live for 1h0m0s only: in 20m0s the first deletes will be lost")
				time.Sleep(30 * time.Minute)
				check("after 70 minutes", "deletes that have expired are lost")
				isBroken.Store(false)
				time.Sleep(5 * time.Minute)
				if lines := log.FilterMessage("range falls behind the deletes").Len(); expires != (lines > 0) || lines > 6 { // while it reads what is old
					t.Errorf("%d log lines", lines)
				}
				if got := problem(); got != "" {
					t.Errorf("after the changes were handled: %q", got)
				}
			})
		})
	}
}
