package triggertest

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Names in the account of a [World].
const (
	Database  = "db"
	Container = "items" // monitored
	leases    = "leases"
)

// Options describe a [World]. The zero value of a field means its default.
type Options struct {
	// PartitionKey is the path of the monitored container's partition key: "/id".
	PartitionKey string
	// Ranges is the number of its physical ranges: 1.
	Ranges int
	// Function has the settings of the function. The world sets Name, Container,
	// Handler, DeadLetters and, in latest-version mode, StartFrom: the beginning. It
	// leaves out ResetLeases, BatchWindow and the circuit breaker, and shortens the
	// waits between attempts to milliseconds.
	Function trigger.Function
}

// World is an embedded account with a monitored container, and the hosts that work on
// it: the stage of a test that acts out a story. Nothing happens by itself: a host
// works while [Host.Drain] runs.
//
// A World may be used inside and outside of a testing/synctest bubble, and from any
// goroutine. It ends with its test.
type World struct {
	t        testing.TB
	account  *emulator.Account
	client   *cosmos.Client
	keyPath  []string
	function trigger.Function
	store    memoryStore
	wires    wires

	reportMisuse sync.Once // of the bytes of a change

	mu        sync.Mutex // guards the fields below; no other lock is taken under it
	hosts     int
	drains    map[*Host]func() // cuts off the drain that the host is in
	abandoned bool             // leases of hosts that were killed or cut off may not have expired
	record    record
}

// NewWorld opens an account with an empty container. opts may be nil.
func NewWorld(t testing.TB, opts *Options) *World {
	t.Helper()
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.PartitionKey == "" {
		o.PartitionKey = "/id"
	}
	account, err := emulator.New(&emulator.Options{PreviousImages: true}) // see versionOf
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := account.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &World{
		t: t, account: account, keyPath: keyPath(o.PartitionKey),
		drains: map[*Host]func(){}, record: newRecord(o.Function.ChangeFeedMode),
	}
	w.client = w.newClient(storeCalls{account})
	w.function = w.complete(o.Function)
	w.createContainers(o)
	return w
}

// complete sets the fields of the function that belong to the world.
func (w *World) complete(f trigger.Function) trigger.Function {
	f.Name = "test"
	if f.ChangeFeedMode == cosmos.ModeLatestVersion {
		f.StartFrom = trigger.FromBeginning()
	}
	f.RetryMin, f.RetryMax = time.Millisecond, 2*time.Millisecond
	f.BatchWindow, f.BreakerLimit = 0, -1 // waits that show nothing
	f.ResetLeases = false                 // each drain would
	return f
}

func (w *World) createContainers(o Options) {
	w.t.Helper()
	ttl := -1
	items := cosmos.ContainerDefinition{
		ID: Container, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{o.PartitionKey}}, DefaultTTL: &ttl,
		Throughput: max(o.Ranges, 1) * 10_000, // a range has 10,000 RU/s at most
	}
	if o.Function.ChangeFeedMode == cosmos.ModeAllVersions {
		items.Retention = 24 * time.Hour
	}
	w.must(w.client.CreateDatabase(w.t.Context(), Database))
	w.must(w.client.CreateContainer(w.t.Context(), Database, items))
	w.must(w.client.CreateContainer(w.t.Context(), Database, cosmos.ContainerDefinition{
		ID: leases, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}},
	}))
}

func (w *World) newClient(transport policy.Transporter) *cosmos.Client {
	w.t.Helper()
	key, err := cosmos.KeyCredential(emulator.Key)
	w.must(err)
	client, err := cosmos.NewClient(w.account.Endpoint(), key, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport},
	})
	w.must(err)
	return client
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Account returns the account, for scripted faults and further containers.
func (w *World) Account() *emulator.Account { return w.account }

// Client returns a client of the account, for a handler that reads or writes other
// containers there. It continues to work when a host has died.
func (w *World) Client() *cosmos.Client { return w.client }

// Put writes a document: JSON text or a value that is marshalled, with an id and a
// partition key.
func (w *World) Put(document any) {
	w.t.Helper()
	raw := rawJSON(document)
	key := keyOf(raw, w.keyPath)
	r, err := w.items().Upsert(w.t.Context(), key, raw)
	w.must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.put(idOf(raw), key, string(r.ETag))
}

// Delete deletes a document. A function in latest-version mode does not see that: with
// a SoftDeleteProperty, put the document with that property instead.
func (w *World) Delete(id string, key ...any) {
	w.t.Helper()
	pk := cosmos.NewPartitionKey(key...)
	_, err := w.items().Delete(w.t.Context(), id, pk, "")
	w.must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record.delete(id, pk)
}

func (w *World) items() *cosmos.Container { return w.client.Container(Database, Container) }

// Documents returns the documents of the monitored container, in no order.
func (w *World) Documents() (documents []json.RawMessage) {
	w.t.Helper()
	for page, err := range w.items().Query(w.t.Context(), cosmos.Query{Text: "SELECT * FROM c"}) {
		w.must(err)
		documents = append(documents, page.Items...)
	}
	return documents
}

// Advance moves the account's clock forward: documents expire by their ttl, and leases
// look older. Drains that are under way are cut off, as if their hosts had slept through
// that time: they begin no further handler call, and nothing that they would save
// arrives. Calls that are running go on.
func (w *World) Advance(d time.Duration) {
	w.account.Advance(d)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, cut := range w.drains {
		w.abandoned = true
		cut()
	}
}

// ExpireLeases is Advance by the time after which another host may acquire every lease,
// also those of hosts that are in a drain: a call that is running is then the call of a
// former owner. For hosts that were killed it is not necessary.
func (w *World) ExpireLeases() {
	w.Advance(trigger.Options{}.WithDefaults().LeaseExpirationInterval + 2*time.Second) // times of leases are cut to seconds
	w.mu.Lock()
	defer w.mu.Unlock()
	w.abandoned = false
}

// Ranges returns the ids of the monitored container's physical ranges, in the order of
// their keys.
func (w *World) Ranges() (ids []string) {
	w.t.Helper()
	ranges, err := w.items().Ranges(w.t.Context())
	w.must(err)
	for _, r := range ranges {
		ids = append(ids, r.ID)
	}
	return ids
}

// Split splits a range and returns its children.
func (w *World) Split(id string) (children []string) {
	w.t.Helper()
	children, err := w.account.Split(Database, Container, id)
	w.must(err)
	return children
}

// Merge merges adjacent ranges and returns the one that takes their place. A function
// in all-versions mode cannot read a container that was merged.
func (w *World) Merge(ids ...string) (child string) {
	w.t.Helper()
	child, err := w.account.Merge(Database, Container, ids...)
	w.must(err)
	return child
}

// DeadLetters returns the function's dead letters, oldest first.
func (w *World) DeadLetters() []trigger.DeadLetter {
	return slices.DeleteFunc(w.store.all(), trigger.DeadLetter.IsPostponed)
}

// Postponed returns the function's postponed changes, oldest first.
func (w *World) Postponed() []trigger.DeadLetter {
	return slices.DeleteFunc(w.store.all(), func(d trigger.DeadLetter) bool { return !d.IsPostponed() })
}

// RequireDelivered fails the test unless every change was handled, or is in the dead
// letter store: in latest-version mode the last version of each document that exists,
// in all-versions mode each version and each [World.Delete].
func (w *World) RequireDelivered() {
	w.t.Helper()
	for _, missing := range w.undelivered() {
		w.t.Errorf("%s was neither handled nor dead-lettered", missing)
	}
}

func (w *World) undelivered() (missing []string) {
	dead := map[string]bool{}
	for _, d := range w.store.all() {
		dead[versionOf(d.Change())] = true
	}
	w.mu.Lock()
	waiting := w.record.waiting(dead)
	w.mu.Unlock()
	for _, v := range waiting {
		if w.function.ChangeFeedMode == cosmos.ModeLatestVersion {
			_, err := w.items().Read(w.t.Context(), v.id, v.key)
			if cosmos.IsDocumentNotFound(err) {
				continue // it has expired: the feed does not show it
			}
			w.must(err)
		}
		missing = append(missing, v.String())
	}
	return missing
}

func idOf(document []byte) (id string) {
	_ = json.Unmarshal(cosmos.Property(document, "id"), &id) // without an id the account refuses the document
	return id
}

func keyPath(path string) []string { return strings.Split(strings.TrimPrefix(path, "/"), "/") }

// keyOf returns the partition key of a document.
func keyOf(document []byte, path []string) cosmos.PartitionKey {
	for _, name := range path {
		if document = cosmos.Property(document, name); document == nil {
			return cosmos.NewPartitionKey(cosmos.Undefined)
		}
	}
	var value any
	if json.Unmarshal(document, &value) != nil {
		return cosmos.NewPartitionKey(cosmos.Undefined)
	}
	return cosmos.NewPartitionKey(value)
}
