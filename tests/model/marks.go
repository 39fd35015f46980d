package model

import (
	"fmt"
	"strings"
)

// MarkWorld is the setting of an exploration of key marks: the writes of a feed, the
// manner in which it is read, and how often each event may happen. Two documents have key
// 0, a third one has key 1.
type MarkWorld struct {
	Name string
	// Versions is the number of writes, deletes included.
	Versions int
	// AllVersions reads each version; otherwise the feed shows the newest version of a
	// document, and no deletes.
	AllVersions bool
	// Deletes lets documents be deleted.
	Deletes bool
	// Lagging serves pages from replicas that do not have the newest writes.
	Lagging bool
	// Buffers gives the owners a sink that keeps changes in memory until its handler
	// flushes them and requests a checkpoint.
	Buffers bool

	// How often each may happen.
	Acquires int // a host acquires the lease, also from a live owner
	Seeks    int // an operator sets the position
	Moves    int // a .NET owner or a tool moves the position and keeps the value
	Raises   int // a split gives a version a larger LSN
	Bulks    int // two keys are written at one LSN

	Rules MarkRules
}

// MarkRules are the mistakes that owners can make with key marks. If none is set, the
// model follows the protocol.
type MarkRules struct {
	ThroughUnread   bool // Q is the end of the feed, whose changes need not be admitted
	WaitingUnmarked bool // only changes in a call have marks, those that wait have none
	TornWrite       bool // Q is taken when the write lands, the marks when it was sent
	UnreadDropped   bool // inherited marks end with the owner, although it has not read up to the inherited Q
	SeekKeepsHere   bool // a seek to the same position keeps the value
	SeekKeepsValue  bool // a seek to another position keeps the value
	VoidKept        bool // an acquisition keeps a void value in the lease
	Unbound         bool // a value holds at any position of the lease
	CoveredByNumber bool // a request covers the changes that it counts, not only those that were flushed
	ListsLSNs       bool // a value lists the LSNs of unfinished changes instead of one mark for each key
}

// markModel is a world made ready for exploration.
type markModel struct{ MarkWorld }

// Explore searches a world. If progress is set, the work must be possible from every
// state.
func (w MarkWorld) Explore(workers int, progress bool) Result[markState] {
	if w.Versions > maxVersions {
		panic("world " + w.Name + " is larger than a state")
	}
	m := &markModel{w}
	q := &Search[markState]{Start: m.start(), Next: m.next, Bad: m.bad, Workers: workers}
	if progress {
		q.Goal = m.done
	}
	return q.Run()
}

func (m *markModel) start() markState {
	return markState{
		lease:    markLease{epoch: 1},
		acquires: uint8(m.Acquires), seeks: uint8(m.Seeks), moves: uint8(m.Moves), raises: uint8(m.Raises), bulks: uint8(m.Bulks),
	}
}

// next appends the steps out of a state.
func (m *markModel) next(s *markState, steps []Step[markState]) []Step[markState] {
	v := &markMoves{m: m, from: s, steps: steps}
	v.writes()
	v.leaseMoves()
	if s.owner.epoch != 0 {
		v.pages()
		v.calls()
	}
	return v.steps
}

// bad returns the promise that a state breaks, "" if it breaks none.
func (m *markModel) bad(s *markState) string {
	if s.broken == markKept && m.isIdle(s) {
		for key := range uint8(keyCount) {
			for i := range s.written {
				if m.visible(s, s.end())>>i&1 == 1 && keyOf(s.versions[i].doc) == key && s.isBehind(i, s.called[key]) {
					return markPromises[endsWithNewest]
				}
			}
		}
	}
	return markPromises[s.broken]
}

// isIdle reports whether the owner has nothing left to do.
func (m *markModel) isIdle(s *markState) bool {
	o := &s.owner
	return o.epoch != 0 && o.read == s.end() && o.items == [maxVersions]uint8{} && s.late == 0 && !m.Buffers
}

// done reports whether every change is handled. Without an owner, and without a further
// acquisition, no host can continue; that is not a fault of the protocol.
func (m *markModel) done(s *markState) bool {
	return s.owner.epoch == 0 && s.acquires == 0 || m.visible(s, s.end())&^s.handled == 0
}

// visible returns the versions that a replica shows if it has all writes up to an LSN.
func (m *markModel) visible(s *markState, lsn uint8) (set uint8) {
	var newest [docCount]uint8
	for i := range s.written {
		if v := s.versions[i]; v.lsn <= lsn {
			set |= 1 << i
			if before := newest[v.doc]; before != 0 && !m.AllVersions {
				set &^= 1 << (before - 1)
			}
			newest[v.doc] = i + 1
		}
	}
	for i := range s.written {
		if s.versions[i].live == 0 {
			set &^= 1 << i
		}
	}
	return set
}

// lost returns the versions of a set that must be handled and are not: no later version
// of their document has replaced them.
func (m *markModel) lost(s *markState, set uint8) uint8 {
	for i := range s.written {
		for j := i + 1; j < s.written && !m.AllVersions; j++ {
			if s.versions[j].doc == s.versions[i].doc {
				set &^= 1 << i
			}
		}
		if s.versions[i].live == 0 {
			set &^= 1 << i
		}
	}
	return set &^ s.handled
}

// Tell writes a trace as numbered lines, with the promise that its end breaks.
func (w MarkWorld) Tell(r Result[markState]) string {
	var b strings.Builder
	fmt.Fprintf(&b, "documents 0 and 1 of key 0, document 2 of key 1\n")
	lease := markLease{epoch: 1}
	for i, s := range r.Trace {
		text := strings.NewReplacer("{e}", fmt.Sprint(s.Host), "{n}", fmt.Sprint(s.N), "{v}", s.To.versionText(s.Lease)).Replace(s.Text)
		fmt.Fprintf(&b, "%3d  %s\n", i+1, text)
		if s.To.lease != lease {
			lease = s.To.lease
			fmt.Fprintf(&b, "       lease: epoch %d at %d, %s\n", lease.epoch, lease.acked, lease.value.text(w.Rules.ListsLSNs))
		}
	}
	fmt.Fprintf(&b, "     → %s\n", r.Broken)
	return b.String()
}

func (s *markState) versionText(i uint8) string {
	v := s.versions[min(i, maxVersions-1)]
	kind := "write"
	if v.live == 0 {
		kind = "delete"
	}
	return fmt.Sprintf("%s %d (document %d, LSN %d)", kind, i+1, v.doc, v.lsn)
}

func (v *markValue) text(lists bool) string {
	if v.through == 0 {
		return "no value"
	}
	text := fmt.Sprintf("value of position %d: Q is %d", v.acked, v.through)
	for n := range uint8(8) {
		switch {
		case lists && v.marks[0]>>n&1 == 1:
			text += fmt.Sprintf(", LSN %d unfinished", n)
		case !lists && n < keyCount && v.marks[n] != 0:
			text += fmt.Sprintf(", mark of key %d at %d", n, v.marks[n])
		}
	}
	return text
}
