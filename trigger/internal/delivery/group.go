package delivery

import "time"

// group is a set of changes that are delivered in one call. It is either a fresh
// batch, or it waits aside after a failure: then each of its order keys is waiting.
// The goroutine of its lane owns it.
type group struct {
	items []*Item
	keys  map[uint64]bool // order keys of the items; nil for a fresh batch
	retry RetryState
	later *group // later changes of the group's only key, to deliver after it; or nil

	suspect      bool      // see isolation.go
	suspectSince time.Time // start of the wait for the suspect slot
	due          time.Time // of the next call, while it waits aside
	isPaid       bool      // the rate allows its next call; a suspect may wait for the slot after that
}

// suspectParts returns the groups in which the changes of a group wait for the suspect slot.
func (g *group) suspectParts() []*group {
	if !g.suspect || len(g.items) == 1 {
		return []*group{g}
	}
	return g.halve()
}

// halve splits a group of two or more changes. If it has several keys, each key is
// whole in one half: the halves fail independently. If it has one key, the second
// half is delivered after the first, so that order is kept.
func (g *group) halve() []*group {
	half := len(g.items) / 2
	if len(g.keys) == 1 {
		later := &group{items: g.items[half:], keys: g.keys, later: g.later, suspect: g.suspect}
		return []*group{{items: g.items[:half:half], keys: g.keys, later: later, suspect: g.suspect}}
	}
	var order []uint64 // keys by their first change
	sizes := map[uint64]int{}
	for _, c := range g.items {
		if sizes[c.orderKey] == 0 {
			order = append(order, c.orderKey)
		}
		sizes[c.orderKey]++
	}
	first, second := &group{keys: map[uint64]bool{}, suspect: g.suspect}, &group{keys: map[uint64]bool{}, suspect: g.suspect}
	size := 0
	for i, key := range order {
		part := second
		if i == 0 || size < half && i < len(order)-1 {
			part, size = first, size+sizes[key]
		}
		part.keys[key] = true
	}
	for _, c := range g.items {
		part := second
		if first.keys[c.orderKey] {
			part = first
		}
		part.items = append(part.items, c)
	}
	return []*group{first, second}
}
