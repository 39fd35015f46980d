package lease

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func TestPrepareCreatesEachLeaseOnce(t *testing.T) {
	withTestbed(t, 3, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		leases := b.leases(s)
		if len(leases) != 3 || s.Since().IsZero() {
			t.Fatalf("leases %v since %v", leases, s.Since())
		}
		for token, l := range leases {
			if l.continuation != `"start"` || l.owner != "" || l.byKeys || !l.span.isKnown() {
				t.Errorf("lease %s: %+v", token, l)
			}
		}
		held := b.acquire(s, "0")
		time.Sleep(time.Hour)
		secondSet := b.prepared("b")
		if !secondSet.Since().Equal(s.Since()) || b.leases(secondSet)["0"].Epoch() != held.Epoch() {
			t.Errorf("since %v and %v", s.Since(), secondSet.Since())
		}
		if !strings.HasPrefix(secondSet.IDPrefix(), "test") || slices.Compare(secondSet.Monitored().PartitionKey.Paths, []string{"/key"}) != 0 {
			t.Errorf("prefix %q, monitored %+v", secondSet.IDPrefix(), secondSet.Monitored())
		}
		b.checkCoverage(s)
	})
}

func TestPrepareResetsOnce(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		oldTime := b.prepared("a").Since()
		time.Sleep(time.Minute)
		s := b.set("a", func(c *Config) { c.Reset = true })
		must(t, s.Prepare(t.Context()))
		since := s.Since()
		if !since.After(oldTime) {
			t.Errorf("created %v, and again %v", oldTime, since)
		}
		time.Sleep(time.Minute)
		must(t, s.Prepare(t.Context()))
		if !s.Since().Equal(since) {
			t.Errorf("reset twice: %v, %v", since, s.Since())
		}
	})
}

func TestPrepareRejectsLeasesOfAnotherMode(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		b.prepared("a")
		s := b.set("b", func(c *Config) { c.Mode = cosmos.ModeAllVersions })
		for range 2 { // an error is not remembered as success
			if err := s.Prepare(t.Context()); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), modeAllVersions) {
				t.Errorf("prepared with %v", err)
			}
		}
	})
}

func TestPrepareRejectsUnusableLeaseContainer(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.set("a", func(c *Config) { c.Leases = b.client.Container("db", "items") })
		if err := s.Prepare(t.Context()); !errors.Is(err, ErrSetup) || !strings.Contains(err.Error(), "partition key /id") {
			t.Errorf("prepared with %v", err)
		}
		s = b.set("a", func(c *Config) { c.Leases = b.client.Container("db", "missing") })
		if err := s.Prepare(t.Context()); !errors.Is(err, ErrSetup) {
			t.Errorf("prepared with %v", err)
		}
	})
}

// A bootstrap that takes longer than its lock lasts creates nothing after it, and
// starts again.
func TestBootstrapStartsAgainWhenItsLockExpires(t *testing.T) {
	withTestbed(t, 2, func(t *testing.T, b *testbed) {
		var calls atomic.Int64 // ranges are looked up in parallel
		s := b.set("a", func(c *Config) {
			c.StartToken = func(ctx context.Context, _ Part, _ time.Time) (string, error) {
				if calls.Add(1) == 1 {
					<-ctx.Done()
					return "", ctx.Err()
				}
				return `"start"`, nil
			}
		})
		began := time.Now()
		must(t, s.Prepare(t.Context()))
		if d := time.Since(began); d < lockTTL || d > 2*lockTTL || calls.Load() != 3 {
			t.Errorf("prepared after %v with %d calls", d, calls.Load())
		}
		b.checkCoverage(s)
	})
}

func TestHostsBootstrapTogether(t *testing.T) {
	withTestbed(t, 4, func(t *testing.T, b *testbed) {
		done := make(chan error)
		for _, owner := range []string{"a", "b", "c"} {
			go func() { done <- b.set(owner).Prepare(t.Context()) }()
		}
		for range 3 {
			must(t, <-done)
		}
		if leases := b.leases(b.prepared("d")); len(leases) != 4 {
			t.Errorf("leases %v", leases)
		}
	})
}

func TestAuditFillsGapTheSecondTime(t *testing.T) {
	withTestbed(t, 2, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		deleted := b.leases(s)["1"]
		must(t, s.store.deleteLease(t.Context(), deleted))
		must(t, s.AuditIfDue(t.Context()))
		time.Sleep(5 * time.Minute)
		must(t, s.AuditIfDue(t.Context()))
		if l := b.leases(s)["1"]; l != nil {
			t.Errorf("filled at once: %+v", l)
		}
		began := time.Now()
		must(t, s.AuditIfDue(t.Context()))
		l := b.leases(s)["1"]
		if l == nil || time.Since(began) != secondAuditDelay {
			t.Fatalf("lease %+v after %v", l, time.Since(began))
		}
		if l.continuation != "" || l.Epoch() <= deleted.Epoch() {
			t.Errorf("filled at %q with epoch %d after %d", l.continuation, l.Epoch(), deleted.Epoch())
		}
	})
}

// Each write of a lease names the version that it was made from; a write from an
// older version changes nothing.
func TestStaleWritesAreRefused(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		stale := b.leases(s)["0"]
		b.steal(s, "0", "b")
		for name, write := range map[string]func() error{
			"checkpoint": func() error { return s.store.replaceLease(t.Context(), stale.clone()) },
			"retire":     func() error { return s.store.deleteLease(t.Context(), stale) },
			"request":    func() error { _, err := s.RequestHandover(t.Context(), stale); return err },
		} {
			if err := write(); cosmos.Classify(err) != cosmos.OutcomeConflict {
				t.Errorf("%s from an older version: %v", name, err)
			}
		}
		if _, err := s.Acquire(t.Context(), t.Context(), stale, nil, false); !errors.Is(err, ErrLost) {
			t.Errorf("acquired with %v", err)
		}
		if l := b.leases(s)["0"]; l == nil || l.owner != "b" {
			t.Errorf("lease %+v", l)
		}
	})
}

func TestCreateKeepsExistingLease(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		later := b.leases(s)["0"].clone()
		later.continuation = `"9"`
		must(t, s.store.createLease(t.Context(), later))
		if l := b.leases(s)["0"]; l.continuation != `"start"` {
			t.Errorf("the lease is at %s", l.continuation)
		}
	})
}

// A lease that is read back after a lost answer may have been acquired by an
// earlier request, at an unknown time.
func TestAcquisitionThatIsReadBackIsTrustedAfterNextWrite(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		listed := b.leases(s)["0"]
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Drop: emulator.DropAfter, Count: 1})
		remove := b.account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/colls/leases/docs/", Status: 400})
		if _, err := s.Acquire(t.Context(), t.Context(), listed, nil, false); err == nil {
			t.Fatal("acquired without an answer")
		}
		remove()
		time.Sleep(30 * time.Second)
		held, err := s.Acquire(t.Context(), t.Context(), listed, nil, false)
		must(t, err)
		if trusted, _ := held.writeState.isTrusted(held.trustedFor); trusted {
			t.Error("trusted before a write")
		}
		stop := b.run(held)
		must(t, held.WaitTrusted(t.Context()))
		stop()
	})
}

// A request that is under way when the caller's context ends still finishes; after
// that no request begins.
func TestAcquireFinishesItsRequest(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		listed := b.leases(s)["0"]
		ended, cancel := context.WithCancel(t.Context())
		b.setBefore(func(r *http.Request) {
			if r.Method == http.MethodPut {
				cancel()
			}
		})
		held, err := s.Acquire(ended, t.Context(), listed, nil, false)
		must(t, err)
		if _, err := s.Acquire(ended, t.Context(), b.leases(s)["0"], nil, false); !errors.Is(err, context.Canceled) {
			t.Errorf("acquired after the end of the context: %v", err)
		}
		if l := b.leases(s)["0"]; l.owner != "a" || held.Lease().owner != "a" {
			t.Errorf("lease %+v", l)
		}
	})
}

func TestThrottledAcquisitionIsNotRepeatedAfterStop(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		listed := b.leases(s)["0"]
		b.account.Inject(emulator.Fault{Method: http.MethodPut, Path: "/colls/leases/", Status: 429, RetryAfter: time.Second, Count: 1})
		stopped, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		began := time.Now()
		if _, err := s.Acquire(stopped, t.Context(), listed, nil, false); err == nil {
			t.Error("acquired after the stop")
		}
		if took := time.Since(began); took != 500*time.Millisecond {
			t.Errorf("returned after %v", took)
		}
		if l := b.leases(s)["0"]; l.owner != "" {
			t.Errorf("lease %+v", l)
		}
	})
}

func TestPlanCountsWorkingRangesAsOwn(t *testing.T) {
	withTestbed(t, 2, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		listed, err := s.Candidates(t.Context())
		must(t, err)
		steps, _ := s.Plan(listed, func(token string) bool { return token == "0" })
		if len(steps) != 1 || steps[0] != (Step{Token: "1"}) {
			t.Errorf("steps %v", steps)
		}
	})
}

// Another process with the name of this owner has leases of its own: they do not count
// against the most that this process takes.
func TestNamesakesDoNotCountAgainstMost(t *testing.T) {
	withTestbed(t, 3, func(t *testing.T, b *testbed) {
		namesake, s := b.prepared("a"), b.prepared("a")
		s.cfg.Limits.Max = 2
		b.acquire(namesake, "0")
		b.acquire(namesake, "1")
		plan := func(working ...string) []Step {
			listed, err := s.Candidates(t.Context())
			must(t, err)
			steps, _ := s.Plan(listed, func(token string) bool { return slices.Contains(working, token) })
			return steps
		}
		if steps := plan(); len(steps) != 1 || steps[0] != (Step{Token: "2"}) {
			t.Errorf("steps %v, want the free lease", steps)
		}
		if steps := plan("0", "1"); len(steps) != 0 {
			t.Errorf("steps %v of a process that has the most leases", steps)
		}

		time.Sleep(s.cfg.AcquireInterval + 2*time.Second) // any host may take the free lease now
		s.cfg.Limits.Max = 1
		_, err := b.prepared("b").RequestHandover(t.Context(), b.leases(s)["0"])
		must(t, err)
		if steps := plan("1"); len(steps) != 0 {
			t.Errorf("steps %v: the lease that b has requested is b's", steps)
		}
	})
}

// Only a live Halley owner understands a request; others are left alone.
func TestDuplicateIsRequestedFromLiveHalleyOwner(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name                string
		owner, incarnation  string
		age                 time.Duration
		requested, expected bool
	}{
		{"live Halley owner", "b", "b/1", 0, false, true},
		{"live .NET owner", "dotnet", "b/1", 0, false, false},
		{"dead owner", "b", "b/1", 2 * time.Minute, false, false},
		{"this process", "a", "a/1", 0, false, false},
		{"another process of this name", "a", "a/2", 0, false, true},
		{"no owner", "", "", 0, false, false},
		{"requested already", "b", "b/1", 0, true, false},
	}
	for _, test := range tests {
		l := &Lease{owner: test.owner, written: now.Add(-test.age), properties: map[string]string{
			incarnationProperty: test.incarnation, protocolProperty: "2",
		}}
		if test.requested {
			l = withHandoverRequest(l, "c", now)
		}
		if got := needsRequest(l, "a/1", now, time.Minute); got != test.expected {
			t.Errorf("%s: request %v", test.name, got)
		}
	}
}

func TestInspectWritesNothing(t *testing.T) {
	withTestbed(t, 2, func(t *testing.T, b *testbed) {
		if i, err := b.set("x").Inspect(t.Context()); err != nil || i.Created || i.Leases != nil || i.Gaps != nil {
			t.Errorf("before the first host: %+v, %v", i, err)
		}
		s := b.prepared("a")
		must(t, s.store.deleteLease(t.Context(), b.leases(s)["1"]))
		b.setBefore(func(r *http.Request) {
			query := r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/query+json"
			if r.Method != http.MethodGet && !query {
				t.Errorf("%s %s", r.Method, r.URL.Path)
			}
		})
		inspecting := b.set("x")
		i, err := inspecting.Inspect(t.Context())
		must(t, err)
		if !i.Created || !i.Since.Equal(s.Since()) || len(i.Leases) != 1 || len(i.Gaps) != 1 || i.Gaps[0].Token() != "1" {
			t.Errorf("inspected %+v", i)
		}
		if part, err := inspecting.Locate(t.Context(), i.Leases[0]); err != nil || part.Physical.ID != "0" {
			t.Errorf("located %+v, %v", part, err)
		}
	})
}

func TestChildrenOfSplitRange(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		s := b.prepared("a")
		heirs := b.split("0")
		must(t, s.RefreshRanges(t.Context()))
		children, err := s.Children(b.leases(s)["0"])
		must(t, err)
		if len(children) != 2 || children[0].token != heirs[0] || len(b.leases(s)) != 1 {
			t.Errorf("children %v", children)
		}
	})
}

// Two documents may name one range in a container that is keyed by partitionKey,
// since some .NET releases gave leases random ones.
func TestCandidatesRequestDuplicates(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		must(t, b.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "shared", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/partitionKey"}},
		}))
		shared := func(c *Config) { c.Leases = b.client.Container("db", "shared") }
		s, other := b.set("a", shared), b.set("b", shared)
		must(t, s.Prepare(t.Context()))
		must(t, other.Prepare(t.Context()))
		first := b.acquire(other, "0")
		second := first.Lease().clone()
		second.rest["partitionKey"] = quotedJSON("random")
		second.properties[epochProperty] = "1" // the older acquisition
		doc, err := second.document(timestampJSON(s.Now()))
		must(t, err)
		_, err = s.store.container.Create(t.Context(), cosmos.NewPartitionKey("random"), doc)
		must(t, err)

		candidates, err := s.Candidates(t.Context())
		must(t, err)
		if len(candidates) != 1 || candidates[0].Epoch() != first.Epoch() {
			t.Errorf("candidates %+v", candidates)
		}
		list, _, err := s.store.listLeases(t.Context())
		must(t, err)
		for _, l := range list {
			requester := handoverRequest(l, s.Now(), time.Minute)
			if duplicate := l.Epoch() == 1; len(list) != 2 || (requester == "a") != duplicate {
				t.Errorf("%d leases, epoch %d requested by %q", len(list), l.Epoch(), requester)
			}
		}
	})
}

// One read may answer 404 although the document is there.
func TestLeaseThatWasNotDeletedIsNotRestored(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		must(t, b.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "shared", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/partitionKey"}},
		}))
		s := b.set("a", func(c *Config) { c.Leases = b.client.Container("db", "shared") })
		must(t, s.Prepare(t.Context()))
		held := b.acquire(s, "0")
		second := held.Lease().clone()
		second.rest["partitionKey"], second.owner, second.continuation = quotedJSON("random"), "", `"1"`
		second.properties[epochProperty] = "1"
		doc, err := second.document(timestampJSON(s.Now()))
		must(t, err)
		_, err = s.store.container.Create(t.Context(), cosmos.NewPartitionKey("random"), doc)
		must(t, err)

		s.RecordLost(held.Lease())
		must(t, s.RestoreLost(t.Context()))
		list, _, err := s.store.listLeases(t.Context())
		must(t, err)
		for _, l := range list {
			if l.Epoch() != 1 && l.owner != "a" || l.Epoch() > held.Epoch() {
				t.Errorf("lease %+v", l)
			}
		}
	})
}

func TestNowIsTheClockOfTheService(t *testing.T) {
	withTestbed(t, 1, func(t *testing.T, b *testbed) {
		b.setAfter(func(r *http.Response) {
			r.Header.Set("Date", time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat))
		})
		s := b.prepared("a")
		for range 6 { // a step is believed when further answers have confirmed it
			time.Sleep(2 * time.Second)
			b.leases(s)
		}
		for _, now := range []time.Time{s.Now(), s.store.serviceNow()} {
			if d := time.Until(now).Round(time.Minute); d != 10*time.Minute {
				t.Errorf("%v from the wall clock of the host", d)
			}
		}
	})
}
