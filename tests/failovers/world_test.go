package failovers

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

const (
	expiration = time.Minute
	acquire    = 13 * time.Second
	accountAge = 6 * time.Minute  // after 5, and with the next request, a client reads the account again
	trusted    = 45 * time.Second // an owner trusts its lease for 54 s after a write, and renews it every 17 s
	// promptAgain is the time in which a range continues whose owner lives and trusts its lease.
	promptAgain = 10 * time.Second
)

// world is an account, its hosts and their history. The goroutine of the test owns it, except for
// the fields that mu guards.
type world struct {
	t         *testing.T
	seed      uint64
	dice      *rand.Rand
	working   way  // how hosts work
	isSlow    bool // some handler calls take long
	backlog   int  // documents that are written at once
	feed      source
	options   emulator.Options
	account   *emulator.Account
	container *cosmos.Container // as the writer sees it
	hosts     []*host
	started   int               // hosts, ever
	writers   map[string]string // region that takes the writes, by container and range
	running   sync.WaitGroup
	log       *slog.Logger

	lossy     []lossyFailover
	formerly  map[string]bool // regions that have taken the writes of leases
	disturbed time.Time       // end of the last event that may delay a delivery
	mended    []recovery
	accountAt time.Time // last failover of the account
	wentBack  bool      // the account has failed over twice between two reads of it

	mu         sync.Mutex
	writes     map[string]write // by name
	deliveries []delivery
	acquired   []acquisition
	queue      []*message
	unsent     time.Time // when a host has last died between a mark and its message
	counted    int       // failovers that hit a held lease
}

// host is one process.
type host struct {
	name  string
	began time.Time
	dead  atomic.Bool
	stop  context.CancelFunc
	ended chan struct{}
}

// recovery is a time in which nothing happens after a failover.
type recovery struct {
	from, until time.Time
	bound       time.Duration // after which deliveries continue
}

// delivery is a change as a handler got it.
type delivery struct {
	change
	at    time.Time
	host  *host
	token string
	epoch int64
}

// acquisition is a lease that a host has acquired.
type acquisition struct {
	at    time.Time
	host  *host
	token string
	epoch int64
}

// way is how hosts get to work.
type way int

const (
	runs       way = iota // all the time
	drains                // again and again, as the timer mode does
	dispatches            // likewise, and a queue spreads the ranges
)

// lossyFailover is an unplanned failover of the leases.
type lossyFailover struct {
	at       time.Time
	isReturn bool // to a region that took their writes before
}

// message is one of the queue.
type message struct {
	trigger.RangeTask
	visible time.Time
}

// lifeline is the connection of a host: a dead one gets no answers.
type lifeline struct {
	account *emulator.Account
	host    *host
}

func (l lifeline) Do(req *http.Request) (*http.Response, error) {
	if l.host.dead.Load() {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	return l.account.Do(req)
}

func newWorld(t *testing.T, seed uint64, log *slog.Logger) *world {
	w := &world{t: t, seed: seed, dice: rand.New(rand.NewPCG(seed, 1)), writes: map[string]write{}, log: log, disturbed: time.Now()}
	w.options = emulator.Options{
		Regions:           []string{"West Europe", "North Europe", "East US"}[:2+w.dice.IntN(2)],
		PartitionFailover: w.chance(0.6),
		ReplicationLag:    time.Duration(w.dice.IntN(4000)) * time.Millisecond,
		Manners: emulator.Manners{
			CutBelowNext: w.chance(0.5), FullAsCut: w.chance(0.5), IdleKeepsETag: w.chance(0.3), OwnLSNs: w.chance(0.5), EmptyPages: w.chance(0.3),
			RefuseAhead: w.chance(0.3), HideCommitted: w.chance(0.1), FailoverKeepsVersion: w.chance(0.3), FailoverSkipsLSNs: w.chance(0.3),
		},
	}
	if w.chance(0.1) {
		w.options.ReplicationLag = w.between(4*time.Second, time.Minute)
	}
	w.options.Splitting = w.between(time.Second, 20*time.Second)
	w.writers, w.formerly = map[string]string{}, map[string]bool{w.options.Regions[0]: true}
	w.isSlow = w.chance(0.25)
	if w.chance(0.2) {
		w.backlog = 100 + w.dice.IntN(1500)
	}
	if w.chance(0.4) {
		w.working = []way{drains, dispatches}[w.dice.IntN(2)]
	}
	w.chooseFeed()
	var err error
	w.account, err = emulator.New(&w.options)
	w.must(err)
	admin := w.client(w.account, "")
	ctx := t.Context()
	w.must(admin.CreateDatabase(ctx, "db"))
	w.must(admin.CreateContainer(ctx, "db", cosmos.ContainerDefinition{
		ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/key"}}, Throughput: 10_000 * w.feed.ranges, Retention: w.feed.retention,
	}))
	w.must(admin.CreateContainer(ctx, "db", cosmos.ContainerDefinition{ID: "leases", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}}))
	w.container = admin.Container("db", "items")
	w.beginFeed()
	return w
}

func (w *world) chance(p float64) bool { return w.dice.Float64() < p }

// between returns a duration between two, both of which are at least a millisecond.
func (w *world) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.dice.Int64N(int64(high-low)+1))
}

func (w *world) must(err error) {
	if err != nil {
		w.t.Helper()
		w.t.Fatalf("seed %d: %v", w.seed, err)
	}
}

func (w *world) client(transport interface {
	Do(*http.Request) (*http.Response, error)
}, preferred string) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	w.must(err)
	o := &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}}
	if preferred != "" {
		o.PreferredRegions = []string{preferred}
	}
	client, err := cosmos.NewClient(w.account.Endpoint(), cred, o)
	w.must(err)
	return client
}

// start starts a host.
func (w *world) start() {
	w.started++
	h := &host{name: fmt.Sprint("host", w.started), began: time.Now(), ended: make(chan struct{})}
	preferred := ""
	if w.chance(0.5) {
		preferred = w.options.Regions[w.dice.IntN(len(w.options.Regions))]
	}
	client := w.client(lifeline{w.account, h}, preferred)
	f := trigger.Function{
		FeedSource:   trigger.FeedSource{Name: "f", Container: client.Container("db", "items"), ChangeFeedMode: w.feed.mode, StartFrom: w.feed.start},
		LostPosition: "seek",
		RateLimits:   trigger.RateLimits{FeedPollMin: 2 * time.Second, FeedPollDelay: 4 * time.Second}, // fewer requests
		Handler:      func(ctx context.Context, b trigger.Batch) error { return w.handle(ctx, h, b) },
	}
	o := trigger.Options{
		Owner: h.name, LeaseExpirationInterval: expiration, LeaseAcquireInterval: acquire,
		Logger: w.log.With(slog.String("host", h.name)), Observers: []func(trigger.Event){func(e trigger.Event) { w.observe(h, e) }},
	}
	runner, err := trigger.New(client.Container("db", "leases"), []trigger.Function{f}, &o)
	w.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	h.stop = cancel
	w.hosts = append(w.hosts, h)
	w.running.Go(func() {
		defer close(h.ended)
		err := w.run(ctx, h, runner)
		if err != nil && !h.dead.Load() {
			w.t.Errorf("seed %d: %s: %v", w.seed, h.name, err)
		}
	})
}

// run works until ctx ends. A drain may fail while the account does.
func (w *world) run(ctx context.Context, h *host, runtime *trigger.Host) error {
	if w.working == runs {
		return runtime.Run(ctx)
	}
	for ctx.Err() == nil {
		if w.working == drains {
			_, _ = runtime.Drain(ctx)
		} else {
			w.dispatch(ctx, h, runtime)
		}
		tick := time.NewTimer(15 * time.Second)
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
		}
	}
	return nil
}

// dispatch sends the messages of one tick to the queue, and handles those that are there. The message
// of a host that dies comes back.
func (w *world) dispatch(ctx context.Context, h *host, runtime *trigger.Host) {
	tasks, _, _ := runtime.Dispatch(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	if h.dead.Load() {
		w.unsent = time.Now()
		return
	}
	for _, task := range tasks {
		w.queue = append(w.queue, &message{RangeTask: task})
	}
	for _, m := range w.queue {
		if time.Now().Before(m.visible) {
			continue
		}
		m.visible = time.Now().Add(time.Minute)
		w.running.Go(func() {
			if _, err := runtime.DrainRange(ctx, m.Function, m.Range); err != nil || h.dead.Load() {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.queue = slices.DeleteFunc(w.queue, func(other *message) bool { return other == m })
		})
	}
}

// end stops a host in order, or kills it.
func (w *world) end(index int, kill bool) {
	h := w.hosts[index]
	w.hosts = slices.Delete(w.hosts, index, index+1)
	h.dead.Store(kill)
	h.stop()
}

func (w *world) handle(ctx context.Context, h *host, b trigger.Batch) error {
	if h.dead.Load() {
		return context.Canceled
	}
	w.mu.Lock()
	for _, c := range b.Changes {
		seen := w.changeOf(c.Document, c.ID(), c.PartitionKey(), c.LSN)
		w.deliveries = append(w.deliveries, delivery{seen, time.Now(), h, b.Range.ID, b.Epoch})
	}
	w.mu.Unlock()
	length := 20 * time.Millisecond
	if w.isSlow && b.Changes[0].LSN%13 == 0 {
		length = time.Duration(b.Changes[0].LSN%40) * time.Second
	}
	pause := time.NewTimer(length)
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *world) observe(h *host, e trigger.Event) {
	if e.Kind != trigger.EventAcquired || h.dead.Load() {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acquired = append(w.acquired, acquisition{time.Now(), h, e.Range, e.Epoch})
}
