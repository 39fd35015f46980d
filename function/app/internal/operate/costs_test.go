package operate

import (
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/units"
)

// Each host writes what it has measured into all of its leases: the newest counts, once.
func TestMeasuredUnitsCountEachHostOnce(t *testing.T) {
	now := time.Now()
	lease := func(host string, age time.Duration, pages, write float64) trigger.Lag {
		return trigger.Lag{Renewed: now.Add(-age), Units: &units.Host{ID: host, Hourly: units.Hourly{Pages: pages}, LeaseWrite: write}}
	}
	sum, hosts, write := measuredUnits([]trigger.Lag{
		lease("a", 3*time.Second, 100, 15), lease("a", time.Second, 110, 16), lease("a", 9*time.Second, 90, 14),
		lease("b", 5*time.Second, 20, 15), lease("gone", 2*time.Hour, 1000, 99), {Renewed: now},
	}, now)
	if sum.Pages != 130 || hosts != 2 || write != 16 {
		t.Errorf("%v for pages of %d hosts, %v a lease write, want 130 of 2, 16", sum.Pages, hosts, write)
	}
}
