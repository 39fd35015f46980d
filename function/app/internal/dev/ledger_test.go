package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"halley/trigger"
)

func batch(docs ...versioned) trigger.Batch {
	var b trigger.Batch
	for _, d := range docs {
		raw, _ := json.Marshal(d)
		b.Changes = append(b.Changes, trigger.Change{Document: raw})
	}
	return b
}

func accepts(context.Context, trigger.Batch) error { return nil }

func TestLedgerCountsLostDocuments(t *testing.T) {
	l := newLedger([]string{"a", "b"})
	a, b := l.watch(0, accepts), l.watch(1, accepts)
	ctx := t.Context()
	steps := []struct {
		what                      string
		do                        func() error
		delivered, again, missing [2]int
	}{
		{"written", func() error { l.wrote("x", 1); return nil }, [2]int{0, 0}, [2]int{0, 0}, [2]int{1, 1}},
		{"one accepts", func() error { return a(ctx, batch(versioned{"x", 1})) }, [2]int{1, 0}, [2]int{0, 0}, [2]int{0, 1}},
		{"again", func() error { return a(ctx, batch(versioned{"x", 1})) }, [2]int{1, 0}, [2]int{1, 0}, [2]int{0, 1}},
		{"corrected", func() error { l.wrote("x", 2); return nil }, [2]int{1, 0}, [2]int{1, 0}, [2]int{1, 1}},
		{"newest only", func() error { return b(ctx, batch(versioned{"x", 2})) }, [2]int{1, 1}, [2]int{1, 0}, [2]int{1, 0}},
		{"old one again", func() error { return b(ctx, batch(versioned{"x", 1})) }, [2]int{1, 1}, [2]int{1, 1}, [2]int{1, 0}},
		{"before its answer", func() error { return a(ctx, batch(versioned{"x", 3})) }, [2]int{2, 1}, [2]int{1, 1}, [2]int{0, 0}},
		{"the answer", func() error { l.wrote("x", 3); return nil }, [2]int{2, 1}, [2]int{1, 1}, [2]int{0, 1}},
		{"of another run", func() error { return a(ctx, batch(versioned{"y", 7})) }, [2]int{3, 1}, [2]int{1, 1}, [2]int{0, 1}},
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		_, functions := l.totals()
		for i, f := range functions {
			if f.Delivered != s.delivered[i] || f.Redelivered != s.again[i] || f.Lost != s.missing[i] {
				t.Errorf("%s: %+v, want delivered %d, again %d, missing %d", s.what, f, s.delivered[i], s.again[i], s.missing[i])
			}
		}
	}
	if writes, _ := l.totals(); writes != 3 || l.lost() != 1 {
		t.Errorf("%d writes, %d lost", writes, l.lost())
	}
}

// TestLedgerCounts compares the running count of what is missing with a count
// of everything, over random histories.
func TestLedgerCounts(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := newLedger([]string{"a", "b", "c"})
		for range 200 {
			id, version := fmt.Sprint(random.IntN(5)), 1+random.IntN(6)
			switch i := random.IntN(3); random.IntN(5) {
			case 0, 1:
				l.wrote(id, version)
			case 2, 3:
				l.accept(i, []versioned{{id, version}})
			case 4:
				l.deadLettered(i, fmt.Sprint(id, i, version), versioned{id, version})
			}
			if random.IntN(50) == 0 {
				l.replayed(random.IntN(3), 0, []versioned{{id, version}})
			}
		}
		want := 0
		for _, e := range l.documents {
			for i := range e.seen {
				if e.seen[i] < e.written && e.kept[i] < e.written {
					want++
				}
			}
		}
		if got := l.lost(); got != want {
			t.Fatalf("seed %d: %d lost, want %d", seed, got, want)
		}
	}
}

// TestStoredDeadLettersCountAsHandled: a dead letter counts as handled until a
// replay, and after that only if it is still stored.
func TestStoredDeadLettersCountAsHandled(t *testing.T) {
	l := newLedger([]string{"a"})
	l.wrote("x", 2)
	l.wrote("y", 1)
	l.deadLettered(0, "letter of x@2", versioned{"x", 2})
	l.deadLettered(0, "letter of x@2", versioned{"x", 2}) // stored twice is stored once
	l.deadLettered(0, "letter of y", versioned{"y", 1})
	if _, f := l.totals(); f[0].Lost != 0 || f[0].DeadLettered != 2 {
		t.Errorf("with letters: %+v", f[0])
	}
	l.accept(0, []versioned{{"x", 2}}) // replayed
	l.replayed(0, 1, []versioned{{"y", 1}})
	if _, f := l.totals(); f[0].Lost != 0 || f[0].Replayed != 1 || f[0].DeadLettersLeft != 1 {
		t.Errorf("after the replay: %+v", f[0])
	}
	l.replayed(0, 0, nil)
	if _, f := l.totals(); f[0].Lost != 1 || f[0].DeadLettersLeft != 0 {
		t.Errorf("after the store forgot y: %+v", f[0])
	}
}

func TestPoisonFailsHandlersUntilCured(t *testing.T) {
	p := &poison{oneIn: 3}
	handle := p.into(accepts)
	bad := 0
	for i := range 3000 {
		if handle(t.Context(), batch(versioned{fmt.Sprint("doc", i), 1})) != nil {
			bad++
		}
	}
	if bad < 850 || bad > 1150 {
		t.Errorf("%d of 3000 are poison, want one in three", bad)
	}
	p.cured.Store(true)
	if p.in("doc1") || p.in("doc2") || p.in("doc3") || (&poison{}).in("x") || !(&poison{oneIn: 1}).in("x") {
		t.Error("poison that is cured, none, or all")
	}
}

func TestFailedBatchIsNotDelivered(t *testing.T) {
	l := newLedger([]string{"a"})
	l.wrote("x", 1)
	handle := l.watch(0, func(context.Context, trigger.Batch) error { return errors.New("no") })
	if err := handle(t.Context(), batch(versioned{"x", 1})); err == nil || l.lost() != 1 {
		t.Errorf("error %v, lost %d, want the handler's verdict and 1", err, l.lost())
	}
}

func TestHandledDocumentsOfFailedBatchAreDelivered(t *testing.T) {
	l := newLedger([]string{"a"})
	l.wrote("x", 1)
	l.wrote("y", 1)
	handle := l.watch(0, func(_ context.Context, b trigger.Batch) error { return trigger.Failed(errors.New("no"), b.Changes[1]) })
	b := trigger.NewBatch(batch(versioned{"x", 1}, versioned{"y", 1}).Changes...)
	if err := handle(t.Context(), b); err == nil || l.lost() != 1 || l.functions[0].Delivered != 1 {
		t.Errorf("error %v, lost %d, %d delivered", err, l.lost(), l.functions[0].Delivered)
	}
}

func TestHandlerMayChangeDocuments(t *testing.T) {
	l := newLedger([]string{"a"})
	l.wrote("x", 1)
	handle := l.watch(0, func(_ context.Context, b trigger.Batch) error {
		clear(b.Changes[0].Document)
		return nil
	})
	if err := handle(t.Context(), batch(versioned{"x", 1})); err != nil || l.lost() != 0 {
		t.Errorf("error %v, lost %d", err, l.lost())
	}
}
