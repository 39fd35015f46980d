package simulation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// rig is an embedded account without faults, for measurements of whole hosts in
// virtual time. Each request takes the same time. The test's goroutine owns it; mu
// guards the fields that handlers use.
type rig struct {
	t       *testing.T
	account *emulator.Account
	latency time.Duration
	writer  *cosmos.Container
	hosts   sync.WaitGroup

	mu      sync.Mutex
	written map[string]time.Time
	handled map[string][]time.Time // ends of the calls that handled the document
	begun   map[string]time.Time   // of the first call with the document
	reads   []time.Time            // of the feed
}

// inRig runs a measurement in a bubble.
func inRig(t *testing.T, ranges int, latency time.Duration, measure func(r *rig)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{
			t: t, account: account, latency: latency,
			written: map[string]time.Time{}, handled: map[string][]time.Time{}, begun: map[string]time.Time{},
		}
		client := r.client(account)
		ctx := context.Background()
		for _, err := range []error{
			client.CreateDatabase(ctx, database),
			client.CreateContainer(ctx, database, cosmos.ContainerDefinition{
				ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/key"}}, Throughput: ranges * 10_000,
			}),
			client.CreateContainer(ctx, database, cosmos.ContainerDefinition{
				ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
			}),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		r.writer = client.Container(database, "items")
		measure(r)
		r.hosts.Wait()
		account.Close()
	})
}

func (r *rig) client(transport interface {
	Do(*http.Request) (*http.Response, error)
}) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	client, err := cosmos.NewClient(r.account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	if err != nil {
		r.t.Fatal(err)
	}
	return client
}

// write writes documents with a key each. Their ids are the prefix and a number.
func (r *rig) write(prefix string, n int) {
	for i := range n {
		r.writeOne(prefix+strconv.Itoa(i), prefix+strconv.Itoa(i))
	}
}

func (r *rig) writeOne(id, key string) {
	if _, err := r.writer.Upsert(context.Background(), cosmos.NewPartitionKey(key), document{ID: id, Key: key, Seq: 1}); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[id] = time.Now()
}

// countHandled returns the number of documents that were handled.
func (r *rig) countHandled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.handled)
}

// untilHandled waits until some documents are handled and returns the time.
func (r *rig) untilHandled(n int, patience time.Duration) time.Duration {
	began := time.Now()
	for r.countHandled() < n && time.Since(began) < patience {
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// machine is one process of a host, and the transport of its client.
type machine struct {
	rig  *rig
	cut  chan struct{} // closed when it is killed
	stop context.CancelFunc
}

// start starts a host with functions. It returns at once.
func (r *rig) start(owner string, functions ...trigger.Function) *machine {
	m := &machine{rig: r, cut: make(chan struct{})}
	client := r.client(m)
	for i := range functions {
		functions[i].Container = client.Container(database, "items")
		functions[i].StartFrom = trigger.FromBeginning()
		inner := functions[i].Handler
		functions[i].Handler = func(ctx context.Context, b trigger.Batch) error { return m.handle(ctx, b, inner) }
	}
	host, err := trigger.New(client.Container(database, "leases"), functions, &trigger.Options{Owner: owner})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	r.hosts.Go(func() { _ = host.Run(ctx) })
	return m
}

// kill ends a host as kill -9 does.
func (m *machine) kill() {
	close(m.cut)
	m.stop()
}

func (m *machine) isDead() bool {
	select {
	case <-m.cut:
		return true
	default:
		return false
	}
}

func (m *machine) Do(req *http.Request) (*http.Response, error) {
	if !m.pause(req.Context(), m.rig.latency/2) {
		return nil, errCut
	}
	if req.Header.Get("A-Im") != "" {
		m.rig.mu.Lock()
		m.rig.reads = append(m.rig.reads, time.Now())
		m.rig.mu.Unlock()
	}
	resp, err := m.rig.account.Do(req)
	if !m.pause(req.Context(), m.rig.latency/2) {
		if err == nil {
			resp.Body.Close()
		}
		return nil, errCut
	}
	return resp, err
}

// pause returns false if the host dies or the request ends.
func (m *machine) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return !m.isDead()
	case <-m.cut:
	case <-ctx.Done():
	}
	return false
}

// handle calls a function's handler. The calls of a dead host end with an error that
// nothing sees.
func (m *machine) handle(ctx context.Context, b trigger.Batch, inner trigger.Handler) error {
	ids := make([]string, len(b.Changes))
	m.rig.mu.Lock()
	for i, c := range b.Changes {
		var d document
		if err := c.Decode(&d); err != nil {
			m.rig.t.Error(err)
		}
		ids[i] = d.ID
		if _, known := m.rig.begun[d.ID]; !known && b.Function == counted {
			m.rig.begun[d.ID] = time.Now()
		}
	}
	m.rig.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- inner(ctx, b) }()
	select {
	case err := <-done:
		if err == nil && !m.isDead() && b.Function == counted {
			m.rig.mu.Lock()
			for _, id := range ids {
				m.rig.handled[id] = append(m.rig.handled[id], time.Now())
			}
			m.rig.mu.Unlock()
		}
		return err
	case <-m.cut:
		cancel()
		<-done
		return errCut
	}
}

// counted is the name of the function whose calls the rig counts.
const counted = "counted"

// taking returns a handler that works for some time.
func taking(d time.Duration) trigger.Handler {
	return func(ctx context.Context, _ trigger.Batch) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// failingOn returns a handler that fails on one key.
func failingOn(key string) trigger.Handler {
	return func(_ context.Context, b trigger.Batch) error {
		for _, c := range b.Changes {
			var d document
			if err := c.Decode(&d); err != nil || d.Key == key {
				return errors.Join(errOnPurpose, err)
			}
		}
		return nil
	}
}

// keeps judges one promise.
func keeps(t *testing.T, rule history.Rule, kept bool, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf("%s: %s", rule, fmt.Sprintf(format, args...))
	if kept {
		t.Log(text)
	} else {
		t.Error("BROKEN: " + text)
	}
}

// percentile returns a percentile of some durations.
func percentile(all []time.Duration, share float64) time.Duration {
	slices.Sort(all)
	return all[min(int(share*float64(len(all))), len(all)-1)]
}
