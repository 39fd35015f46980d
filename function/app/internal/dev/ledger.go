package dev

import (
	"context"
	"encoding/json"
	"sync"

	"halley/trigger"
)

// ledger compares the writer's documents with those that each function accepted or
// dead-lettered. A document is lost to a function if its newest version is neither:
// the feed may skip a version that was overwritten, but never the newest. It does not
// know which documents a function with a filter should get, so these lose none.
type ledger struct {
	mu        sync.Mutex
	documents map[string]*entry
	writes    int // acknowledged, updates included
	functions []accepted
	stored    map[string]bool // ids of dead letters
	loose     bool            // no load counts versions: each accepted change is a delivery
}

// entry is one document; version 0 is none.
type entry struct {
	written int   // newest version that was acknowledged
	seen    []int // newest version that each function accepted
	kept    []int // newest version of which each function has a dead letter
}

// has returns the newest version that function i accepted or dead-lettered.
func (e *entry) has(i int) int { return max(e.seen[i], e.kept[i]) }

// accepted counts the documents of one function.
type accepted struct {
	Name            string `json:"name"`
	Delivered       int    `json:"delivered"`
	Redelivered     int    `json:"redelivered"`     // the same version again, or an older one
	DeadLettered    int    `json:"deadLettered"`    // changes that were given up and stored
	Replayed        int    `json:"replayed"`        // dead letters that were accepted at the end
	DeadLettersLeft int    `json:"deadLettersLeft"` // dead letters that are still stored
	Lost            int    `json:"lost"`            // documents of the load whose newest version is missing
	Behind          int64  `json:"behind"`          // changes that are not checkpointed, or transactions
	Problem         string `json:"problem,omitempty"`

	filters bool // it does not get all documents
}

// isMissing reports whether a function lacks the newest version of a document.
func (f *accepted) isMissing(e *entry, i int) bool { return !f.filters && e.has(i) < e.written }

func newLedger(functions []string) *ledger {
	l := &ledger{documents: map[string]*entry{}, stored: map[string]bool{}}
	for _, name := range functions {
		l.functions = append(l.functions, accepted{Name: name})
	}
	return l
}

// versioned holds the fields of a document that the ledger reads.
type versioned struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
}

// versionedOf reads a document; one without a version is version 1.
func versionedOf(document json.RawMessage) (d versioned) {
	_ = json.Unmarshal(document, &d)
	d.Version = max(d.Version, 1)
	return d
}

// wrote records a write that the account acknowledged.
func (l *ledger) wrote(id string, version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writes++
	e := l.entry(id)
	for i := range l.functions {
		if f := &l.functions[i]; !f.filters && !f.isMissing(e, i) && e.has(i) < version {
			f.Lost++
		}
	}
	e.written = max(e.written, version)
}

// watch wraps the handler of function i and records the documents that it accepts.
// They are decoded before the call, because the handler may change them.
func (l *ledger) watch(i int, handle trigger.Handler) trigger.Handler {
	return func(ctx context.Context, b trigger.Batch) error {
		docs := make([]versioned, len(b.Changes))
		for j, c := range b.Changes {
			docs[j] = versionedOf(c.Document)
		}
		err := handle(ctx, b)
		if err != nil { // it may have handled some
			docs = docs[:0]
			for _, c := range b.Judge(err).Handled {
				docs = append(docs, versionedOf(c.Document))
			}
		}
		l.accept(i, docs)
		return err
	}
}

func (l *ledger) accept(i int, docs []versioned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.functions[i]
	for _, d := range docs {
		if l.loose || d.Version == 0 { // not written by the load
			f.Delivered++
			continue
		}
		e := l.entry(d.ID)
		if d.Version <= e.seen[i] {
			f.Redelivered++
			continue
		}
		f.Delivered++
		if f.isMissing(e, i) && d.Version >= e.written {
			f.Lost--
		}
		e.seen[i] = d.Version
	}
}

// deadLettered records that a dead letter of function i is durable. If it is stored
// again, it still counts once.
func (l *ledger) deadLettered(i int, id string, d versioned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, e := &l.functions[i], l.entry(d.ID)
	if !l.stored[id] {
		l.stored[id] = true
		f.DeadLettered++
	}
	if f.isMissing(e, i) && d.Version >= e.written {
		f.Lost--
	}
	e.kept[i] = max(e.kept[i], d.Version)
}

// replayed records a replay of function i and the dead letters left in its store.
func (l *ledger) replayed(i, handled int, left []versioned) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := &l.functions[i]
	f.Replayed, f.DeadLettersLeft, f.Lost = handled, len(left), 0
	for _, e := range l.documents {
		e.kept[i] = 0
	}
	for _, d := range left {
		e := l.entry(d.ID)
		e.kept[i] = max(e.kept[i], d.Version)
	}
	for _, e := range l.documents {
		if f.isMissing(e, i) {
			f.Lost++
		}
	}
}

func (l *ledger) entry(id string) *entry {
	e, ok := l.documents[id]
	if !ok {
		e = &entry{seen: make([]int, len(l.functions)), kept: make([]int, len(l.functions))}
		l.documents[id] = e
	}
	return e
}

// totals returns the counts so far.
func (l *ledger) totals() (writes int, functions []accepted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writes, append([]accepted{}, l.functions...)
}

// lost returns the lost documents of all functions. While the writer runs, this is
// how far the functions are behind.
func (l *ledger) lost() int {
	_, functions := l.totals()
	n := 0
	for _, f := range functions {
		n += f.Lost
	}
	return n
}
