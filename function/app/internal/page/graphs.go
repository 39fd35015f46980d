package page

import (
	"sort"
	"time"
)

// Bounds of the graphs: an hour for each function, in 2 kB.
const (
	graphSlots = 60
	graphEvery = time.Minute
)

// Graph is the last hour of a function on this host, in minutes, the oldest first.
type Graph struct {
	Function string  `json:"function"`
	Behind   []int64 `json:"behind"`  // changes behind at the end of the minute; -1 is not known
	Handled  []int64 `json:"handled"` // changes
	Failed   []int64 `json:"failed"`  // calls
	Letters  []int64 `json:"letters"` // changes that were dead-lettered
}

// counts are the events of a minute, and the last sample of the lag.
type counts struct {
	handled, failed, letters int64
	behind                   int64 // changes; -1 is not known
}

// minutes are the slots of one function.
type minutes struct {
	slots [graphSlots]counts
	last  int64 // number of the newest slot
}

// at returns the slot of a time, after it has emptied those that have passed since the newest.
func (m *minutes) at(now time.Time) *counts {
	slot := now.UnixNano() / int64(graphEvery)
	m.last = max(m.last, slot-graphSlots)
	for ; m.last < slot; m.last++ {
		m.slots[(m.last+1)%graphSlots] = counts{behind: -1}
	}
	return &m.slots[slot%graphSlots]
}

// graphs are the minutes of each function: a part of the recorder, whose lock guards it.
type graphs map[string]*minutes

// at returns the counts of a function at a time.
func (g *graphs) at(function string, now time.Time) *counts {
	if *g == nil {
		*g = graphs{}
	}
	m := (*g)[function]
	if m == nil {
		m = &minutes{}
		(*g)[function] = m
	}
	return m.at(now)
}

// list returns the graphs of all functions, by name.
func (g graphs) list(now time.Time) []Graph {
	all := make([]Graph, 0, len(g))
	for name, m := range g {
		m.at(now)
		graph := Graph{Function: name}
		for i := range int64(graphSlots) {
			c := m.slots[(m.last+1+i)%graphSlots]
			graph.Behind, graph.Handled = append(graph.Behind, c.behind), append(graph.Handled, c.handled)
			graph.Failed, graph.Letters = append(graph.Failed, c.failed), append(graph.Letters, c.letters)
		}
		all = append(all, graph)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Function < all[j].Function })
	return all
}
