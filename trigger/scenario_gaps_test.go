package trigger

import (
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestDeletedLeaseIsCreatedAgain(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		stop := w.startHost(w.host("a", w.recorder("a")))
		w.writeMany("doc", 20)
		time.Sleep(time.Minute)
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		time.Sleep(7 * time.Minute)
		w.writeMany("later", 20)
		time.Sleep(time.Minute)
		if got := w.leaseDocuments()["0"]; got == nil || got.owner != "a" {
			t.Errorf("lease is %+v", got)
		}
		stop()
		w.checkComplete(20) // the lost lease's range is read again from its start
	})
}

func TestDeletedLeaseOfFunctionFromNowStartsAtBootstrap(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("old", 10)
		time.Sleep(time.Minute)
		stop := w.startHost(w.host("a", w.recorder("a"), func(f *Function, _ *Options) { f.StartFrom = FromNow() }))
		time.Sleep(time.Minute)
		w.written = map[string]int{}
		w.writeMany("seen", 10)
		time.Sleep(time.Minute)
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		w.writeMany("unseen", 10)
		time.Sleep(12 * time.Minute)
		stop()
		w.checkComplete(20)
		for _, d := range w.delivered {
			if strings.HasPrefix(d.doc.ID, "old") {
				t.Fatalf("%s is from before the bootstrap", d.doc.ID)
			}
		}
	})
}

func TestShortLivedProcessesFillGap(t *testing.T) {
	inWorld(t, 2, func(t *testing.T, w *world) {
		drain := func(owner string) {
			_, err := w.host(owner, w.recorder("a")).Drain(t.Context())
			must(t, err)
		}
		drain("a")
		l := w.leaseDocuments()["0"]
		_, err := w.leases.Delete(t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
		must(t, err)
		w.writeMany("doc", 20)
		drain("b")
		drain("c")
		w.checkComplete(0)
	})
}
