package trigger

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/internal/backoff"
)

// world is an embedded account with a monitored container and a lease container,
// inside a synctest bubble: time is virtual.
type world struct {
	t       *testing.T
	account *emulator.Account
	items   *cosmos.Container
	leases  *cosmos.Container

	mu        sync.Mutex
	onRequest func(*http.Request) // gets each request before the account does; may be nil
	sent      requestCounts
	written   map[string]int // newest version of each document
	delivered []delivered
	events    []Event
}

// delivered is one change as a handler got it.
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

// inLongForm skips a case that has quicker neighbours, unless the long forms run.
func inLongForm(t *testing.T) {
	t.Helper()
	if !isLong() {
		t.Skip("like the others: it runs if HALLEY_TEST_LONG is set")
	}
}

// shortOrLong returns the size of a test in its short or its long form.
func shortOrLong(short, long int) int {
	if isLong() {
		return long
	}
	return short
}

func isLong() bool { return os.Getenv("HALLEY_TEST_LONG") != "" }

// inWorld runs test in a bubble, on a container with a number of ranges.
func inWorld(t *testing.T, ranges int, test func(t *testing.T, w *world)) {
	inWorldOf(t, emulator.Options{}, ranges, test)
}

func inWorldOf(t *testing.T, options emulator.Options, ranges int, test func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		account, err := emulator.New(&options)
		must(t, err)
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

// client returns a new connection to the account.
func (w *world) client() *cosmos.Client { return w.clientOn(countingTransport{w}) }

func (w *world) clientOn(t policy.Transporter) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(w.t, err)
	client, err := cosmos.NewClient(w.account.Endpoint(), cred, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: t},
	})
	must(w.t, err)
	return client
}

// clientOptions are those of a connection whose requests are counted.
func (w *world) clientOptions() azcore.ClientOptions {
	return azcore.ClientOptions{Transport: countingTransport{w}}
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
	for tries := 1; errors.Is(err, cosmos.ErrOutcomeUnknown) && tries < 10; tries++ {
		_, err = w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(player), doc)
	}
	must(w.t, err)
	w.mu.Lock()
	w.written[id] = version
	w.mu.Unlock()
}

// writeMany writes one version of n documents, each with its own partition key.
func (w *world) writeMany(prefix string, n int) {
	w.t.Helper()
	for i := range n {
		id := fmt.Sprintf("%s%d", prefix, i)
		w.write(id, id)
	}
}

// recorder returns a handler that records the changes it gets.
func (w *world) recorder(owner string) Handler {
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

// host makes a host with one function and the default intervals.
func (w *world) host(owner string, handler Handler, change ...func(*Function, *Options)) *Host {
	return w.hostOn(countingTransport{w}, owner, handler, change...)
}

// hostOn makes a host that sends its requests through a transport.
func (w *world) hostOn(t policy.Transporter, owner string, handler Handler, change ...func(*Function, *Options)) *Host {
	w.t.Helper()
	client := w.clientOn(t)
	f := Function{FeedSource: FeedSource{Name: "test", Container: client.Container("db", "items"), StartFrom: FromBeginning()}, Handler: handler}
	o := Options{Owner: owner, Logger: logTo(w.t.Output(), slog.LevelError), Observers: []func(Event){w.recordEvent}}
	for _, c := range change {
		c(&f, &o)
	}
	h, err := New(client.Container("db", "leases"), []Function{f}, &o)
	must(w.t, err)
	return h
}

// hostOf makes a host of several functions. Functions without a container read the
// monitored container.
func (w *world) hostOf(t *testing.T, o Options, functions ...Function) *Host {
	t.Helper()
	client := w.client()
	for i := range functions {
		if functions[i].Container == nil {
			functions[i].Container = client.Container("db", "items")
		}
		functions[i].StartFrom = FromBeginning()
	}
	o.Owner = "a"
	h, err := New(client.Container("db", "leases"), functions, &o)
	must(t, err)
	return h
}

// recordEvent records an event.
func (w *world) recordEvent(e Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// startHost starts a host; stop stops it and waits until it has returned.
func (w *world) startHost(h *Host) (stop func()) {
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("run of %s: %v", h.Owner(), err)
		}
		if used := h.host.pageBudget.UsedBytes(); used != 0 {
			w.t.Errorf("host %s has ended, and %d bytes are never released", h.Owner(), used)
		}
	}
}

// deliveryCount returns the number of changes delivered so far.
func (w *world) deliveryCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.delivered)
}

// deliveredDocuments returns the number of different documents delivered so far.
func (w *world) deliveredDocuments() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	ids := map[string]bool{}
	for _, d := range w.delivered {
		ids[d.doc.ID] = true
	}
	return len(ids)
}

// eventCount returns the number of events of a kind.
func (w *world) eventCount(kind EventKind) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if e.Kind == kind {
			n++
		}
	}
	return n
}

// checkComplete checks that the newest version of every document was delivered,
// that the first deliveries of each document are in the order of its versions, and
// that at most allowed changes were delivered twice.
func (w *world) checkComplete(allowed int) {
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

// source returns the source of the dead letters of a host's function.
func (w *world) source() DeadLetterSource {
	return Function{FeedSource: FeedSource{Name: "test", Container: w.items}}.DeadLetterSource()
}

// newestContinuation returns the continuation after the last change of the only range.
func (w *world) newestContinuation() string {
	w.t.Helper()
	ranges, err := w.items.Ranges(w.t.Context())
	must(w.t, err)
	page, err := w.items.ReadFeed(w.t.Context(), cosmos.FeedRequest{Range: ranges[0], Start: cosmos.StartNow})
	must(w.t, err)
	defer page.Release()
	return page.Continuation
}

// recreateContainer deletes a container and creates another one with its name.
func (w *world) recreateContainer(container, keyPath string) {
	w.t.Helper()
	w.dropContainer(container)
	w.createContainer(container, keyPath)
}

// dropContainer deletes a container.
func (w *world) dropContainer(container string) {
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
}

func (w *world) createContainer(container, keyPath string) {
	w.t.Helper()
	must(w.t, w.client().CreateContainer(w.t.Context(), "db", cosmos.ContainerDefinition{
		ID: container, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{keyPath}},
	}))
}

// sendTransaction sends a transactional batch for the documents of one player.
func (w *world) sendTransaction(player, operations string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.account.Endpoint()+"/dbs/db/colls/items/docs", strings.NewReader(operations))
	must(w.t, err)
	r.Header.Set("Authorization", emulatorToken())
	r.Header.Set("X-Ms-Cosmos-Is-Batch-Request", "true")
	r.Header.Set("X-Ms-Documentdb-Partitionkey", fmt.Sprintf("[%q]", player))
	resp, err := w.account.Do(r)
	must(w.t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("batch: %s", resp.Status)
	}
}

// emulatorToken is an Entra ID token that the official emulator accepts: its
// signature is the text of the master key.
func emulatorToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return url.QueryEscape("type=aad&ver=1.0&sig=" + part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(`{}`)) + "." + part([]byte(emulator.Key)))
}

// firstEpoch is the epoch of a lease that is created when a bubble begins: the Unix
// time of the service's clock.
const firstEpoch = 946684800

// failAlways is a handler that always fails.
func failAlways(context.Context, Batch) error { return errors.New("sink is down") }

// withDelay wraps a handler so that each call takes d longer.
func withDelay(d time.Duration, h Handler) Handler {
	return func(ctx context.Context, b Batch) error {
		if err := backoff.Sleep(ctx, d); err != nil {
			return err
		}
		return h(ctx, b)
	}
}

func isPoison(c *Change) bool { return c.ID() == "poison" }

// withoutBisection keeps failing batches together.
func withoutBisection(f *Function, _ *Options) { f.NoBisection = true }

// withoutLogger removes the logger from tests that expect errors.
// logTo logs to a writer, from a level on.
func logTo(out io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
}

func withoutLogger(_ *Function, o *Options) { o.Logger = nil }

// fromNow starts a function with the changes written after its bootstrap.
func fromNow(f *Function, _ *Options) { f.StartFrom = FromNow() }

// mergeRanges merges the two ranges of a container and gives the leases positions in
// the merged range. In a merged range no position inside a page can be named.
func mergeRanges(t *testing.T, w *world) {
	t.Helper()
	_, err := w.host("x", w.recorder("x")).Drain(t.Context())
	must(t, err)
	_, err = w.account.Merge("db", "items", "0", "1")
	must(t, err)
	w.writeMany("first", 1)
	_, err = w.host("x", w.recorder("x")).Drain(t.Context())
	must(t, err)
	w.delivered, w.written = nil, map[string]int{}
}
