package view

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

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
	pool          *pgxpool.Pool
	handler       trigger.Handler
	callbacks     handlers.RangeCallbacks
	wrap          func(trigger.Handler) trigger.Handler
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
		ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/customer"}}, Throughput: 20_000, Retention: time.Hour,
	}))
	check(t, client.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}))
	return &gapWorld{
		t: t, account: account, items: client.Container("db", "items"), leases: client.Container("db", "leases"), pool: configure(t),
		wrap: func(h trigger.Handler) trigger.Handler { return h },
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens the handler anew, under the settings of the environment.
func (w *gapWorld) open(fromSnapshot bool) {
	w.callbacks = handlers.RangeCallbacks{}
	w.handler = handlerstest.Under(w.t, entry(), handlers.Env{FromSnapshot: fromSnapshot, Follow: func(c handlers.RangeCallbacks) { w.callbacks = c }})
}

func (w *gapWorld) function() trigger.Function {
	return trigger.Function{
		FeedSource:  trigger.FeedSource{Name: "view", Container: w.items, ChangeFeedMode: cosmos.ModeAllVersions, StartFrom: trigger.FromSnapshot()},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 50}, RetryPolicy: trigger.RetryPolicy{RetryMin: time.Millisecond, RetryMax: time.Millisecond},
		Handler: w.wrap(w.handler), SnapshotRead: w.callbacks.SnapshotRead,
	}
}

func (w *gapWorld) drain() error {
	w.t.Helper()
	host, err := trigger.New(w.leases, []trigger.Function{w.function()}, nil)
	check(w.t, err)
	_, err = host.Drain(w.t.Context())
	return err
}

func (w *gapWorld) put(first, n, total int) {
	w.t.Helper()
	for i := first; i < first+n; i++ {
		customer := fmt.Sprint("c", i%40)
		_, err := w.items.Upsert(w.t.Context(), cosmos.NewPartitionKey(customer), map[string]any{"id": fmt.Sprintf("o%04d", i), "customer": customer, "country": []string{"de", "fr"}[i%2], "total": total})
		check(w.t, err)
	}
}

func (w *gapWorld) remove(ids ...int) {
	w.t.Helper()
	for _, i := range ids {
		_, err := w.items.Delete(w.t.Context(), fmt.Sprintf("o%04d", i), cosmos.NewPartitionKey(fmt.Sprint("c", i%40)), "")
		check(w.t, err)
	}
}

// miss lets the positions leave the retention, and begins the way back.
func (w *gapWorld) miss() {
	w.t.Helper()
	w.put(3000, 40, 1) // in each range
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

// checkView compares the rows with the container, and the totals with the rows. The positions are
// those of the rows and of documents whose deletes were seen.
func (w *gapWorld) checkView(kept ...string) {
	w.t.Helper()
	want := slices.Clone(kept)
	for page, err := range w.items.Query(w.t.Context(), cosmos.Query{Text: "SELECT VALUE c.id FROM c"}) {
		check(w.t, err)
		for _, id := range page.Items {
			want = append(want, strings.Trim(string(id), `"`))
		}
	}
	slices.Sort(want)
	if got := lines(w.t, w.pool, "SELECT id FROM orders ORDER BY id"); !slices.Equal(got, want) {
		w.t.Errorf("the view has %d rows, the container %d documents: %v", len(got), len(want), got)
	}
	state(w.t, w.pool)
}

// A document that was deleted in a gap longer than the retention leaves the view with its totals: it may
// have come by a snapshot or by an event, in any range, and many at a time.
func TestViewAfterMissedRetention(t *testing.T) {
	w := newGapWorld(t)
	w.open(true)
	w.put(0, 1500, 1)
	check(t, w.drain())
	w.put(1500, 100, 1)
	check(t, w.drain())
	w.checkView()
	for i := range 1300 {
		w.remove(i)
	}
	w.remove(1510)
	w.put(1300, 10, 2)
	w.put(2000, 10, 3)
	w.miss()
	check(t, w.drain())
	w.checkView()
	if n := lines(t, w.pool, "SELECT count(*) FROM orders_positions"); n[0] != "349" {
		t.Errorf("%s positions, want those of 349 documents", n[0])
	}
	w.put(0, 5, 4) // documents that were removed are created again
	w.remove(2000)
	check(t, w.drain())
	w.checkView()
}

// The snapshot of one range removes nothing of the others, whose rows have a smaller generation.
func TestSnapshotOfOneRangeLeavesTheOthers(t *testing.T) {
	for _, token := range []string{"0", "1"} {
		w := newGapWorld(t)
		w.open(true)
		w.put(0, 100, 1)
		check(t, w.drain())
		w.seek(token)
		check(t, w.drain())
		w.checkView()
		generations := lines(t, w.pool, "SELECT count(DISTINCT generation) FROM orders")
		if generations[0] != "2" {
			t.Errorf("rows of %s generations, want those of two ranges", generations[0])
		}
	}
}

// Two hosts remove at a time, one of which has lost the lease: neither returns before all is removed, and
// the totals are exact.
func TestTwoHostsRemoveAtATime(t *testing.T) {
	w := newGapWorld(t)
	w.open(true)
	w.put(0, 2500, 1)
	check(t, w.drain())
	end := trigger.SnapshotEnd{RangeInfo: trigger.RangeInfo{Range: cosmos.Range{Max: "FF"}}, Generation: math.MaxInt64}
	var removing sync.WaitGroup
	for range 2 {
		removing.Go(func() {
			for err := w.callbacks.SnapshotRead(t.Context(), end); err != nil; err = w.callbacks.SnapshotRead(t.Context(), end) {
				if !strings.Contains(err.Error(), "deadlock") { // else the runtime calls again
					t.Error(err)
					return
				}
			}
			if n := lines(t, w.pool, "SELECT count(*) FROM orders"); n[0] != "0" {
				t.Errorf("%s rows are left", n[0])
			}
		})
	}
	removing.Wait()
	if totals := lines(t, w.pool, "SELECT key FROM orders_totals"); len(totals) != 0 {
		t.Errorf("totals of no rows: %v", totals)
	}
}

// Documents of a key with a dead letter keep their rows.
func TestViewKeepsRowsOfUnfinishedKeys(t *testing.T) {
	w := newGapWorld(t)
	w.open(true)
	w.put(0, 80, 1)
	check(t, w.drain())
	w.remove(1, 41, 2)
	w.miss()
	w.callbacks.SnapshotRead = func(remove func(context.Context, trigger.SnapshotEnd) error) func(context.Context, trigger.SnapshotEnd) error {
		return func(ctx context.Context, s trigger.SnapshotEnd) error {
			s.KeptKeys = []string{`["c1"]`}
			return remove(ctx, s)
		}
	}(w.callbacks.SnapshotRead)
	check(t, w.drain())
	w.checkView("o0001", "o0041")
	w.put(41, 1, 2) // an event, with the generation of the last snapshot
	check(t, w.drain())
	if rows := lines(t, w.pool, "SELECT id FROM orders WHERE generation < (SELECT max(generation) FROM orders WHERE partition_key = '[\"c3\"]') AND partition_key = '[\"c1\"]'"); !slices.Equal(rows, []string{"o0001"}) {
		t.Errorf("rows of older generations: %v", rows)
	}
}

// The rows of a view from before it knew generations have neither column: the handler names the
// statements, and the next snapshot removes what it does not show.
func TestViewOfOlderVersionIsMigrated(t *testing.T) {
	w := newGapWorld(t)
	w.open(false) // as before
	w.put(0, 1100, 1)
	check(t, w.drain())
	w.remove(7, 8)
	w.miss()
	w.open(true)
	var statements string
	w.wrap = func(h trigger.Handler) trigger.Handler {
		return func(ctx context.Context, b trigger.Batch) error {
			err := h(ctx, b)
			if err == nil || !strings.Contains(err.Error(), "ALTER TABLE") {
				return err
			}
			statements = err.Error()[strings.Index(err.Error(), "ALTER TABLE"):]
			_, execError := w.pool.Exec(ctx, statements)
			return errors.Join(err, execError)
		}
	}
	check(t, w.drain())
	if !strings.Contains(statements, `ADD COLUMN "generation" bigint`) || !strings.Contains(statements, `ADD COLUMN "effective_key" text`) {
		t.Errorf("statements %q", statements)
	}
	w.checkView()
	if n := lines(t, w.pool, "SELECT count(*) FROM orders WHERE generation IS NULL OR effective_key IS NULL"); n[0] != "0" {
		t.Errorf("%s rows without a generation", n[0])
	}
}

// A replayed dead letter has no place. Its row gets one, and is removed only by a later snapshot.
func TestRowOfReplayIsRemovedByLaterSnapshot(t *testing.T) {
	w := newGapWorld(t)
	w.open(true)
	w.put(0, 10, 1)
	check(t, w.drain())
	letter := trigger.DeadLetter{
		Operation: cosmos.OperationCreate, Document: []byte(`{"id":"gone","customer":"c1","_etag":"x"}`), DocumentID: "gone", Key: `["c1"]`, Written: time.Now(), Generation: 1,
	}
	check(t, w.handler(t.Context(), trigger.NewBatch(letter.Change())))
	w.checkView("gone")
	w.miss()
	w.account.Advance(time.Hour) // the clock of the replay is that of this machine
	check(t, w.drain())
	w.checkView()
}

// Functions that do not start from a snapshot have the rows of before.
func TestViewWithoutSnapshotIsUnchanged(t *testing.T) {
	w := newGapWorld(t)
	w.open(false)
	if w.callbacks.SnapshotRead != nil {
		t.Error("the view follows ends of snapshots")
	}
	w.put(0, 10, 1)
	check(t, w.drain())
	if columns := lines(t, w.pool, "SELECT attname FROM pg_attribute WHERE attrelid = 'orders'::regclass AND attname IN ('generation', 'effective_key')"); len(columns) != 0 {
		t.Errorf("columns %v", columns)
	}
}
