package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"halley/tests/bench/rows"
	"halley/trigger"
	"halley/trigger/deadletter"
)

// errPoison is the answer of a handler to a batch with a poison document. It names no change.
var errPoison = errors.New("a poison document")

// poisonKey is a key with a poison document. The lock of poisonRun guards it.
type poisonKey struct {
	place    int       // number of the document
	behind   int       // rows behind the document that were not handled
	attempts int       // calls with the document alone
	tried    time.Time // end of the last of them
	done     time.Time // when the last row behind it was handled
}

// poisonRun follows the rows of package rows through the calls of a handler.
type poisonRun struct {
	refuses bool     // poison documents fail
	record  *os.File // of the handled rows; nil keeps none
	others  chan struct{}
	all     chan struct{}

	mu         sync.Mutex
	rows       []rows.Row
	handled    []bool
	recorded   map[int]bool // rows in the record when the run began, and not delivered since
	repeated   int          // rows of the record that were delivered again
	keys       map[int]*poisonKey
	left       int // rows of other keys that were not handled
	othersDone time.Time
	openKeys   int // poison keys with rows behind that were not handled
}

// newPoisonRun expects all rows that earlier processes have not recorded.
func newPoisonRun(s settings) (*poisonRun, error) {
	r := &poisonRun{
		refuses: s.Poison, others: make(chan struct{}), all: make(chan struct{}),
		rows: rows.Generate(s.Changes), handled: make([]bool, s.Changes), recorded: map[int]bool{}, keys: map[int]*poisonKey{},
	}
	for n, row := range r.rows {
		switch key := r.keys[row.Key]; {
		case row.IsPoison:
			r.keys[row.Key] = &poisonKey{place: n}
		case key != nil:
			key.behind++
		}
	}
	r.openKeys = len(r.keys)
	for _, row := range r.rows {
		if r.keys[row.Key] == nil {
			r.left++
		}
	}
	return r, r.openRecord(s.Record)
}

// openRecord reads the rows that earlier processes have handled, and appends to them.
func (r *poisonRun) openRecord(path string) error {
	if path == "" {
		return nil
	}
	read, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for ; len(read) >= recordSize; read = read[recordSize:] {
		n := int(binary.LittleEndian.Uint64(read[8:]))
		r.recorded[n] = true
		r.finish(n, time.Time{})
	}
	r.record, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return err
}

// recordSize is the length of an entry of the record: the time of the call's end in
// nanoseconds, and the number of the row.
const recordSize = 16

// handle is the handler.
func (r *poisonRun) handle(_ context.Context, b trigger.Batch) error {
	numbers := make([]int, len(b.Changes))
	for i, change := range b.Changes {
		var row struct{ N int }
		if err := json.Unmarshal(change.Document, &row); err != nil {
			return err
		}
		numbers[i] = row.N
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	var entries []byte
	for _, n := range numbers {
		if r.rows[n].IsPoison && r.refuses {
			if key := r.keys[r.rows[n].Key]; len(numbers) == 1 {
				key.attempts, key.tried = key.attempts+1, now
			}
			return errPoison
		}
		if r.recorded[n] {
			r.repeated++
			delete(r.recorded, n)
		}
		entries = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(entries, uint64(now.UnixNano())), uint64(n))
	}
	if r.record != nil {
		if _, err := r.record.Write(entries); err != nil {
			return err
		}
	}
	for _, n := range numbers {
		r.finish(n, now)
	}
	return nil
}

// finish counts a row that was handled.
func (r *poisonRun) finish(n int, now time.Time) {
	if r.handled[n] {
		return
	}
	r.handled[n] = true
	key := r.keys[r.rows[n].Key]
	if key == nil {
		if r.left--; r.left == 0 {
			r.othersDone = now
			close(r.others)
		}
		return
	}
	if n <= key.place {
		return
	}
	if key.behind--; key.behind == 0 {
		key.done = now
		if r.openKeys--; r.openKeys == 0 {
			close(r.all)
		}
	}
}

// poisonRows runs a host with default settings until the rows of all keys without a poison
// document are handled, with Whole until all rows are, or until the limit.
func poisonRows(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	letters, err := deadletter.NewContainer(leases, nil)
	if err != nil {
		return nil, err
	}
	r, err := newPoisonRun(s)
	if err != nil {
		return nil, err
	}
	name := s.Name
	if name == "" {
		name = fmt.Sprintf("bench-poison-%d", os.Getpid())
	}
	host, err := trigger.New(leases, []trigger.Function{{
		FeedSource: trigger.FeedSource{Name: name, Container: items, StartFrom: trigger.FromBeginning()}, Handler: r.handle, DeadLetters: letters,
	}}, s.leaseIntervals())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Limit)
	defer cancel()
	began, ended := time.Now(), make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	complete := r.wait(ctx, s.Whole)
	found := r.figures(began)
	found["complete"] = complete
	cancel()
	return found, <-ended
}

// leaseIntervals are the defaults, or an expiration with the intervals that fit it.
func (s settings) leaseIntervals() *trigger.Options {
	if s.Expiration == 0 {
		return nil
	}
	return &trigger.Options{LeaseExpirationInterval: s.Expiration, LeaseAcquireInterval: s.Expiration / 3, LeaseRenewInterval: s.Expiration / 3}
}

// wait returns 1 when the rows were handled, or 0 when ctx ends.
func (r *poisonRun) wait(ctx context.Context, whole bool) float64 {
	ends := []chan struct{}{r.others}
	if whole {
		ends = append(ends, r.all)
	}
	for _, end := range ends {
		select {
		case <-end:
		case <-ctx.Done():
			return 0
		}
	}
	return 1
}

// figures are those of the run so far. A time that has not come is now.
func (r *poisonRun) figures(began time.Time) figures {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	found := figures{"left": float64(r.left), "repeated": float64(r.repeated), "peakMiB": residentMiB("VmHWM")}
	others := r.othersDone
	if r.left > 0 {
		others = now
	}
	found["othersSeconds"] = others.Sub(began).Seconds()
	found["leastAttempts"] = float64(len(r.rows))
	for _, key := range r.keys {
		found["leastAttempts"] = min(found["leastAttempts"], float64(key.attempts))
		found["mostAttempts"] = max(found["mostAttempts"], float64(key.attempts))
		if done := key.done; !key.tried.IsZero() {
			if key.behind > 0 {
				done = now
			}
			found["behindSeconds"] = max(found["behindSeconds"], done.Sub(key.tried).Seconds())
		}
	}
	return found
}
