package trigger

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

func TestHostsShareLeasesEqually(t *testing.T) {
	inWorld(t, 8, func(t *testing.T, w *world) {
		stopA := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(time.Minute)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		for i := range 20 {
			w.writeMany(fmt.Sprint("doc", i, "-"), 5)
			time.Sleep(10 * time.Second)
		}
		held := map[string]int{}
		for _, l := range w.leaseDocuments() {
			held[l.owner]++
		}
		if held["a"] != 4 || held["b"] != 4 {
			t.Errorf("leases are shared as %v", held)
		}
		stopA()
		w.writeMany("late", 20)
		time.Sleep(time.Minute)
		stopB()
		w.checkComplete(0) // handed over after the running batch
	})
}

// Host a may hold fewer leases than its share. Host b takes the rest, although that is
// more than its own share.
func TestOtherHostTakesLeasesBeyondMaxLeases(t *testing.T) {
	inWorld(t, 4, func(t *testing.T, w *world) {
		stopA := w.startHost(w.host("a", w.recorder("a"), func(_ *Function, o *Options) { o.MaxLeases = 1 }))
		time.Sleep(time.Second)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		w.writeMany("doc", 40)
		time.Sleep(30 * time.Minute)
		if got := w.leasesByOwner(); got["a"] != 1 || got["b"] != 3 {
			t.Errorf("owners %v", got)
		}
		w.checkComplete(0)
		stopA()
		stopB()
	})
}

func TestAbandonedLeaseIsAcquiredAfterExpiration(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 5)
		dead := newLeaseDocument(w.leasePrefix(), "0", "", "FF")
		dead.owner = "gone"
		w.createLease(dead)
		stop := w.startHost(w.host("a", w.recorder("a")))
		time.Sleep(55 * time.Second)
		if got := w.deliveryCount(); got != 0 {
			t.Errorf("%d delivered from a lease that may still be held", got)
		}
		time.Sleep(25 * time.Second)
		if got := w.deliveryCount(); got != 5 {
			t.Errorf("%d delivered after the expiry, want 5", got)
		}
		stop()
		if got := w.leaseDocuments()["0"].epoch(); got < firstEpoch+55 {
			t.Errorf("epoch %d", got)
		}
	})
}

func TestEpochRisesWithEachAcquisition(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 3 {
			w.writeMany(fmt.Sprint("doc", i), 1)
			_, err := w.host(fmt.Sprint("h", i), w.recorder("x")).Drain(t.Context())
			must(t, err)
		}
		for i, d := range w.delivered {
			if d.epoch != firstEpoch+int64(i+1) {
				t.Errorf("delivery %d has epoch %d", i, d.epoch)
			}
		}
	})
}

// The owner of a requested lease finishes the running batch: its handler is not
// cancelled, and no change is delivered twice.
func TestHandoverWaitsForRunningBatch(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("doc", 40)
		var mu sync.Mutex
		disturbed, overlapped := 0, 0
		slow := func(owner string) Handler {
			record := w.recorder(owner)
			return func(ctx context.Context, b Batch) error {
				requestedBefore := w.leaseDocuments()[b.Range.ID].properties[handoverProperty]
				if err := backoff.Sleep(ctx, 25*time.Second); err != nil {
					mu.Lock()
					disturbed++
					mu.Unlock()
					return err
				}
				if requestedBefore == "" && w.leaseDocuments()[b.Range.ID].properties[handoverProperty] != "" {
					mu.Lock()
					overlapped++
					mu.Unlock()
				}
				return record(ctx, b)
			}
		}
		small := func(f *Function, _ *Options) { f.MaxItemsPerInvocation = 2 }
		stopA := w.startHost(w.host("a", slow("a"), small))
		time.Sleep(40 * time.Second)
		stopB := w.startHost(w.host("b", slow("b"), small))
		time.Sleep(10 * time.Minute)
		owners := map[string]bool{}
		for _, l := range w.leaseDocuments() {
			owners[l.owner] = true
		}
		if disturbed > 0 || overlapped == 0 || len(owners) != 2 {
			t.Errorf("%d batches in work disturbed; %d requests came during one; leases owned by %v", disturbed, overlapped, owners)
		}
		stopA()
		stopB()
		w.checkComplete(0)
	})
}

// In a lease container that is partitioned by partitionKey, two documents may name one
// range, since some releases of .NET used random partition keys. Each of two hosts
// holds one of the documents. One host releases its document, and the other keeps
// the range. So it is if both processes have one owner name.
func TestDuplicateLeaseIsHandedOver(t *testing.T) {
	t.Run("two owners", func(t *testing.T) { handOverDuplicate(t, "a", "b") })
	t.Run("one owner name", func(t *testing.T) { handOverDuplicate(t, "a", "a") })
}

func handOverDuplicate(t *testing.T, first, second string) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.recreateContainer("leases", "/partitionKey")
		w.writeMany("a", 10)
		defer w.startHost(w.host(first, w.recorder("a")))()
		time.Sleep(time.Minute)

		lease := w.leaseDocuments()["0"]
		doc := lease.encode()
		doc["partitionKey"], doc["Owner"] = "second", nil
		doc["properties"] = map[string]string{epochProperty: strconv.FormatInt(lease.epoch()+1, 10)}
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey("second"), doc)
		must(t, err)
		defer w.startHost(w.host(second, w.recorder("b")))()
		time.Sleep(2 * time.Minute)

		w.mu.Lock()
		var reasons []CloseReason
		for _, e := range w.events {
			if e.Kind == EventReleased {
				reasons = append(reasons, e.Reason)
			}
		}
		w.delivered = nil
		w.mu.Unlock()
		if got := fmt.Sprint(reasons); got != "[handed over]" {
			t.Errorf("ranges were closed: %s, want [handed over]", got)
		}
		w.writeMany("b", 10)
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.delivered {
			if d.owner != "b" {
				t.Errorf("%s delivered %s; the range is b's", d.owner, d.doc.ID)
			}
		}
		if len(w.delivered) != 10 {
			t.Errorf("%d delivered, want 10", len(w.delivered))
		}
	})
}
