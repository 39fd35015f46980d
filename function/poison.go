package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"sync/atomic"

	"halley/trigger"
)

// poison makes one in so many documents such that every handler refuses them,
// until they are cured. Which ones follows from their ids; 0 is none.
type poison struct {
	oneIn int
	cured atomic.Bool
}

func (p *poison) in(id string) bool {
	if p.oneIn == 0 || p.cured.Load() {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()%uint64(p.oneIn) == 0
}

// into refuses batches with a poison document in them, ahead of the handler.
func (p *poison) into(handle trigger.Handler) trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		for _, c := range b.Changes {
			if d := versionedOf(c.Document); p.in(d.ID) {
				return fmt.Errorf("document %s is poison", d.ID)
			}
		}
		return handle(ctx, b)
	}
}

// versionedOf reads a document; one that is not the writer's is version 0.
func versionedOf(document json.RawMessage) (d versioned) {
	_ = json.Unmarshal(document, &d)
	return d
}

// notedLetters is a store whose letters function i of the ledger counts as handled.
type notedLetters struct {
	trigger.DeadLetters
	books *ledger
	i     int
}

// Put implements [trigger.DeadLetters].
func (n notedLetters) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := n.DeadLetters.Put(ctx, d)
	if err == nil {
		n.books.buried(n.i, d.ID, versionedOf(d.Document))
	}
	return err
}

// replay cures the poison and gives every letter to its handler again, oldest
// first. What is in the store after that, and only that, counts as handled
// without having been accepted.
func (s *session) replay(ctx context.Context) error {
	s.poison.cured.Store(true)
	for i, f := range s.world.functions {
		done, err := trigger.Replay(ctx, f.DeadLetters, f.Name, f.Handler, nil)
		if err != nil {
			return err
		}
		var left []versioned
		for d, err := range f.DeadLetters.List(ctx, f.Name) {
			if err != nil {
				return fmt.Errorf("dead letters of %s: %w", f.Name, err)
			}
			left = append(left, versionedOf(d.Document))
		}
		s.books.replayed(i, done.Handled, left)
	}
	return nil
}
