package verify

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/deadletter"
)

// Of the end-to-end part: how many documents of how many keys are written, in three parts:
// for the first host, for the second one, and for the drain. The last one is poison.
const (
	endWrites = 60
	endKeys   = 6
	endPart   = endWrites / 3
)

// endFacts are the promises of Halley that the end-to-end part shows.
func endFacts() []fact {
	return []fact{
		{
			name: "end to end: handover", relies: "delivery at least once, in the order of each key", expected: "40 documents reach two hosts, the second continues where the first has stopped",
			meaning: "Halley loses or reorders changes on this account", grave: true, needs: needWrites,
			cost: price{fixed: 2 * endPart * costCreate, perRange: 140}, probe: func(ctx context.Context, s *session) (string, error) { return s.endToEnd().handover(ctx) },
		}, {
			name: "end to end: drain", relies: "invocations that drain", expected: "20 documents reach one drain, except for the poison one",
			meaning: "Halley loses or reorders changes on this account", grave: true, needs: needWrites,
			cost: price{fixed: endPart*costCreate + 15, perRange: 40}, probe: func(ctx context.Context, s *session) (string, error) { return s.endToEnd().drain(ctx) },
		}, {
			name: "end to end: dead letter", relies: "dead letters and their replay", expected: "the poison document is stored, and a replay delivers it and empties the store",
			meaning: "Halley loses changes that a handler refuses", grave: true, needs: needWrites,
			cost: price{fixed: 3*costQuery + 15}, probe: func(ctx context.Context, s *session) (string, error) { return s.endToEnd().replay(ctx) },
		},
	}
}

// endToEnd is a function on the scratch containers, and the oracle of its deliveries.
type endToEnd struct {
	s      *session
	source trigger.FeedSource
	store  *deadletter.Container

	mu        sync.Mutex     // guards the fields below it
	next      map[string]int // number of the next document of each key that was not delivered yet
	written   map[string]int // documents of each key
	delivered int            // documents, each counted once
	repeated  int
	broken    error // first breach of the promises
	cured     bool  // the poison is accepted
	progress  chan struct{}
}

// endToEnd returns the state that the facts share.
func (s *session) endToEnd() *endToEnd {
	if s.ends == nil {
		s.ends = &endToEnd{s: s, next: map[string]int{}, written: map[string]int{}, progress: make(chan struct{}, 1)}
		from := trigger.FromBeginning()
		if lsn := s.newest.lsn; len(s.ranges) == 1 && lsn > 0 {
			from = trigger.FromContinuation(position(lsn))
		} else if s.options.DataIsKnown {
			from = trigger.FromTime(s.client.Now().Add(-time.Minute))
		}
		s.ends.source = trigger.FeedSource{Name: s.run, Container: s.items, StartFrom: from}
	}
	return s.ends
}

func (e *endToEnd) function() trigger.Function {
	return trigger.Function{
		FeedSource: e.source, Handler: e.handle, DeadLetters: e.store,
		GiveUpPolicy: trigger.GiveUpPolicy{MaxAttempts: 2},
		RateLimits:   trigger.RateLimits{FeedPollMin: 200 * time.Millisecond, FeedPollDelay: time.Second},
		Checkpoint:   trigger.Checkpoint{Interval: 5 * time.Second},
	}
}

// poisonKey is the key of the document that the handler refuses.
const poisonKey = "poison"

// handle is the handler: it reports each document to the oracle.
func (e *endToEnd) handle(_ context.Context, b trigger.Batch) error {
	var refused []error
	for _, c := range b.Changes {
		key, n, ok := e.s.endDocument(c.ID())
		if !ok {
			continue // of another fact, or of somebody else
		}
		if err := e.deliver(key, n); err != nil {
			refused = append(refused, trigger.Failed(err, c))
		}
	}
	return errors.Join(refused...)
}

// endDocument takes the id of a document of the end-to-end part apart.
func (s *session) endDocument(id string) (key string, n int, ok bool) {
	text, ours := strings.CutPrefix(id, s.run+"-e-")
	key, digits, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(digits)
	return key, n, ours && err == nil
}

// deliver is the oracle: a key's documents come in order, from the first that is not
// finished or from before it, and without gaps.
func (e *endToEnd) deliver(key string, n int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if key == poisonKey && !e.cured {
		return errors.New("poison of verify-service")
	}
	switch next := e.next[key]; {
	case n == next:
		e.next[key]++
		e.delivered++
	case n < next:
		e.repeated++
	case e.broken == nil:
		e.broken = differs("document %d of a key came before document %d", n, next)
	}
	select {
	case e.progress <- struct{}{}:
	default:
	}
	return nil
}

// write stores documents in turns over the keys.
func (e *endToEnd) write(ctx context.Context, from, n int) error {
	for i := from; i < from+n; i++ {
		key := fmt.Sprint(i % endKeys)
		if i == endWrites-1 {
			key = poisonKey
		}
		e.mu.Lock()
		number := e.written[key]
		e.written[key]++
		e.mu.Unlock()
		value := e.s.run + "-e-" + key
		if _, err := e.s.items.Create(ctx, cosmos.NewPartitionKey(value), e.s.named(fmt.Sprintf("%s-%d", value, number), value)); err != nil {
			return err
		}
	}
	return nil
}

// endTime bounds the wait for the deliveries of one part.
const endTime = 90 * time.Second

// await waits until n documents were delivered.
func (e *endToEnd) await(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, errEndTime)
	defer cancel()
	for {
		e.mu.Lock()
		delivered, broken := e.delivered, e.broken
		e.mu.Unlock()
		switch {
		case broken != nil:
			return broken
		case delivered >= n:
			return nil
		}
		select {
		case <-e.progress:
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errEndTime) {
				return differs("%d of %d documents delivered within %v", delivered, n, endTime)
			}
			return context.Cause(ctx)
		}
	}
}

var errEndTime = errors.New("deliveries take too long")

// host makes a host of the function.
func (e *endToEnd) host(owner string) (*trigger.Host, error) {
	if e.store == nil {
		store, err := deadletter.NewContainer(e.s.leases, nil)
		if err != nil {
			return nil, err
		}
		e.store = store
	}
	return trigger.New(e.s.leases, []trigger.Function{e.function()}, &trigger.Options{
		Owner: owner, FeedPollDelay: time.Second, LeaseAcquireInterval: 2 * time.Second,
		LeaseRenewInterval: 5 * time.Second, LeaseExpirationInterval: 20 * time.Second,
	})
}

// running is a host and the end of its Run.
type running struct {
	stop context.CancelFunc
	done chan error
}

// run runs a host until stop is called.
func (e *endToEnd) run(ctx context.Context, owner string) (running, error) {
	host, err := e.host(owner)
	if err != nil {
		return running{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := running{stop, make(chan error, 1)}
	go func() { r.done <- host.Run(ctx) }()
	return r, nil
}

func (r running) end() error {
	r.stop()
	return <-r.done
}

// handover writes a part for a first host, and one for the second, which takes over when
// the first one stops.
func (e *endToEnd) handover(ctx context.Context) (seen string, err error) {
	first, err := e.run(ctx, e.s.run+"-first")
	if err != nil {
		return "", err
	}
	err = e.write(ctx, 0, endPart)
	if err == nil {
		err = e.await(ctx, endPart)
	}
	if err != nil {
		return "", firstError(err, first.end())
	}
	second, err := e.run(ctx, e.s.run+"-second")
	if err != nil {
		return "", firstError(err, first.end())
	}
	if err := first.end(); err != nil {
		return "", firstError(err, second.end())
	}
	err = e.write(ctx, endPart, endPart)
	if err == nil {
		err = e.await(ctx, 2*endPart)
	}
	if err := firstError(err, second.end()); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d documents delivered, %d of them again", e.delivered, e.repeated), nil
}

// firstError returns the first error.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// drain writes the last part and drains it with a third host.
func (e *endToEnd) drain(ctx context.Context) (string, error) {
	if e.delivered < 2*endPart {
		return "", unverified("the handover has not come to its end")
	}
	if err := e.write(ctx, 2*endPart, endPart); err != nil {
		return "", err
	}
	host, err := e.host(e.s.run + "-drain")
	if err != nil {
		return "", err
	}
	summary, err := host.Drain(ctx)
	switch {
	case err != nil:
		return "", err
	case ctx.Err() != nil:
		return "", context.Cause(ctx)
	case e.broken != nil:
		return "", e.broken
	case e.delivered != endWrites-1:
		return "", differs("%d of %d documents delivered", e.delivered, endWrites-1)
	case summary.DeadLetters != 1:
		return "", differs("%d dead letters of 1", summary.DeadLetters)
	}
	return fmt.Sprintf("%d documents delivered, 1 dead letter", endPart-1), nil
}

// replay delivers the dead letter again.
func (e *endToEnd) replay(ctx context.Context) (string, error) {
	if e.delivered < endWrites-1 {
		return "", unverified("the drain has not come to its end")
	}
	e.mu.Lock()
	e.cured = true
	e.mu.Unlock()
	source := e.function().DeadLetterSource()
	replayed, err := trigger.Replay(ctx, e.store, source, e.handle, nil)
	if err != nil {
		return "", err
	}
	if e.delivered != endWrites {
		return "", differs("the replay of %d dead letters has not delivered the document", replayed.Handled+replayed.Failed)
	}
	var kept []string
	for d, err := range trigger.AllDeadLetters(ctx, e.store, trigger.DeadLetterQuery{Source: source, Kind: trigger.RecordDead}) {
		if err != nil {
			return "", err
		}
		kept = append(kept, d.ID)
	}
	if len(kept) > 0 {
		return "", differs("%d dead letters are left", len(kept))
	}
	return "stored, delivered, removed", nil
}
