package opensearch

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// gapWorld is a function that starts from a snapshot, on an embedded account whose retention is missed
// by moving its clock.
type gapWorld struct {
	t             *testing.T
	account       *emulator.Account
	items, leases *cosmos.Container
	index         *cluster
	handler       trigger.Handler
	callbacks     handlers.RangeCallbacks
}

func newGapWorld(t *testing.T) *gapWorld {
	t.Helper()
	account, err := emulator.New(nil)
	check(t, err)
	t.Cleanup(func() { check(t, account.Close()) })
	key, err := cosmos.KeyCredential(emulator.Key)
	check(t, err)
	options := &cosmos.ClientOptions{}
	options.Transport = account
	client, err := cosmos.NewClient(account.Endpoint(), key, options)
	check(t, err)
	check(t, client.CreateDatabase(t.Context(), "db"))
	check(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
		ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/shop"}}, Throughput: 20_000, Retention: time.Hour,
	}))
	check(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}))
	w := &gapWorld{t: t, account: account, items: client.Container("db", "items"), leases: client.Container("db", "leases"), index: newCluster(t)}
	setFor(t, w.index)
	w.handler = handlerstest.Under(t, entry, handlers.Env{Database: "db", ContainerName: "items", FromSnapshot: true, Follow: func(c handlers.RangeCallbacks) { w.callbacks = c }})
	return w
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *gapWorld) function() trigger.Function {
	return trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "search", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
		RetryPolicy: trigger.RetryPolicy{RetryMin: time.Millisecond, RetryMax: time.Millisecond},
		Handler:     w.handler, SnapshotRead: w.callbacks.SnapshotRead,
	}
}

func (w *gapWorld) drain() error {
	host, err := trigger.New(w.leases, []trigger.Function{w.function()}, nil)
	check(w.t, err)
	_, err = host.Drain(w.t.Context())
	return err
}

func (w *gapWorld) put(first, n int) {
	w.t.Helper()
	for i := first; i < first+n; i++ {
		shop := fmt.Sprint("s", i%40)
		_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(shop), map[string]any{"id": fmt.Sprint("p", i), "shop": shop})
		check(w.t, err)
	}
}

func (w *gapWorld) remove(first, n int) {
	w.t.Helper()
	for i := first; i < first+n; i++ {
		_, err := w.items.Delete(w.t.Context(), fmt.Sprint("p", i), cosmos.NewPartitionKey(fmt.Sprint("s", i%40)), "")
		check(w.t, err)
	}
}

// miss lets the positions leave the retention, and begins the way back.
func (w *gapWorld) miss() {
	w.t.Helper()
	w.put(5000, 40) // in each range
	w.account.Advance(2 * time.Hour)
	if err := w.drain(); err == nil {
		w.t.Error("the feed was read after the retention")
	}
	w.seek()
}

// seek begins another snapshot of ranges, of all if none is named.
func (w *gapWorld) seek(ranges ...string) {
	w.t.Helper()
	handlerstest.BeginSnapshot(w.t, w.leases, w.function().FeedSource, ranges...)
}

// checkIndex compares the index with the container.
func (w *gapWorld) checkIndex(kept ...string) {
	w.t.Helper()
	want, got := slices.Clone(kept), []string{}
	for page, err := range w.items.Query(w.t.Context(), cosmos.Query{Text: "SELECT VALUE c.id FROM c"}) {
		check(w.t, err)
		for _, id := range page.Items {
			want = append(want, strings.Trim(string(id), `"`))
		}
	}
	for id := range w.index.live() {
		got = append(got, id[strings.Index(id, "/")+1:])
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		w.t.Errorf("the index has %d documents, the container %d: %v", len(got), len(want), got)
	}
}

// Documents that were deleted in a gap longer than the retention leave the index, in requests that are
// bounded. A document that is created again comes back.
func TestIndexAfterMissedRetention(t *testing.T) {
	w := newGapWorld(t)
	w.put(0, 2700)
	check(t, w.drain())
	w.put(3000, 50)
	check(t, w.drain())
	w.checkIndex()
	w.remove(0, 2600)
	w.remove(3000, 10)
	w.put(2600, 5)
	w.miss()
	w.index.deletes = nil
	check(t, w.drain())
	w.checkIndex()
	if n := slices.Max(w.index.deletes); n != removeStep {
		t.Errorf("deletes of %v documents, want %d at most", w.index.deletes, removeStep)
	}
	w.put(0, 3)
	w.remove(3020, 1)
	check(t, w.drain())
	w.checkIndex()
}

// The snapshot of one range removes nothing of the others, whose documents have a smaller generation.
func TestSnapshotOfOneRangeLeavesTheOthers(t *testing.T) {
	for _, token := range []string{"0", "1"} {
		w := newGapWorld(t)
		w.put(0, 100)
		check(t, w.drain())
		w.seek(token)
		check(t, w.drain())
		w.checkIndex()
	}
}

// Documents of kept keys stay. One that is indexed between the search and the delete is a conflict, and
// stays. Documents from before the index had metadata stay as well, and those of other containers.
func TestRemovalKeepsWhatItMustNotRemove(t *testing.T) {
	w := newGapWorld(t)
	w.put(0, 80)
	check(t, w.drain())
	w.remove(0, 5)
	w.miss()
	w.index.put(`["s7"]/old`, 1, `{"id":"old"}`)
	w.index.put(`["s2"]/other`, 1, strings.Replace(string(w.index.documents[`["s2"]/p2`].source), "db/items", "db/others", 1))
	w.index.onDelete = func() { w.index.put(`["s3"]/p3`, w.index.documents[`["s3"]/p3`].version+5, `{"id":"p3"}`) }
	remove := w.callbacks.SnapshotRead
	w.callbacks.SnapshotRead = func(ctx context.Context, s trigger.SnapshotEnd) error {
		s.KeptKeys = []string{`["s1"]`}
		return remove(ctx, s)
	}
	check(t, w.drain())
	w.checkIndex("p1", "p3", "old", "other")
}

// A document that is indexed before the only delete is a conflict, and the next search sees it. A
// cluster that is not asked to refreshes an index rarely or never (index.refresh_interval).
func TestRemovalEndsAfterConflictsAlone(t *testing.T) {
	c := newCluster(t)
	x := openIndex(t, c.URL+"/base", testIndex)
	check(t, x.putMapping(t.Context()))
	c.put("a", 1, unshown("k"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.onDelete = func() {
		if len(c.deletes) == 0 {
			c.put("a", 2, `{"id":"a"}`)
		} else if len(c.deletes) > 5 {
			cancel()
		}
	}
	if err := x.RemoveUnshown(ctx, wholeRange()); err != nil || len(c.live()) != 1 || !slices.Equal(c.deletes, []int{0, 0}) {
		t.Errorf("deletes of %v documents, %v", c.deletes, err)
	}
}

// The keys that are kept may be more than a cluster takes in one clause.
func TestRemovalKeepsManyKeys(t *testing.T) {
	c := newCluster(t)
	x := openIndex(t, c.URL+"/base", testIndex)
	check(t, x.putMapping(t.Context()))
	kept := make([]string, mostTerms+1)
	for i := range kept {
		kept[i] = fmt.Sprint(i)
	}
	for _, key := range []string{kept[0], kept[mostTerms], "other"} {
		c.put(key, 1, unshown(key))
	}
	check(t, x.RemoveUnshown(t.Context(), wholeRange(kept...)))
	if left := c.live(); len(left) != 2 || left["other"] != "" {
		t.Errorf("documents %v", left)
	}
}

// A cluster that refuses keeps the range in its snapshot, with the permission that is missing.
func TestRefusedRemovalIsTold(t *testing.T) {
	w := newGapWorld(t)
	w.put(0, 10)
	check(t, w.drain())
	w.index.answer = func(rw http.ResponseWriter) bool {
		rw.WriteHeader(http.StatusForbidden)
		return true
	}
	err := w.callbacks.SnapshotRead(t.Context(), trigger.SnapshotEnd{Generation: 1})
	if err == nil || !strings.Contains(err.Error(), "403") {
		t.Errorf("removal: %v", err)
	}
	other, err := New(Settings{URL: handlers.URL(w.index.URL), Index: testIndex, BulkBytes: 1000, RequestTimeout: handlers.Interval(time.Second)})
	check(t, err)
	letter := trigger.DeadLetter{Operation: cosmos.OperationCreate, Document: []byte(`{"id":"x"}`), DocumentID: "x", Key: `["s1"]`, Generation: 1}
	if err := other.Handle(t.Context(), trigger.NewBatch(letter.Change())); err == nil || !strings.Contains(err.Error(), "indices:admin/mapping/put") {
		t.Errorf("first batch: %v", err)
	}
}

// Functions that do not start from a snapshot index what they indexed before, and follow no snapshot.
func TestIndexWithoutSnapshotIsUnchanged(t *testing.T) {
	c := newCluster(t)
	setFor(t, c)
	handler := handlerstest.Under(t, entry, handlers.Env{Follow: func(handlers.RangeCallbacks) { t.Error("the handler follows ranges") }})
	check(t, handler(t.Context(), trigger.NewBatch(product("1", "tea"))))
	if source := c.live()[`{}/1`] + fmt.Sprint(c.live()); strings.Contains(source, "_halley") || c.isMapped {
		t.Errorf("index %v", c.live())
	}
}
