package cosmos_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/handlers/handlerstest"
	oncecosmos "halley/handlers/once/cosmos"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/triggertest"
)

const sinkName = "journal"

// journal is a container with a document for each partition key of the source, which lists
// the effects of its documents: a sink that shows an effect that happens twice.
type journal struct {
	t     testing.TB
	w     *triggertest.World
	sink  *cosmos.Container
	store *oncecosmos.Store
}

func newJournal(t testing.TB, w *triggertest.World) *journal {
	t.Helper()
	if err := w.Account().CreateContainer(triggertest.Database, sinkName, "/owner/name", 2); err != nil {
		t.Fatal(err)
	}
	sink := w.Client().Container(triggertest.Database, sinkName)
	return &journal{t, w, sink, oncecosmos.New(sink, "test", ownerOf)}
}

// ownerOf is the partition of an effect: the partition key of the changed document.
func ownerOf(c trigger.Change) []any {
	var values []any
	if json.Unmarshal(c.PartitionKey(), &values) != nil {
		return nil
	}
	return values
}

// lines is the document of a partition.
type lines struct {
	ID    string            `json:"id"`
	Owner map[string]any    `json:"owner"`
	Lines map[string]string `json:"lines"` // effects by document
}

func (j *journal) handle(ctx context.Context, b trigger.Batch) error {
	return j.store.Apply(ctx, b, j.write)
}

// write is an effect that reads what it changes.
func (j *journal) write(ctx context.Context, tx *cosmos.Transaction, fresh []trigger.Change) error {
	owner := ownerOf(fresh[0])
	l := lines{ID: "lines", Owner: map[string]any{"name": owner[0]}, Lines: map[string]string{}}
	resp, err := j.sink.Read(ctx, l.ID, cosmos.NewPartitionKey(owner...))
	if err == nil {
		err = json.Unmarshal(resp.Body, &l)
	} else if cosmos.IsDocumentNotFound(err) {
		err = nil
	}
	if err != nil {
		return err
	}
	for _, c := range fresh {
		d := struct{ N int }{-1} // of a delete
		if c.Document != nil {
			if err := c.Decode(&d); err != nil {
				return trigger.Skip(trigger.Failed(err, c))
			}
		}
		l.Lines[c.ID()] += fmt.Sprint(" ", d.N)
	}
	if resp.ETag == "" {
		tx.Create(l)
	} else {
		tx.Replace(l.ID, l, resp.ETag)
	}
	return nil
}

// read returns the effects by document.
func (j *journal) read() map[string]string {
	j.t.Helper()
	effects := map[string]string{}
	for page, err := range j.sink.Query(context.Background(), cosmos.Query{Text: "SELECT * FROM c WHERE c.id = 'lines'"}) {
		if err != nil {
			j.t.Fatal(err)
		}
		for _, item := range page.Items {
			var l lines
			if err := json.Unmarshal(item, &l); err != nil {
				j.t.Fatal(err)
			}
			for id, text := range l.Lines {
				effects[id] = text
			}
		}
	}
	return effects
}

func TestEffectsConverge(t *testing.T) {
	triggertest.Converges(t, triggertest.Scenario{
		Seeds:    handlerstest.Seeds(),
		Function: trigger.Function{FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		Document: func(random *rand.Rand, id, key string) any {
			return map[string]any{"id": id, "key": key, "n": random.IntN(1000)}
		},
		Open: func(t testing.TB, w *triggertest.World) triggertest.Sink {
			j := newJournal(t, w)
			return triggertest.Sink{
				Start: func() (trigger.Handler, func() error) { return j.handle, nil },
				State: func() any { return j.read() },
			}
		},
	})
}

func change(lsn int64, key, text string) trigger.Change {
	c := triggertest.Upsert(text, key)
	c.LSN = lsn
	return c
}

func (j *journal) require(want string) {
	j.t.Helper()
	if got := fmt.Sprint(j.read()); got != want {
		j.t.Errorf("effects are %s, want %s", got, want)
	}
}

// A change that is refused, and a partition that fails, leave the others alone.
func TestFailuresStayInTheirPartition(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	j := newJournal(t, w)
	batch := []trigger.Change{
		change(1, "x", `{"id":"a","n":1}`), change(2, "x", `{"id":"b","n":"?"}`), change(3, "x", `{"id":"c","n":3}`),
		change(4, "y", `{"id":"d","n":4}`), change(5, "z", `{"id":"e","n":5}`),
	}
	v := triggertest.Deliver(t, j.handle, batch[:4]...)
	if len(v.Handled) != 3 || !v.GivenUp || v.Failed[0].ID() != "b" {
		t.Error(v)
	}
	j.require("map[a: 1 c: 3 d: 4]")
	remove := w.Account().Inject(emulator.Fault{Header: map[string]string{"X-Ms-Documentdb-Partitionkey": `"z"`}, Status: 400})
	v = triggertest.Deliver(t, j.handle, batch[3:]...)
	if len(v.Handled) != 1 || v.GivenUp || v.Failed[0].ID() != "e" {
		t.Error(v)
	}
	remove()
	if v := triggertest.Deliver(t, j.handle, batch[3:]...); len(v.Failed) > 0 {
		t.Error(v)
	}
	j.require("map[a: 1 c: 3 d: 4 e: 5]")
}

// A batch whose effects do not fit into a transaction is divided.
func TestLargeBatchIsDivided(t *testing.T) {
	j := newJournal(t, triggertest.NewWorld(t, nil))
	var batch []trigger.Change
	const documents = 250
	for i := range documents {
		batch = append(batch, change(int64(i+1), "x", fmt.Sprintf(`{"id":"d%d","n":%d}`, i, i)))
	}
	for range 2 {
		if v := triggertest.Deliver(t, j.handle, batch...); len(v.Failed) > 0 {
			t.Fatal(v)
		}
	}
	effects := j.read()
	for i := range documents {
		if id := fmt.Sprint("d", i); effects[id] != fmt.Sprint(" ", i) {
			t.Errorf("effects on %s are %q", id, effects[id])
		}
	}
	v := triggertest.Deliver(t, func(ctx context.Context, b trigger.Batch) error {
		return j.store.Apply(ctx, b, func(_ context.Context, tx *cosmos.Transaction, _ []trigger.Change) error {
			for range cosmos.MaxTransaction {
				tx.Delete("x", "")
			}
			return nil
		})
	}, change(documents+1, "x", `{"id":"large"}`))
	if !v.GivenUp || !strings.Contains(v.String(), "101 writes") {
		t.Error(v)
	}
}

// Several owners deliver the same changes at the same time.
func TestOwnersAtTheSameTime(t *testing.T) {
	j := newJournal(t, triggertest.NewWorld(t, nil))
	const versions, documents, owners = 8, 4, 3
	var changes []trigger.Change
	var want string
	for n := range versions {
		for d := range documents {
			changes = append(changes, change(int64(n*documents+d+1), "x", fmt.Sprintf(`{"id":"d%d","n":%d,"_etag":"%d-%d"}`, d, n, n, d)))
		}
		want += fmt.Sprint(" ", n)
	}
	var delivering sync.WaitGroup
	for owner := range owners {
		delivering.Go(func() {
			random := rand.New(rand.NewPCG(uint64(owner), 1))
			for rest := slices.Clone(changes); len(rest) > 0; {
				count := 1 + random.IntN(min(9, len(rest)))
				call := triggertest.Call{Epoch: int64(owner + 1)}
				for v := call.Deliver(t, j.handle, rest[:count]...); len(v.Failed) > 0; v = call.Deliver(t, j.handle, v.Failed...) {
					if !strings.Contains(v.Err.Error(), "other calls changed the same documents 5 times") {
						t.Error(v)
						return
					}
				}
				rest = rest[count:]
			}
		})
	}
	delivering.Wait()
	for id, got := range j.read() {
		if got != want {
			t.Errorf("document %s has the effects %s", id, got)
		}
	}
}

// If the answer to a transaction is lost, the redelivery finds out.
func TestLostAnswerIsNotRepeated(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	j := newJournal(t, w)
	w.Account().Inject(emulator.Fault{Header: map[string]string{"X-Ms-Cosmos-Is-Batch-Request": "true"}, Drop: emulator.DropAfter, Count: 1})
	c := change(1, "x", `{"id":"a","n":1}`)
	if v := triggertest.Deliver(t, j.handle, c); len(v.Failed) != 1 || !errors.Is(v.Err, cosmos.ErrOutcomeUnknown) {
		t.Error(v)
	}
	if v := triggertest.Deliver(t, j.handle, c); len(v.Failed) > 0 {
		t.Error(v)
	}
	j.require("map[a: 1]")
}

func TestPositionsHaveTimeToLive(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	j := newJournal(t, w)
	j.store.Keep = time.Hour
	if v := triggertest.Deliver(t, j.handle, change(1, "x", `{"id":"a","n":1}`)); len(v.Failed) > 0 {
		t.Fatal(v)
	}
	for page, err := range j.sink.Query(t.Context(), cosmos.Query{Text: "SELECT VALUE c.ttl FROM c WHERE IS_DEFINED(c.versions)"}) {
		if err != nil || fmt.Sprintf("%s", page.Items) != "[3600]" {
			t.Errorf("times to live are %s, %v", page.Items, err)
		}
	}
}

func TestSinkPartitionedByIDIsRefused(t *testing.T) {
	w := triggertest.NewWorld(t, nil)
	if err := w.Account().CreateContainer(triggertest.Database, "byid", "/id", 1); err != nil {
		t.Fatal(err)
	}
	store := oncecosmos.New(w.Client().Container(triggertest.Database, "byid"), "test", ownerOf)
	v := triggertest.Deliver(t, func(ctx context.Context, b trigger.Batch) error {
		return store.Apply(ctx, b, func(_ context.Context, tx *cosmos.Transaction, _ []trigger.Change) error { return nil })
	}, change(1, "x", `{"id":"a"}`))
	if len(v.Failed) != 1 || !strings.Contains(v.String(), "no place for a position") {
		t.Error(v)
	}
}
