package tests

import (
	"testing"

	"halley/tests/history"
)

// recorder starts a host that records its deliveries. Its intervals are short
// enough for a takeover within the test.
func (a *account) recorder(t *testing.T, owner string, r *record, args ...string) *process {
	t.Helper()
	return start(t, owner, binaries.recorder, nil, append([]string{
		"-connection", a.connectionString(), "-database", database, "-container", results, "-leases", leases,
		"-history", r.path, "-owner", owner,
		"-poll", "100ms", "-acquire", "500ms", "-renew", "700ms", "-expiration", "2500ms",
	}, args...)...)
}

// deliveredBy waits until a host has delivered something.
func (r *record) deliveredBy(t *testing.T, owner string) {
	t.Helper()
	eventually(t, owner+" delivers", func() bool {
		for _, e := range r.events(t) {
			if e.Kind == history.Delivery && e.Host == owner {
				return true
			}
		}
		return false
	})
}

// Three hosts share sixteen ranges under load. One is killed, one stopped, one
// added, while ranges are split and merged and one call in forty fails: every
// change is delivered, in the order of its key.
func TestFleetLosesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about fifteen seconds")
	}
	t.Parallel()
	a := startAccount(t, 16)
	r := newRecord(t)
	stop := a.load(r).start(t)
	first := a.recorder(t, "first", r, "-delay", "5ms")
	second := a.recorder(t, "second", r, "-fail", "40")
	a.recorder(t, "third", r)
	for _, owner := range []string{"first", "second", "third"} {
		r.deliveredBy(t, owner)
	}
	a.split(t, 3)
	a.merge(t, 10)
	first.kill()
	a.split(t, 0)
	a.recorder(t, "fourth", r)
	r.deliveredBy(t, "fourth")
	a.merge(t, 0) // the children of the first split
	if code := second.terminate(t); code != 0 {
		t.Errorf("after SIGTERM a host exited with %d", code)
	}
	a.split(t, 7)
	a.merge(t, 4)
	eventually(t, "400 changes are written", func() bool {
		written := 0
		for _, e := range r.events(t) {
			if e.Kind == history.Write {
				written++
			}
		}
		return written >= 400
	})
	stop()
	report := r.settled(t)
	passes(t, report)
	if report.Hosts != 4 || report.Written < 400 {
		t.Errorf("%d hosts, %d changes: the test did not do its work", report.Hosts, report.Written)
	}
}

// The same with processes of halley run and the leaderboard: every handled change
// has its own board in Redis.
func TestRunFillsEveryBoard(t *testing.T) {
	if testing.Short() {
		t.Skip("takes about fifteen seconds")
	}
	t.Parallel()
	a := startAccount(t, 16)
	b := newBoard(t)
	r := newRecord(t)
	run := func(owner string) *process {
		settings := b.settings(a)
		settings["HALLEY_OWNER"] = owner
		return start(t, owner, binaries.halley, settings, "run")
	}
	stop := a.distinct(r).start(t)
	first, second := run("first"), run("second")
	run("third")
	eventually(t, "all three own leases", func() bool { return a.owners(t, "first", "second", "third") })
	a.split(t, 5)
	first.kill()
	a.merge(t, 11)
	run("fourth")
	eventually(t, "the fourth owns leases", func() bool { return a.owners(t, "fourth") })
	if code := second.terminate(t); code != 0 {
		t.Errorf("after SIGTERM a host exited with %d", code)
	}
	if a.owners(t, "second") {
		t.Error("a host that stopped in good order still owns leases")
	}
	a.split(t, 2)
	stop()
	b.complete(t, r)
	t.Logf("%d changes", len(r.events(t)))
}

// owners reports whether each of the hosts owns a lease.
func (a *account) owners(t *testing.T, names ...string) bool {
	t.Helper()
	owned := make(map[any]bool)
	for _, d := range a.documents(t, leases) {
		owned[d["Owner"]] = true
	}
	for _, name := range names {
		if !owned[name] {
			return false
		}
	}
	return true
}
