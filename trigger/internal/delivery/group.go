package delivery

import (
	"maps"
	"time"
)

// group is a set of changes that are delivered in one call. It is either a fresh
// batch, or it waits aside after a failure: then each of its order keys is waiting.
// The goroutine of its lane owns it.
type group struct {
	items []*Item
	keys  map[uint64]bool // order keys of the items; nil for a fresh batch
	retry RetryState
	rest  *group // later changes of the group's only key, to deliver after it; or nil

	suspect      bool      // see isolation.go
	suspectSince time.Time // start of the wait for the suspect slot
	due          time.Time // of the next call, while it waits aside
	paid         bool      // the rate allows its next call
}

// suspects returns the groups in which the changes of a group wait for the suspect slot,
// if they are suspects.
func (g *group) suspects(keyOf func(*Item) uint64) []*group {
	if !g.suspect || len(g.items) == 1 {
		return []*group{g}
	}
	return g.halve(keyOf)
}

// mergeItems merges two lists of changes by their positions. Each list keeps its order.
func mergeItems(a, b []*Item, position func(*Item) int64) []*Item {
	merged := make([]*Item, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if position(b[0]) < position(a[0]) {
			merged, b = append(merged, b[0]), b[1:]
		} else {
			merged, a = append(merged, a[0]), a[1:]
		}
	}
	return append(append(merged, a...), b...)
}

// policyView describes the group to Decide.
func (g *group) policyView() Group {
	return Group{Size: len(g.items), Suspect: g.suspect, Retry: g.retry}
}

// halve splits a group of two or more changes. If it has several keys, each key is
// whole in one half: the halves fail independently. If it has one key, the second
// half becomes the rest of the first, so that order is kept.
func (g *group) halve(keyOf func(*Item) uint64) []*group {
	half := len(g.items) / 2
	if len(g.keys) == 1 {
		rest := &group{items: g.items[half:], keys: maps.Clone(g.keys), rest: g.rest, suspect: g.suspect}
		return []*group{{items: g.items[:half:half], keys: g.keys, rest: rest, suspect: g.suspect}}
	}
	var order []uint64 // keys by their first change
	sizes := map[uint64]int{}
	for _, c := range g.items {
		key := keyOf(c)
		if sizes[key] == 0 {
			order = append(order, key)
		}
		sizes[key]++
	}
	first, second := &group{keys: map[uint64]bool{}, suspect: g.suspect}, &group{keys: map[uint64]bool{}, suspect: g.suspect}
	size := 0
	for i, key := range order {
		if i == 0 || size < half && i < len(order)-1 {
			first.keys[key] = true
			size += sizes[key]
		} else {
			second.keys[key] = true
		}
	}
	for _, c := range g.items {
		if first.keys[keyOf(c)] {
			first.items = append(first.items, c)
		} else {
			second.items = append(second.items, c)
		}
	}
	return []*group{first, second}
}
