package trigger

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Host A sends the request that creates a lease of the bootstrap, and gets no answer. Its
// range splits, and A's next attempt creates leases for the halves and the marker. Then
// the first request arrives: its lease is retired unread.
func TestBootstrapLeaseCreatedLateIsRetiredUnread(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		w.writeMany("before", 20)
		var mu sync.Mutex
		var late []byte
		stop := w.startHost(w.hostOn(hostNetwork{w, func(r *http.Request) (*http.Response, error, bool) {
			mu.Lock()
			isFirst := late == nil && isLeaseCreate(r) && strings.Contains(r.Header.Get("X-Ms-Documentdb-Partitionkey"), `..0"`)
			if isFirst {
				late, _ = io.ReadAll(r.Body)
			}
			mu.Unlock()
			if isFirst {
				return loseRequest(r)
			}
			return nil, nil, false
		}}, "a", w.recorder("a")))
		time.Sleep(5 * time.Second)
		mu.Lock()
		request := late
		mu.Unlock()
		if len(request) == 0 {
			t.Fatal("the bootstrap has not created a lease for range 0")
		}
		heirs, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(3 * time.Minute)
		w.checkNoGaps()
		if leases := w.leaseDocuments(); leases["0"] != nil || leases[heirs[0]] == nil || leases[heirs[1]] == nil {
			t.Fatalf("leases %v", leases)
		}
		_, err = w.leases.Create(t.Context(), cosmos.NewPartitionKey(w.leasePrefix()+"..0"), request)
		must(t, err)
		w.writeMany("after", 20)
		time.Sleep(2 * time.Minute)
		stop()
		if l := w.leaseDocuments()["0"]; l != nil {
			t.Errorf("the late lease still exists: %+v", l)
		}
		w.checkNoGaps()
		w.checkComplete(0)
	})
}

// The account refuses to delete a document, so the lease of a range that has split stays as
// a tombstone. An operator deletes it and restores it from a backup: it stays a tombstone,
// and no host reads its range.
func TestRestoredTombstoneIsNotRead(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("before", 20)
		time.Sleep(time.Minute)
		w.account.Inject(emulator.Fault{Method: http.MethodDelete, Path: "/colls/leases/", Status: 403, Count: 1})
		_, err := w.account.Split("db", "items", "0")
		must(t, err)
		time.Sleep(time.Minute)
		backup := w.leaseDocuments()["0"]
		if backup == nil || backup.properties["halley.tombstone"] == "" {
			t.Fatalf("lease 0 is %+v", backup)
		}
		_, err = w.leases.Delete(t.Context(), backup.id, cosmos.NewPartitionKey(backup.id), "")
		must(t, err)
		w.createLease(backup)
		acquired := w.eventCount(EventAcquired)
		w.writeMany("after", 20)
		time.Sleep(5 * time.Minute)
		if n := w.eventCount(EventAcquired); n != acquired || w.leaseDocuments()["0"] == nil {
			t.Errorf("%d acquisitions after the restoration, the leases are %v", n-acquired, w.leaseDocuments())
		}
		stop()
		w.checkComplete(0)
	})
}
