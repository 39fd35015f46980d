//go:build !nodev

package dev

import (
	"cmp"
	"maps"
	"slices"
	"sync"

	"halley/function/app/internal/operatorpage"
	"halley/trigger"
)

// position is the progress of one function in one range.
type position struct {
	Function     string `json:"function"`
	Range        string `json:"range"` // lease token
	Host         string `json:"host"`  // its last owner
	Changes      int    `json:"changes"`
	LastLSN      int64  `json:"lastLsn"`      // of the last change that was accepted
	Continuation string `json:"continuation"` // in the lease
}

// positions follows the hosts' events.
type positions struct {
	mu     sync.Mutex
	known  map[[2]string]*position
	splits int // leases that were replaced at a split or merge
}

func newPositions() *positions { return &positions{known: map[[2]string]*position{}} }

// of returns the observer of one host.
func (p *positions) of(host string) func(trigger.Event) {
	return func(e trigger.Event) { p.observe(host, e) }
}

func (p *positions) observe(host string, e trigger.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := [2]string{e.Function, e.Range}
	if e.Kind == trigger.EventSplit {
		p.splits++
		delete(p.known, key)
		return
	}
	at, ok := p.known[key]
	if !ok {
		if e.Kind == trigger.EventReleased {
			return // the end of a range that split
		}
		at = &position{Function: e.Function, Range: e.Range}
		p.known[key] = at
	}
	at.Host = host
	at.Changes += e.Handled
	at.LastLSN = max(at.LastLSN, e.LastLSN)
	at.Continuation = cmp.Or(e.Continuation, at.Continuation)
}

// list returns the positions sorted by function and range.
func (p *positions) list() []position {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]position, 0, len(p.known))
	for _, at := range slices.SortedFunc(maps.Values(p.known), func(a, b *position) int {
		return cmp.Or(cmp.Compare(a.Function, b.Function), cmp.Compare(len(a.Range), len(b.Range)), cmp.Compare(a.Range, b.Range))
	}) {
		out = append(out, *at)
	}
	return out
}

// saved returns the continuations in the leases.
func (p *positions) saved() map[operatorpage.RangeKey]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[operatorpage.RangeKey]string{}
	for _, at := range p.known {
		all[operatorpage.RangeKey{Function: at.Function, Range: at.Range}] = at.Continuation
	}
	return all
}
