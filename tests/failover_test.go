package tests

import (
	"net/http"
	"testing"

	"halley/tests/history"
	"halley/tests/long"
)

// failOver moves the writes of the account to a region, or those of all ranges of a container.
func (a *account) failOver(t *testing.T, region, kind string, containers ...string) {
	t.Helper()
	if len(containers) == 0 {
		a.manage(t, http.MethodPost, "failover", map[string]string{"region": region, "kind": kind}, nil)
	}
	for _, container := range containers {
		ranges := 1
		if container == results {
			ranges = len(a.ranges(t))
		}
		for i := range ranges {
			id := "0"
			if container == results {
				id = a.ranges(t)[i].ID
			}
			a.manage(t, http.MethodPost, "failover", map[string]string{
				"region": region, "kind": kind, "database": database, "container": container, "range": id,
			}, nil)
		}
	}
}

// deliversMore waits until hosts have delivered so many changes more.
func (r *record) deliversMore(t *testing.T, changes int) {
	t.Helper()
	count := func() (n int) {
		for _, e := range r.events(t) {
			if e.Kind == history.Delivery {
				n++
			}
		}
		return n
	}
	wanted := count() + changes
	eventually(t, "deliveries go on", func() bool { return count() >= wanted })
}

// Two hosts work under load while the ranges of the leases, those of the monitored container and the
// account fail over, and a region falls silent: every change is delivered, in the order of its key.
// The regions have no lag, so that none of the failovers loses a write.
func TestFleetFollowsFailovers(t *testing.T) {
	long.Only(t, "takes about fifteen seconds; TestFleetLosesNothing has one region")
	t.Parallel()
	const west, north = "West Europe", "North Europe"
	a := startAccount(t, 4, "--region", west, "--region", north, "--partition-failover")
	r := newRecord(t)
	stop := a.load(r).start(t)
	a.recorder(t, "first", r)
	second := a.recorder(t, "second", r)
	r.deliveredBy(t, "first")
	r.deliveredBy(t, "second")
	for _, step := range []struct {
		name string
		fail func()
	}{
		{"leases, planned", func() { a.failOver(t, north, "planned", leases) }},
		{"leases, unplanned", func() { a.failOver(t, west, "unplanned", leases) }},
		{"monitored, planned", func() { a.failOver(t, north, "planned", results) }},
		{"monitored, unplanned", func() { a.failOver(t, west, "unplanned", results) }},
		{"account", func() { a.failOver(t, north, "unplanned") }},
		{"a host is killed", func() {
			a.failOver(t, west, "unplanned", leases)
			second.kill()
			a.recorder(t, "third", r)
		}},
		{"a region is silent", func() {
			a.manage(t, http.MethodPost, "faults", map[string]any{"region": north, "drop": "before"}, nil)
			a.failOver(t, west, "unplanned")
		}},
	} {
		t.Log(step.name)
		step.fail()
		r.deliversMore(t, 100)
	}
	stop()
	report := r.settled(t)
	passes(t, report)
	if report.Hosts != 3 {
		t.Errorf("%d hosts: the test did not do its work", report.Hosts)
	}
}
