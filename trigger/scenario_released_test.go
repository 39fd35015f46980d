package trigger

import (
	"fmt"
	"testing"
	"time"
)

// A range with a change each 700 ms is polled often. So is it after it has moved to another host, also
// if that host's first poll finds nothing.
func TestNextOwnerPollsBusyRangeAsOften(t *testing.T) {
	const pause = 700 * time.Millisecond
	inWorld(t, 4, func(t *testing.T, w *world) {
		stopA := w.startHost(w.host("a", w.recorder("a")))
		written := 0
		work := func(seconds int) (latest time.Duration) {
			for range time.Duration(seconds) * time.Second / pause {
				began := time.Now()
				w.writeMany(fmt.Sprint("doc-", began.UnixNano(), "-"), 24)
				for written += 24; w.deliveredDocuments() < written; {
					time.Sleep(10 * time.Millisecond)
				}
				latest = max(latest, time.Since(began))
				time.Sleep(pause - min(time.Since(began), pause))
			}
			return latest
		}
		work(20)
		stopB := w.startHost(w.host("b", w.recorder("b")))
		if latest := work(40); latest > 1100*time.Millisecond { // the requester looks for the release up to 900 ms later
			t.Errorf("a change was delivered after %v", latest)
		}
		if got := w.leasesByOwner(); got["b"] != 2 {
			t.Errorf("owners %v", got)
		}
		stopA()
		stopB()
		w.checkComplete(0)
	})
}
