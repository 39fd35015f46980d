package trigger

import (
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
)

func TestRunDeliversAndCheckpoints(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		w.writeMany("before", 100)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		w.writeMany("after", 100)
		time.Sleep(10 * time.Second)
		w.checkComplete(0)
		if got := w.deliveryCount(); got != 200 {
			t.Errorf("%d delivered, want 200", got)
		}
		stop()
		for token, l := range w.leaseDocuments() {
			if l.owner != "" || l.continuation == "" || l.epoch() != firstEpoch+1 {
				t.Errorf("lease %s after the stop: owner %q, continuation %q, epoch %d", token, l.owner, l.continuation, l.epoch())
			}
		}
	})
}

func TestRestartContinuesAtCheckpoint(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("one", 50)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(20 * time.Second)
		stop()
		w.writeMany("two", 50)
		stop = w.startHost(w.host("b", w.recorder("b")))
		time.Sleep(20 * time.Second)
		stop()
		w.checkComplete(0)
	})
}

func TestResetLeasesStartsAgain(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 20)
		for range 2 {
			_, err := w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.ResetLeases = true }).Drain(t.Context())
			must(t, err)
		}
		if got := w.deliveryCount(); got != 40 {
			t.Errorf("%d delivered, want all twice", got)
		}
	})
}

func TestMissingContainerEndsRun(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		h := w.host("a", w.recorder("a"), func(f *Function, _ *Options) {
			f.Container = w.client().Container("db", "nothing")
		})
		err := h.Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "nothing") {
			t.Errorf("run ended with %v", err)
		}
	})
}

func TestLeaseContainerWithOtherPartitionKeyIsRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		must(t, w.client().CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "wrong", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/leasePk"}},
		}))
		client := w.client()
		h, err := New(client.Container("db", "wrong"), []Function{{FeedSource: FeedSource{Name: "test", Container: w.items}, Handler: w.recorder("a")}}, nil)
		must(t, err)
		if err := h.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "partition key /id") {
			t.Errorf("run ended with %v", err)
		}
	})
}

// A host that makes no progress with a range waits longer each time before it
// acquires the range again.
func TestCooldownDoublesUpToLimit(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		r := w.host("a", w.recorder("a")).functionRunners[0]
		must(t, r.prepareLeases(t.Context()))
		leases, err := r.listCandidates(t.Context())
		must(t, err)
		l := leases[0]
		worker, err := r.acquireLease(t.Context(), l, false)
		must(t, err)
		for i, want := range []int{2, 4, 8, 8} {
			r.workerEnded(worker, &delivery.HungError{})
			cooldown := time.Until(r.coolingRanges["0"].retryAt)
			if cooldown != time.Duration(want)*r.host.options.LeaseAcquireInterval || !r.coolsDown(l) {
				t.Errorf("cooldown %d is %s, want %d acquire intervals", i+1, cooldown, want)
			}
			time.Sleep(cooldown)
			if r.coolsDown(l) {
				t.Errorf("cooldown %d does not end", i+1)
			}
		}
		r.workerEnded(worker, feed.ErrCaughtUp)
		if len(r.coolingRanges) > 0 {
			t.Error("a range that caught up still cools down")
		}
	})
}
