package trigger

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"
)

// Host a has all ranges, and seven hosts start within a second, with requests of 15 ms. They have
// equal shares after a look at each other, one renewal and the release, and no lease moves twice.
func TestHostsThatStartTogetherMoveEachLeaseOnce(t *testing.T) {
	const ranges, hosts = 64, 8
	inWorld(t, ranges, func(t *testing.T, w *world) {
		network := hostNetwork{w, func(*http.Request) (*http.Response, error, bool) {
			time.Sleep(15 * time.Millisecond)
			return nil, nil, false
		}}
		start := func(i int) (stop func()) {
			owner := fmt.Sprint("host", i)
			return w.startHost(w.hostOn(network, owner, w.recorder(owner), func(_ *Function, o *Options) { o.LeaseRenewInterval = 2 * time.Second }))
		}
		stops := []func(){start(0)}
		time.Sleep(time.Minute)
		for i := 1; i < hosts; i++ {
			stops = append(stops, start(i))
			time.Sleep(time.Second / hosts)
		}
		began := time.Now()
		isBalanced := func() bool {
			counts := w.leasesByOwner()
			return len(counts) == hosts && slices.Max(slices.Collect(maps.Values(counts))) == ranges/hosts
		}
		for !isBalanced() && time.Since(began) < time.Minute {
			time.Sleep(time.Second / 4)
		}
		took, acquired := time.Since(began), len(w.eventsOf(EventAcquired))-ranges
		if took > 10*time.Second || acquired != ranges-ranges/hosts {
			t.Errorf("%d leases moved in %v; at the end %v", acquired, took, w.leasesByOwner())
		}
		for _, stop := range stops {
			stop()
		}
	})
}
