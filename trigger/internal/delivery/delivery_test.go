package delivery

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// range of a test: a feed of changes, a handler with faults, and a judge of the
// order in which calls start.
type testRange struct {
	t      *testing.T
	config Config
	handle func(items []*Item, attempt int) error // nil is success
	call   time.Duration                          // of the handler

	mu       sync.Mutex
	started  map[int64]time.Time // first call, by sequence number
	calls    int
	finished map[int64]string // "handled" or "dead", by sequence number
	dead     []DeadLetter
	deadIDs  []string
	lastKey  map[string]int64 // newest finished change of a key
	inCall   map[string]int64 // newest change of a key that is in a call
	position string
	released int
	charged  int
	filtered int
}

func newTestRange(t *testing.T) *testRange {
	return &testRange{
		t: t, started: map[int64]time.Time{}, finished: map[int64]string{}, lastKey: map[string]int64{}, inCall: map[string]int64{},
		config: Config{
			Policy: Policy{
				GiveUpPolicy: GiveUpPolicy{MaxAttempts: 3, BreakerLimit: -1}, RetryPolicy: RetryPolicy{RetryMin: 100 * time.Millisecond, RetryMax: 30 * time.Second},
			},
			BatchPolicy: BatchPolicy{Lanes: 1, MaxItemsPerInvocation: 100, BatchBytes: 4 << 20, MaxAhead: 1000, PageItems: 100}, SuspectSlot: make(chan struct{}, 1), KeyPaths: []string{"/key"},
		},
	}
}

var errBad = errors.New("bad change")

// run delivers pages to the end.
func (r *testRange) run(pages []*feed.Page) error { return r.deliver(r.delivery(), pages) }

func (r *testRange) delivery() *Delivery { return New(r.config, r, testStore{}) }

func (r *testRange) deliver(d *Delivery, pages []*feed.Page) error {
	source := make(chan *feed.Page)
	go func() { // ends with the pages, or with the test's bubble
		defer close(source)
		for _, page := range pages {
			source <- page
		}
	}()
	return d.Run(r.t.Context(), r.t.Context(), source)
}

// ReleasePage overwrites a page, as the next one that uses its memory would: a change
// that still needs it is then no document any more.
func (r *testRange) ReleasePage(page *feed.Page, _ bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.released++
	for i := range page.Items {
		for j := range page.Items[i].Document {
			page.Items[i].Document[j] = '#'
		}
	}
	clear(page.Items)
}

// checkBytes wants the documents of a call to be whole.
func (r *testRange) checkBytes(items []*Item) {
	for _, c := range items {
		if !json.Valid(c.Document) {
			r.t.Errorf("the document of change %d is %q", c.Seq, c.Document)
		}
	}
}

func (r *testRange) CallHandler(_ context.Context, _ int, items []*Item, attempt int) Verdict {
	r.checkBytes(items)
	r.begin(items)
	time.Sleep(r.call)
	err := r.handle(items, attempt)
	r.checkBytes(items)
	v := Verdict{Outcome: Handled}
	var partial *partialError
	switch {
	case errors.As(err, &partial):
		v = Verdict{Outcome: Failed, Err: err, FailedItems: partial.items}
	case err != nil:
		v = Verdict{Outcome: Failed, Err: err}
	}
	failed, handled := v.splitItems(items)
	r.mu.Lock()
	for _, c := range items {
		delete(r.inCall, keyText(c))
	}
	r.mu.Unlock()
	for _, c := range handled {
		r.finish(c, "handled")
	}
	_ = failed
	return v
}

type partialError struct{ items []*Item }

func (e *partialError) Error() string { return "some failed" }

func keyText(c *Item) string { return feed.PartitionKey(c.Item, []string{"/key"}) }

// begin checks that no change starts while an earlier one of its key is unfinished
// outside of the call, or is in another one.
func (r *testRange) begin(items []*Item) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	for _, c := range items {
		key := keyText(c)
		if other, isInCall := r.inCall[key]; isInCall && !slices.ContainsFunc(items, func(o *Item) bool { return o.Seq == other }) {
			r.t.Errorf("change %d of %s starts while %d is in another call", c.Seq, key, other)
		}
		if r.finished[c.Seq] != "" {
			r.t.Errorf("change %d is delivered after it was %s", c.Seq, r.finished[c.Seq])
		}
		r.inCall[key] = c.Seq
		if r.started[c.Seq].IsZero() {
			r.started[c.Seq] = time.Now()
		}
	}
	for i, c := range items {
		oldSeq := r.lastKey[keyText(c)]
		for _, o := range items[:i] {
			if keyText(o) == keyText(c) {
				oldSeq = o.Seq
			}
		}
		if want := previousOfKey(c); want != oldSeq {
			r.t.Errorf("change %d of %s starts after %d, want after %d", c.Seq, keyText(c), oldSeq, want)
		}
	}
}

func (r *testRange) finish(c *Item, outcome string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finished[c.Seq] = outcome
	r.lastKey[keyText(c)] = c.Seq
}

func (r *testRange) DeadLettered(_ int, c *Item, l DeadLetter) {
	r.finish(c, "dead")
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dead = append(r.dead, l)
	r.deadIDs = append(r.deadIDs, c.DocumentID())
}

func (r *testRange) AdvancePosition(position string, _ time.Time) {
	r.position = position
}

// changes makes pages of changes with the given keys. Each document says which change
// of its key came before it. Those with the key filteredKey do not pass the filter.
func changes(perPage int, keys ...string) []*feed.Page {
	var pages []*feed.Page
	seq := 0
	last := map[string]int{}
	for i, key := range keys {
		if i%perPage == 0 {
			pages = append(pages, &feed.Page{})
		}
		page := pages[len(pages)-1]
		if key != filteredKey {
			seq++
		}
		doc := fmt.Sprintf(`{"id":"%d","key":%q,"before":%d}`, seq, key, last[key])
		last[key] = seq
		page.Items = append(page.Items, cosmos.Item{LSN: int64(i + 1), Document: []byte(doc)})
		page.Continuation = feed.QuotedLSN(int64(i + 1))
	}
	return pages
}

const filteredKey = "filtered"

func passes(document, _ []byte) bool { return !bytes.Contains(document, []byte(`"`+filteredKey+`"`)) }

func previousOfKey(c *Item) int64 {
	n, _ := strconv.ParseInt(string(cosmos.Property(c.Document, "before")), 10, 64)
	return n
}

// complete checks that of n changes all were finished that passed the filter.
func (r *testRange) complete(n int) {
	r.t.Helper()
	if len(r.finished) != n-r.filtered {
		r.t.Errorf("%d of %d changes finished, %d filtered", len(r.finished), n, r.filtered)
	}
	if want := feed.QuotedLSN(int64(n)); r.position != want {
		r.t.Errorf("position %s, want %s", r.position, want)
	}
	if r.charged != 0 {
		r.t.Errorf("%d bytes stay charged", r.charged)
	}
}

// TestOrderPerKeyUnderFaults delivers random feeds to a handler with random
// failures, with random settings.
func TestOrderPerKeyUnderFaults(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 1))
				r := newTestRange(t)
				r.config.Lanes = 1 + random.IntN(3)
				r.config.NoBisection = random.IntN(4) == 0
				r.config.MergedRange = random.IntN(4) == 0
				r.config.MaxItemsPerInvocation = 1 + random.IntN(20)
				r.config.MaxAhead = 10 + random.IntN(100)
				r.config.PageItems = []int{0, 100, 1 + random.IntN(20)}[random.IntN(3)]
				r.config.Announce = random.IntN(3) == 0
				r.config.BatchWindow = time.Duration(random.IntN(3)) * 50 * time.Millisecond
				r.call = time.Duration(random.IntN(50)) * time.Millisecond
				poison, flaky := random.Float64()*0.05, random.Float64()*0.3
				r.config.Passes = passes
				filtered := max(0, random.Float64()*1.5-0.5)
				var keys []string
				for range 50 + random.IntN(200) {
					key := fmt.Sprint("k", random.IntN(1+random.IntN(30)))
					if random.Float64() < filtered {
						key = filteredKey
					}
					keys = append(keys, key)
				}
				isPoison := map[int64]bool{}
				for i := range keys {
					isPoison[int64(i+1)] = random.Float64() < poison
				}
				var mu sync.Mutex
				r.handle = func(items []*Item, _ int) error {
					mu.Lock()
					defer mu.Unlock()
					if random.Float64() < flaky {
						return errBad
					}
					var failed []*Item
					for _, c := range items {
						if isPoison[c.Seq] {
							failed = append(failed, c)
						}
					}
					switch {
					case len(failed) == 0:
						return nil
					case random.IntN(3) == 0: // the handler names them, and the later ones of their keys
						var named []*Item
						for _, c := range items {
							if slices.ContainsFunc(failed, func(f *Item) bool { return keyText(f) == keyText(c) && f.Seq <= c.Seq }) {
								named = append(named, c)
							}
						}
						return &partialError{named}
					}
					return errBad
				}
				if err := r.run(changes(1+random.IntN(30), keys...)); err != nil {
					t.Fatal(err)
				}
				r.complete(len(keys))
				for seq, outcome := range r.finished {
					if outcome == "dead" && !isPoison[seq] && flaky < 0.01 && !r.config.NoBisection {
						t.Errorf("change %d is dead-lettered, and not poison", seq)
					}
				}
			})
		})
	}
}

// TestPoisonDelaysOnlyItsKey: the other keys of the lane go on while it is retried.
func TestPoisonDelaysOnlyItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.MaxAttempts = 10
		r.call = 50 * time.Millisecond
		var keys []string
		for i := range 500 {
			key := fmt.Sprint("k", i)
			if i >= 250 && i%100 == 50 { // three changes of the poisoned key
				key = "poison"
			}
			keys = append(keys, key)
		}
		r.handle = func(items []*Item, _ int) error {
			for _, c := range items {
				if c.Seq == 251 {
					return errBad
				}
			}
			return nil
		}
		began := time.Now()
		if err := r.run(changes(100, keys...)); err != nil {
			t.Fatal(err)
		}
		r.complete(500)
		for seq, startTime := range r.started {
			if keys[seq-1] != "poison" && startTime.Sub(began) > 2*time.Second {
				t.Errorf("change %d starts %v after the begin", seq, startTime.Sub(began))
			}
		}
		if len(r.dead) != 1 || r.deadIDs[0] != "251" || r.dead[0].Attempts != 10 {
			t.Errorf("dead letters %v %+v, want 251 after 10 attempts", r.deadIDs, r.dead)
		}
	})
}

// TestOutageCostsFewCalls: while everything fails, one retry and one fresh batch are
// tried after each wait, and reading stops.
func TestOutageCostsFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.MaxAttempts = -1
		keys := make([]string, 2000)
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
		}
		up := time.Now().Add(10 * time.Minute)
		outage := 0
		r.handle = func([]*Item, int) error {
			if time.Now().Before(up) {
				outage++
				return errBad
			}
			return nil
		}
		if err := r.run(changes(100, keys...)); err != nil {
			t.Fatal(err)
		}
		r.complete(2000)
		if outage > 100 {
			t.Errorf("%d calls in an outage of 10 minutes", outage)
		}
		if late := time.Since(up); late > time.Minute {
			t.Errorf("everything is delivered %v after the outage", late)
		}
	})
}

// TestAsideReleasesPages: a failing change does not hold the bytes of its page.
func TestAsideReleasesPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestRange(t)
		r.config.MaxAttempts = -1
		var keys []string
		for i := range 400 {
			keys = append(keys, fmt.Sprint("k", i))
		}
		released := 0
		r.handle = func(items []*Item, attempt int) error {
			if items[0].Seq == 1 && len(items) == 1 && attempt > 12 {
				released = r.released
				return nil
			}
			for _, c := range items {
				if c.Seq == 1 {
					return errBad
				}
			}
			return nil
		}
		if err := r.run(changes(100, keys...)); err != nil {
			t.Fatal(err)
		}
		r.complete(400)
		if released != 4 {
			t.Errorf("%d of 4 pages were released while the first change failed", released)
		}
	})
}
