package trigger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// A loop stops at the first change that it is refused, and says so. Changes of keys that
// failed before are delivered among others later: the loop handled the ones before it in
// the batch, and only these.
func TestFailedFromLosesNothing(t *testing.T) {
	for _, sorts := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			const documents, keys = 600, 97
			for i := range documents {
				w.write(fmt.Sprint("player", i%keys), fmt.Sprint("doc", i))
			}
			tries, handled := map[string]int{}, map[string]bool{}
			last := map[string]int64{} // LSN by key
			summary, err := w.host("a", func(_ context.Context, b Batch) error {
				if !slices.IsSortedFunc(b.Changes, func(a, b Change) int { return int(a.LSN - b.LSN) }) {
					t.Error("a batch is not in feed order")
				}
				loop := slices.Clone(b.Changes)
				if sorts {
					rand.Shuffle(len(b.Changes), func(i, k int) { b.Changes[i], b.Changes[k] = b.Changes[k], b.Changes[i] })
				}
				for _, c := range loop {
					if tries[c.ID()]++; c.LSN%29 == 7 && tries[c.ID()] <= 3 {
						return FailedFrom(errors.New("refused"), c)
					}
					key := string(c.PartitionKey())
					if handled[c.ID()] || c.LSN < last[key] {
						t.Errorf("%s at lsn %d is handled after lsn %d of its key", c.ID(), c.LSN, last[key])
					}
					handled[c.ID()], last[key] = true, c.LSN
				}
				return nil
			}).Drain(t.Context())
			must(t, err)
			if len(handled) != documents || summary.Drained != 1 || summary.Behind != 0 || summary.Retries < 20 {
				t.Errorf("%d of %d handled, summary %+v", len(handled), documents, summary)
			}
		})
	}
}

// A handler keeps changes and names them in a later call: of another attempt, of a call
// before, of another range or another host. It has not said which changes of this call it
// handled, so all are delivered again.
func TestChangesOfOtherCallsFailWholeBatch(t *testing.T) {
	verdicts := map[string]func(error, Change) error{
		"failed":      func(err error, c Change) error { return Failed(err, c) },
		"failed from": FailedFrom,
	}
	for name, verdict := range verdicts {
		inWorld(t, 2, func(t *testing.T, w *world) {
			w.writeMany("doc", 40)
			record := w.recorder("a")
			kept := map[string]Change{} // the third of the last call in each range
			named := 0
			handler := func(ctx context.Context, b Batch) error {
				others := []Change{kept[b.Range.ID], kept["0"], kept["1"]}
				if len(b.Changes) > 2 {
					kept[b.Range.ID] = b.Changes[2]
				}
				if b.Attempt < 4 && others[b.Attempt-1].ID() != "" {
					named++
					return verdict(errors.New("bad"), others[b.Attempt-1])
				}
				return record(ctx, b)
			}
			for _, owner := range []string{"a", "b", "c"} {
				_, err := w.host(owner, handler, withoutBisection, func(_ *Function, o *Options) { o.Parallel = 1 }).Drain(t.Context())
				must(t, err)
				w.checkComplete(0)
				w.writeMany(owner, 40)
			}
			if named < 12 {
				t.Errorf("%s: %d calls named changes of others", name, named)
			}
		})
	}
}

// Changes of several keys that become due together are delivered in the order in which
// they were written.
func TestPostponedChangesAreDeliveredInFeedOrder(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for i := range 30 {
			w.write(fmt.Sprint("player", i%7), fmt.Sprint("doc", i))
		}
		record := w.recorder("a")
		largest, began := 0, time.Now()
		stop := w.startHost(w.host("a", func(ctx context.Context, b Batch) error {
			if time.Since(began) < time.Hour {
				return RetryAfter(errors.New("not now"), time.Hour)
			}
			largest = max(largest, len(b.Changes))
			if !slices.IsSortedFunc(b.Changes, func(a, b Change) int { return int(a.LSN - b.LSN) }) {
				t.Error("a batch is not in feed order")
			}
			return record(ctx, b)
		}, withStore(&memoryStore{})))
		time.Sleep(2 * time.Hour)
		stop()
		w.checkComplete(0)
		if largest < 7 {
			t.Errorf("batches of %d changes at most", largest)
		}
	})
}

// The changes that a call handled count, also if the call failed on others.
func TestHandledChangesOfFailedCallsAreCounted(t *testing.T) {
	for name, verdict := range map[string]func(error, Change) error{
		"failed":      func(err error, c Change) error { return Failed(err, c) },
		"failed from": FailedFrom,
		"given up":    func(err error, c Change) error { return Skip(Failed(err, c)) },
		"postponed":   func(err error, c Change) error { return RetryAfter(Failed(err, c), time.Hour) },
	} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			w.writeMany("doc", 6)
			var h *Host
			status := 0
			h = w.host("a", func(_ context.Context, b Batch) error {
				if b.Attempt == 1 {
					return verdict(errors.New("bad"), b.Changes[5])
				}
				status = h.Status().Functions[0].Ranges[0].Changes
				return nil
			}, withStore(&memoryStore{}))
			summary, err := h.Drain(t.Context())
			must(t, err)
			repeats := map[string]int{"failed": 1, "failed from": 1}[name]
			if summary.Changes != 5+repeats || summary.Retries != 1 || summary.Batches != repeats {
				t.Errorf("%s: summary %+v", name, summary)
			}
			if repeats == 1 && status != 5 {
				t.Errorf("%s: %d changes in status before the retry, want 5", name, status)
			}
			handled := 0
			for _, e := range w.events {
				if handled += e.Handled; e.Kind == EventDelivered && e.Handled != e.Changes || e.Kind == EventDeliveryFailed && e.Handled != 5 {
					t.Errorf("%s: event %+v", name, e)
				}
			}
			if handled != summary.Changes {
				t.Errorf("%s: %d handled in events, summary %+v", name, handled, summary)
			}
		})
	}
}

// A handler skips a document without a name. Its batch is halved until that one is alone,
// without waiting; all others are handled, wherever the document is in the batch.
func TestSkipWithoutNameGivesUpOneDocument(t *testing.T) {
	for _, place := range []int{0, 1, 37, 98, 99} {
		for _, wrap := range []func(error) error{
			Skip,
			func(err error) error {
				return fmt.Errorf("wrapped: %w", errors.Join(Skip(err), Skip(Failed(err, Change{LSN: 1}))))
			},
		} {
			inWorld(t, 1, func(t *testing.T, w *world) {
				for i := range 100 {
					id := fmt.Sprint("doc", i)
					if i == place {
						id = "poison"
					}
					w.write(fmt.Sprint("player", i%40), id)
				}
				store, record, began := &memoryStore{}, w.recorder("a"), time.Now()
				var failed time.Duration // until the last failed call
				summary, err := w.host("a", func(ctx context.Context, b Batch) error {
					for _, c := range b.Changes {
						if isPoison(&c) {
							failed = time.Since(began)
							err := wrap(errors.New("cannot be read"))
							if v := b.Judge(err); v.Halved == (len(b.Changes) == 1) || v.GivenUp == v.Halved || len(v.Failed) != len(b.Changes) {
								t.Errorf("verdict %v on %d changes", v, len(b.Changes))
							}
							return err
						}
					}
					return record(ctx, b)
				}, withStore(store), func(f *Function, _ *Options) { f.BlockKeys = false }).Drain(t.Context())
				must(t, err)
				delete(w.written, "poison")
				w.checkComplete(0)
				if got := store.documentIDs(); len(got) != 1 || got[0] != "poison" || store.deadLetters[0].Attempts != 1 {
					t.Errorf("dead letters %v", store.deadLetters)
				}
				if summary.Changes != 99 || summary.DeadLetters != 1 || summary.Retries > 8 || failed > time.Second {
					t.Errorf("isolated after %v, summary %+v", failed, summary)
				}
				if n := w.eventCount(EventStalled); n > 0 {
					t.Errorf("%d stalls", n)
				}
			})
		}
	}
}

// Without bisection a batch that is given up without a name is given up as a whole.
func TestSkipWithoutBisectionGivesUpBatch(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.writeMany("doc", 10)
		store := &memoryStore{}
		summary, err := w.host("a", func(_ context.Context, b Batch) error {
			err := Skip(errors.New("cannot be read"))
			if v := b.Judge(err); !v.GivenUp || v.Halved {
				t.Errorf("verdict %v", v)
			}
			return err
		}, withStore(store), withoutBisection).Drain(t.Context())
		must(t, err)
		if len(store.documentIDs()) != 10 || summary.Retries != 1 {
			t.Errorf("summary %+v", summary)
		}
	})
}

// A document that is skipped without a name says nothing about the sink: another key that
// fails waits no longer for its retry.
func TestHalvingDoesNotCountForSink(t *testing.T) {
	retried := map[bool]time.Duration{}
	for _, skips := range []bool{false, true} {
		inWorld(t, 1, func(t *testing.T, w *world) {
			for i := range 128 {
				w.write(fmt.Sprint("player", i), fmt.Sprint("doc", i))
			}
			w.write("k", "failing")
			began := time.Now()
			tries := 0
			_, err := w.host("a", func(_ context.Context, b Batch) error {
				switch {
				case b.Changes[len(b.Changes)-1].ID() == "failing":
					if tries++; tries < 4 {
						return Failed(errors.New("not now"), b.Changes[len(b.Changes)-1])
					}
					retried[skips] = time.Since(began)
				case skips && len(b.Changes) > 1:
					return Skip(errors.New("cannot be read"))
				}
				return nil
			}, withStore(&memoryStore{})).Drain(t.Context())
			must(t, err)
		})
	}
	if slow, quick := retried[true], retried[false]; slow > quick+100*time.Millisecond {
		t.Errorf("the fourth call with a failing key is after %v, without skips after %v", slow, quick)
	}
}
