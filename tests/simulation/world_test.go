package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
	"halley/trigger/emulator/epk"
)

const (
	database  = "db"
	processor = "sim"
)

// world is an embedded account with its hosts, their faults and their history. The
// scheduler's goroutine owns it, except for the fields that mu guards.
type world struct {
	t       testing.TB
	swarm   *swarm
	began   time.Time
	account *emulator.Account
	logger  *slog.Logger
	queue

	writer    *capture
	monitored *cosmos.Container
	admin     *cosmos.Client
	written   map[string]int64 // last Seq by key
	hashes    map[string]string

	alive       map[string]*process // by name
	lives       map[string]int      // by owner
	processes   sync.WaitGroup
	sinkOut     time.Time     // until then every handler call fails
	slowDown    time.Time     // until then the lease container answers 429
	slowWrites  time.Time     // until then writes of leases are slow
	feedSlow    time.Time     // until then the monitored container refuses feed reads
	feedRefusal fate          // of a feed read until then
	fault       history.Event // that is beginning
	commands    int           // of operators that are under way
	recovering  bool          // no more faults are begun
	ending      bool          // no more restarts
	silent      bool          // no more writes
	history     []history.Event
	figures     Figures

	bootstrapped bool
	violations   []history.Violation // those that the history cannot show
	messages     map[*message]bool   // of the queue: neither deleted nor poison
	letters      []trigger.DeadLetter
	letterIDs    map[string]string // by the id of the document
	kept         []*call           // their handlers have kept their changes

	mu       sync.Mutex // guards the fields that goroutines of hosts use
	arrivals []item
	notes    []note
	leases   map[string]leaseDocument // by id, as stored
	listed   map[string]string        // answers to lists, by prefix, until a document changes
	copies   []leaseDocument          // older ones
	broken   map[string]bool          // ids of corrupted ones
	second   companionRecord
	found    []history.Violation // by goroutines of hosts
	gone     map[int64]bool      // handler calls that ended with their context
	calm     bool                // no more faults of requests and handler calls
}

func newWorld(t testing.TB, s *swarm, log *slog.Logger) *world {
	account, err := emulator.New(&emulator.Options{Splitting: s.splitting, BulkSeed: s.seed + 1, Manners: s.manners, PreviousImages: true})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, swarm: s, began: time.Now(), account: account, logger: log, queue: newQueue(s.seed),
		written: map[string]int64{}, hashes: map[string]string{},
		alive: map[string]*process{}, lives: map[string]int{},
		leases: map[string]leaseDocument{}, listed: map[string]string{}, messages: map[*message]bool{}, letterIDs: map[string]string{}, broken: map[string]bool{}, gone: map[int64]bool{}, second: newCompanionRecord(),
	}
	w.figures.Faults, w.figures.Uses = map[string]int{}, map[string]int{}
	w.writer = &capture{w: w}
	w.admin = w.client(account)
	ctx := context.Background()
	items := cosmos.ContainerDefinition{ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/key"}}}
	if s.neighbours {
		w.must(w.client(withThroughput{account}).CreateDatabase(ctx, database))
	} else {
		items.Throughput = s.ranges * 10_000
		w.must(w.admin.CreateDatabase(ctx, database))
	}
	w.must(w.admin.CreateContainer(ctx, database, items))
	w.must(w.admin.CreateContainer(ctx, database, cosmos.ContainerDefinition{
		ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{s.leaseKey}},
	}))
	if s.letterKey != "" {
		w.createLetterContainer()
	}
	w.monitored = w.client(w.writer).Container(database, "items")
	definition, err := epk.ParseDefinition(json.RawMessage(`{"paths":["/key"],"kind":"Hash","version":2}`))
	w.must(err)
	for i := range s.keys {
		key := "k" + strconv.Itoa(i)
		w.hashes[key], _ = definition.Span(hashedKey(key))
	}
	return w
}

// withThroughput gives a database that is created a throughput, which its containers share.
type withThroughput struct{ account *emulator.Account }

func (t withThroughput) Do(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/dbs") {
		req.Header.Set("x-ms-offer-throughput", "400")
	}
	return t.account.Do(req)
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatalf("seed %d: %v", w.swarm.seed, err)
	}
}

// close ends the account and waits for all goroutines.
func (w *world) close() {
	for len(w.alive) > 0 {
		w.advance(time.Now().Add(time.Second))
	}
	w.advance(time.Now().Add(15 * time.Minute)) // goroutines of dead hosts end
	w.processes.Wait()
	w.timer.Stop()
	w.account.Close()
}

// living returns the hosts that run and are not stopping, by name.
func (w *world) living() []*process {
	var list []*process
	for _, name := range slices.Sorted(maps.Keys(w.alive)) {
		if p := w.alive[name]; !p.stopping {
			list = append(list, p)
		}
	}
	return list
}

// writeNext writes one change and plans the next.
func (w *world) writeNext(n int) {
	if w.silent {
		return
	}
	d := w.swarm.dice("write/" + strconv.Itoa(n))
	if w.swarm.function.StartFrom.String() != "now" || w.bootstrapped {
		for range one(d, "burst", 1, 1, 1, 1, 5, 20) {
			next := dice{d.seed, d.id + "/" + strconv.Itoa(len(w.history))}
			if w.swarm.bulks && next.chance("bulk", 0.3) {
				w.writeBulk(next)
			} else {
				w.write(next)
			}
		}
	}
	if len(w.swarm.function.Filter) > 0 && d.chance("noise", 0.4) {
		w.writeNoise(d)
	}
	if w.swarm.deletes && d.chance("deleted", 0.5) {
		w.writeDeleted(d)
	}
	mean := 5 * time.Hour / time.Duration(w.swarm.writes) // a burst has five on the average
	w.later(d.duration("next", mean/20, 3*mean), "write/"+strconv.Itoa(n+1), func() { w.writeNext(n + 1) })
}

// writeNoise writes documents that the filter drops.
func (w *world) writeNoise(d dice) {
	count := d.between("noises", 1, 30)
	w.used("filtered", count)
	for i := range count {
		key := "k" + strconv.Itoa(d.pick("noise "+strconv.Itoa(i), w.swarm.keys))
		_, err := w.admin.Container(database, "items").Upsert(context.Background(), partitionKeyOf(key), document{ID: key + "-noise", Key: key, Noise: true})
		w.must(err)
	}
}

func (w *world) write(d dice) {
	key := "k" + strconv.Itoa(d.pick("key", w.swarm.keys))
	w.writeTo(d, key, fmt.Sprintf("%s-%d", key, d.pick("document", w.swarm.documents)))
}

func (w *world) writeTo(d dice, key, id string) {
	seq := w.written[key] + 1
	doc := document{ID: id, Key: key, Seq: seq, Gone: d.chance("gone", 0.2)}
	_, err := w.monitored.Upsert(context.Background(), partitionKeyOf(key), doc)
	w.must(err)
	lsn, err := strconv.ParseInt(w.writer.lsn, 10, 64)
	w.must(err)
	w.recordWrite(doc, lsn)
}
