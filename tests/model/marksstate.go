package model

import "math/bits"

// Bounds of a state.
const (
	maxVersions = 5
	docCount    = 3
	keyCount    = 2
)

// keyOf returns the key of a document.
func keyOf(doc uint8) uint8 { return doc >> 1 }

// markState is everything that can differ between two moments in a [MarkWorld]. A failing
// call changes nothing, so a key that always fails is one whose calls do not return.
type markState struct {
	versions [maxVersions]version
	written  uint8
	lease    markLease
	owner    markOwner       // the current owner; epoch 0 if there is none
	write    markLease       // of the lease, that is pending; epoch 0 if there is none
	late     uint8           // set of versions in calls of former owners
	handled  uint8           // set of versions whose handler returned nil
	called   [keyCount]uint8 // the version that was delivered last, + 1
	moved    uint8           // other software has moved the position since the last acquisition

	// How often each may still happen.
	acquires, seeks, moves, raises, bulks uint8

	broken markPromise
}

// version is one write of a document.
type version struct{ doc, lsn, live uint8 }

// markLease is a lease document, or a pending write of it.
type markLease struct {
	epoch uint8
	acked uint8 // A: every change up to this LSN is finished
	value markValue
}

// markValue says which changes behind A are finished: those up to Q, unless their key has
// a mark that is not above their LSN.
type markValue struct {
	acked   uint8 // the A that it belongs to
	through uint8 // Q; 0 if there is no value
	marks   [keyCount]uint8
}

// finishes reports whether a value says that a change is finished.
func (v *markValue) finishes(c version, lists bool) bool {
	switch {
	case c.lsn > v.through:
		return false
	case lists:
		return v.marks[0]>>c.lsn&1 == 0
	}
	mark := v.marks[keyOf(c.doc)]
	return mark == 0 || c.lsn < mark
}

// mark records an unfinished change.
func (v *markValue) mark(c version, lists bool) {
	if lists {
		v.marks[0] |= 1 << c.lsn
		return
	}
	v.markKey(keyOf(c.doc), c.lsn)
}

func (v *markValue) markKey(key, lsn uint8) {
	if v.marks[key] == 0 || lsn < v.marks[key] {
		v.marks[key] = lsn
	}
}

// markOwner is the worker of the lease's owner.
type markOwner struct {
	epoch     uint8
	acked     uint8 // A
	read      uint8 // the position after its last page
	inherited markValue
	items     [maxVersions]uint8 // admitted and unfinished versions, see the constants
}

// States of an admitted version. requested is added if a request for a checkpoint has
// counted it.
const (
	waiting   uint8 = 1
	inCall    uint8 = 2
	buffered  uint8 = 3 // in the memory of the sink
	requested uint8 = 4
)

func (o *markOwner) item(i uint8) uint8 { return o.items[i] &^ requested }

// inCalls returns the versions that are in a call.
func (o *markOwner) inCalls() (set uint8) {
	for i := range uint8(maxVersions) {
		if o.item(i) == inCall {
			set |= 1 << i
		}
	}
	return set
}

// markPromise is an invariant.
type markPromise uint8

const (
	markKept markPromise = iota
	ackedHandled
	passedHandled
	keyOrdered
	endsWithNewest
)

// markPromises in words; the numbers are those of the package documentation.
var markPromises = [...]string{
	markKept:       "",
	ackedHandled:   "I1 a checkpoint passes a change that is not handled",
	passedHandled:  "I2 an owner passes a change over that is not handled",
	keyOrdered:     "I4 a change is delivered although an earlier one of its key was not delivered before it",
	endsWithNewest: "I4 all is done, and the last delivered change of a key is not its newest",
}

func (s *markState) breaks(p markPromise) {
	if s.broken == markKept {
		s.broken = p
	}
}

// end returns the LSN of the newest write.
func (s *markState) end() (lsn uint8) {
	for i := range s.written {
		lsn = max(lsn, s.versions[i].lsn)
	}
	return lsn
}

// isBehind reports whether a version comes after another one, given as number + 1, in the
// feed. 0 is the start of the feed.
func (s *markState) isBehind(i, other uint8) bool {
	if other == 0 {
		return true
	}
	a, b := s.versions[i].lsn, s.versions[other-1].lsn
	return a > b || a == b && i > other-1
}

// within returns the versions with an LSN above low and not above high.
func (s *markState) within(low, high uint8) (set uint8) {
	for i := range s.written {
		if lsn := s.versions[i].lsn; low < lsn && lsn <= high {
			set |= 1 << i
		}
	}
	return set
}

// newestOf returns the last version of a set, in the order of the feed, that has a key,
// + 1; 0 if there is none.
func (s *markState) newestOf(set, key uint8) (newest uint8) {
	for ; set != 0; set &= set - 1 {
		i := uint8(bits.TrailingZeros8(set))
		if keyOf(s.versions[i].doc) == key && s.isBehind(i, newest) {
			newest = i + 1
		}
	}
	return newest
}
