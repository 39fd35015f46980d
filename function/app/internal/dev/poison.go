//go:build !nodev

package dev

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"halley/function/app/internal/page"
	"halley/trigger"
)

// poison makes every handler fail on one in so many documents, until they are
// cured, and panic on those that the page names. The ids select them; 0 is none.
type poison struct {
	oneIn int
	cured atomic.Bool

	mu    sync.Mutex // guards named
	named map[string]bool
}

// name makes a document poison, or cures it.
func (p *poison) name(id string, isPoison bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isPoison {
		delete(p.named, id)
		return
	}
	if p.named == nil {
		p.named = map[string]bool{}
	}
	p.named[id] = true
}

// names returns the documents that the page has made poison.
func (p *poison) names() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.named))
}

func (p *poison) isNamed(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.named[id] && !p.cured.Load()
}

func (p *poison) in(id string) bool {
	if p.oneIn == 0 || p.cured.Load() {
		return false
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()%uint64(p.oneIn) == 0
}

// into fails batches that hold a poison document, before they reach the handler. If a
// viewer has edited a document, it is none any more.
func (p *poison) into(handle trigger.Handler) trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		if page.IsEdited(ctx) {
			return handle(ctx, b)
		}
		for _, c := range b.Changes {
			id := c.ID()
			if p.in(id) {
				return fmt.Errorf("document %s is poison", id)
			}
			if p.isNamed(id) {
				panic(fmt.Sprintf("document %s is poison", id))
			}
		}
		return handle(ctx, b)
	}
}

// notedDeadLetters is a store whose dead letters count as handled in the ledger,
// for its function i.
type notedDeadLetters struct {
	trigger.DeadLetters
	books *ledger
	i     int
}

// Put implements [trigger.DeadLetters].
func (n notedDeadLetters) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := n.DeadLetters.Put(ctx, d)
	if err == nil && !d.IsPostponed() {
		n.books.deadLettered(n.i, d.ID, versionedOf(d.Document))
	}
	return err
}
