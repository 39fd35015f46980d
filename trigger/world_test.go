package trigger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// world is an embedded account with a monitored container and a lease
// container, inside a synctest bubble: time is virtual.
type world struct {
	t       *testing.T
	account *emulator.Account
	items   *cosmos.Container
	leases  *cosmos.Container

	mu        sync.Mutex
	before    func(*http.Request) // sees each request ahead of the account; or nil
	sent      traffic
	written   map[string]int // newest version of each document
	delivered []delivered
	events    []Event
}

// delivery is one change as a handler saw it.
type delivered struct {
	owner   string
	token   string
	epoch   int64
	attempt int
	doc     document
	lsn     int64
}

type document struct {
	ID      string `json:"id"`
	Player  string `json:"player"`
	Version int    `json:"version"`
}

// inWorld runs test in a bubble, on a container with n ranges.
func inWorld(t *testing.T, ranges int, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer account.Close()
		w := &world{t: t, account: account, written: map[string]int{}}
		client := w.client()
		ctx := t.Context()
		must(t, client.CreateDatabase(ctx, "db"))
		must(t, client.CreateContainer(ctx, "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/player"}}, Throughput: ranges * 10_000,
		}))
		must(t, client.CreateContainer(ctx, "db", cosmos.ContainerDefinition{
			ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
		}))
		w.items, w.leases = client.Container("db", "items"), client.Container("db", "leases")
		found, err := w.items.Ranges(ctx)
		must(t, err)
		if len(found) != ranges {
			t.Fatalf("%d ranges, want %d", len(found), ranges)
		}
		test(t, w)
	})
}

// client is a connection of its own to the account.
func (w *world) client() *cosmos.Client { return w.clientOn(counted{w}) }

func (w *world) clientOn(t policy.Transporter) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(w.t, err)
	client, err := cosmos.NewClient(w.account.Endpoint(), cred, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: t},
	})
	must(w.t, err)
	return client
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write stores the next version of a document.
func (w *world) write(player, id string) {
	w.t.Helper()
	w.mu.Lock()
	version := w.written[id] + 1
	w.mu.Unlock()
	doc := document{ID: id, Player: player, Version: version}
	_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(player), doc)
	must(w.t, err)
	w.mu.Lock()
	w.written[id] = version
	w.mu.Unlock()
}

// fill writes one version of n documents, each with a key of its own.
func (w *world) fill(prefix string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		w.write(id, id)
	}
}

// record is a handler that writes down what it gets.
func (w *world) record(owner string) Handler {
	return func(_ context.Context, b Batch) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, c := range b.Changes {
			d := delivered{owner: owner, token: b.Range.ID, epoch: b.Epoch, attempt: b.Attempt, lsn: c.LSN}
			if err := json.Unmarshal(c.Document, &d.doc); err != nil {
				return err
			}
			w.delivered = append(w.delivered, d)
		}
		return nil
	}
}

// host makes a host with short names and the default intervals.
func (w *world) host(owner string, handler Handler, change ...func(*Function, *Options)) *Host {
	return w.hostOn(counted{w}, owner, handler, change...)
}

// observe records an event.
func (w *world) observe(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

func (w *world) hostOn(t policy.Transporter, owner string, handler Handler, change ...func(*Function, *Options)) *Host {
	w.t.Helper()
	client := w.clientOn(t)
	f := Function{Name: "test", Container: client.Container("db", "items"), Handler: handler, StartFrom: FromBeginning()}
	o := Options{Owner: owner, Logger: zaptest.NewLogger(w.t, zaptest.Level(zap.ErrorLevel)), Observers: []func(Event){w.observe}}
	for _, c := range change {
		c(&f, &o)
	}
	h, err := New(client.Container("db", "leases"), []Function{f}, &o)
	must(w.t, err)
	return h
}

// running starts a host; stop ends it in good order and waits for it.
func (w *world) running(h *Host) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run of %s: %v", h.Owner(), err)
		}
	}
}

// count is how many deliveries there were so far.
func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.delivered)
}

// documents is how many documents were delivered, however often.
func (w *world) documents() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[string]bool{}
	for _, d := range w.delivered {
		ids[d.doc.ID] = true
	}
	return len(ids)
}

func (w *world) happened(kind EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// complete checks that the newest version of every document was delivered,
// that the first deliveries of each document come in the order of its
// versions, and that no more than allowed came twice.
func (w *world) complete(allowed int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	newest := map[string]int{}
	seen := map[string]bool{}
	repeated := 0
	for _, d := range w.delivered {
		key := fmt.Sprint(d.doc.ID, "@", d.doc.Version)
		if seen[key] {
			repeated++
			continue
		}
		seen[key] = true
		if d.doc.Version < newest[d.doc.ID] {
			w.t.Errorf("%s: version %d first came after %d", d.doc.ID, d.doc.Version, newest[d.doc.ID])
		}
		newest[d.doc.ID] = max(newest[d.doc.ID], d.doc.Version)
	}
	var lost []string
	for id, version := range w.written {
		if newest[id] < version {
			lost = append(lost, fmt.Sprintf("%s@%d", id, version))
		}
	}
	slices.Sort(lost)
	if len(lost) > 0 {
		w.t.Errorf("%d of %d lost: %v", len(lost), len(w.written), lost)
	}
	if repeated > allowed {
		w.t.Errorf("%d delivered twice, at most %d allowed", repeated, allowed)
	}
}

// source is that of the dead letters of a host's function.
func (w *world) source() DeadLetterSource {
	return Function{Name: "test", Container: w.items}.DeadLetterSource()
}

// recreate deletes a container and creates another of its name.
func (w *world) recreate(container, keyPath string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodDelete, w.account.Endpoint()+"/dbs/db/colls/"+container, nil)
	must(w.t, err)
	r.Header.Set("Authorization", emulatorToken())
	resp, err := w.account.Do(r)
	must(w.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		w.t.Fatalf("delete container: %s", resp.Status)
	}
	must(w.t, w.client().CreateContainer(w.t.Context(), "db", cosmos.ContainerDefinition{
		ID: container, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{keyPath}},
	}))
}

// emulatorToken is an Entra ID token as the official emulator takes it: its
// signature is the text of the master key.
func emulatorToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return url.QueryEscape("type=aad&ver=1.0&sig=" + part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(`{}`)) + "." + part([]byte(emulator.Key)))
}

// bootEpoch is what a lease that is created when a bubble begins counts its
// epochs from: the service's clock.
const bootEpoch = 946684800

// traffic counts requests by what they are for.
type traffic struct{ feed, writes int }

func (t traffic) minus(o traffic) traffic { return traffic{t.feed - o.feed, t.writes - o.writes} }

func (w *world) requests() traffic {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// counted is the account as a transport that counts.
type counted struct{ w *world }

func (c counted) Do(r *http.Request) (*http.Response, error) {
	c.w.mu.Lock()
	switch {
	case r.Header.Get("A-IM") != "" && strings.HasSuffix(r.URL.Path, "/colls/items/docs"):
		c.w.sent.feed++
	case strings.Contains(r.URL.Path, "/colls/leases/docs/") && r.Method != http.MethodGet,
		strings.HasSuffix(r.URL.Path, "/colls/leases/docs") && r.Header.Get("Content-Type") == "application/json":
		c.w.sent.writes++
	}
	before := c.w.before
	c.w.mu.Unlock()
	if before != nil {
		before(r)
	}
	return c.w.account.Do(r)
}
