package trigger

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// A host that reads a backlog shares the container's throughput with the application that writes
// to it: it slows down when the service throttles it.
func TestBacklogLeavesThroughputToTheApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const units, backlog, perSecond = 1000, 6000, 40
		account, err := emulator.New(&emulator.Options{RU: units})
		must(t, err)
		defer account.Close()
		w := &world{t: t, account: account, written: map[string]int{}}
		client := w.client()
		must(t, client.CreateDatabase(t.Context(), "db"))
		w.createContainer("items", "/player")
		w.createContainer("leases", "/id")
		w.items, w.leases = client.Container("db", "items"), client.Container("db", "leases")
		w.writeMany("old", backlog)

		began := time.Now()
		stop := w.startHost(w.host("a", w.recorder("a")))
		refused, writes := 0, 0
		for ; w.deliveredDocuments() < backlog; writes++ {
			id := fmt.Sprint("new", writes)
			_, err := w.items.Upsert(cosmos.WithoutThrottleRetries(t.Context()), cosmos.NewPartitionKey(id), document{ID: id, Player: id})
			if throttled, _ := cosmos.IsThrottled(err); throttled {
				refused++
			} else {
				must(t, err)
			}
			time.Sleep(time.Second / perSecond)
		}
		if took := time.Since(began); refused > writes/3 || took > 2*backlog/units*time.Second {
			t.Errorf("%d of %d writes were refused while the backlog was read for %v", refused, writes, took)
		}
		stop()
		w.checkComplete(0)
	})
}
