package lease

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/schedule"
)

// testbed is an embedded account with a monitored container and a lease
// container, in a synctest bubble: time is virtual.
type testbed struct {
	t       *testing.T
	account *emulator.Account
	client  *cosmos.Client

	mu     sync.Mutex
	before func(*http.Request)  // called before each request, or nil
	after  func(*http.Response) // called after each answer, or nil
}

func (b *testbed) Do(r *http.Request) (*http.Response, error) {
	b.mu.Lock()
	onRequest, onResponse := b.before, b.after
	b.mu.Unlock()
	if onRequest != nil {
		onRequest(r)
	}
	resp, err := b.account.Do(r)
	if err == nil && onResponse != nil {
		onResponse(resp)
	}
	return resp, err
}

func (b *testbed) setBefore(onRequest func(*http.Request)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.before = onRequest
}

func (b *testbed) setAfter(onResponse func(*http.Response)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.after = onResponse
}

func withTestbed(t *testing.T, ranges int, test func(t *testing.T, b *testbed)) {
	withTestbedOf(t, nil, ranges, test)
}

func withTestbedOf(t *testing.T, options *emulator.Options, ranges int, test func(t *testing.T, b *testbed)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(options)
		must(t, err)
		defer account.Close()
		b := &testbed{t: t, account: account}
		credential, err := cosmos.KeyCredential(emulator.Key)
		must(t, err)
		b.client, err = cosmos.NewClient(account.Endpoint(), credential, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: b}})
		must(t, err)
		must(t, b.client.CreateDatabase(t.Context(), "db"))
		must(t, b.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/key"}}, Throughput: ranges * 10_000,
		}))
		must(t, b.client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
		}))
		test(t, b)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// set makes the set of one host, which begins new leases at position "start".
func (b *testbed) set(owner string, change ...func(*Config)) *Set {
	cfg := Config{
		Leases: b.client.Container("db", "leases"), Monitored: b.client.Container("db", "items"),
		Prefix: "test", Function: "test", Owner: owner, Incarnation: owner + "/process",
		AcquireInterval: 13 * time.Second, RenewInterval: 17 * time.Second, Expiration: time.Minute,
		AuditInterval: 5 * time.Minute, StopGrace: 10 * time.Second, PollDelay: 5 * time.Second,
		StartToken: func(_ context.Context, _ Part, since time.Time) (string, error) {
			if since.IsZero() {
				return `"start"`, nil
			}
			return "", nil
		},
		Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range change {
		c(&cfg)
	}
	return NewSet(cfg)
}

func (b *testbed) prepared(owner string) *Set {
	b.t.Helper()
	s := b.set(owner)
	must(b.t, s.Prepare(b.t.Context()))
	return s
}

// leases lists all leases by token.
func (b *testbed) leases(s *Set) map[string]*Lease {
	b.t.Helper()
	list, _, err := s.store.listLeases(b.t.Context())
	must(b.t, err)
	found := map[string]*Lease{}
	for _, l := range list {
		found[l.token] = l
	}
	return found
}

func (b *testbed) acquire(s *Set, token string) *Held {
	b.t.Helper()
	held, err := s.Acquire(b.t.Context(), b.t.Context(), b.leases(s)[token], nil, false)
	must(b.t, err)
	return held
}

// run writes a held lease until the end of the test, or stop.
func (b *testbed) run(held *Held) (stop func()) {
	tasks := schedule.New()
	held.Start(b.t.Context(), schedule.NewTurns(tasks))
	stop = sync.OnceFunc(func() {
		held.Stop()
		tasks.Close()
	})
	b.t.Cleanup(stop)
	return stop
}

// steal writes another owner into a lease.
func (b *testbed) steal(s *Set, token, owner string) {
	b.t.Helper()
	l := b.leases(s)[token].clone()
	l.owner = owner
	must(b.t, s.store.replaceLease(b.t.Context(), l))
}

// split splits a range and waits until the account lists its children.
func (b *testbed) split(id string) (children []string) {
	b.t.Helper()
	children, err := b.account.Split("db", "items", id)
	must(b.t, err)
	time.Sleep(time.Minute)
	return children
}

func (b *testbed) checkCoverage(s *Set) {
	b.t.Helper()
	ranges, err := s.ranges.refresh(b.t.Context())
	must(b.t, err)
	list, invalid, err := s.store.listLeases(b.t.Context())
	must(b.t, err)
	if found := coverageGaps(ranges, list, invalid, s.store.idPrefix); len(found) > 0 {
		b.t.Errorf("coverage gaps: %v", found)
	}
}
