package history

import "time"

// key follows the changes of one logical partition key.
type key struct {
	name    string
	changes []change // by Seq, from 1
	top     int64    // highest Seq delivered
	cursors map[stream]int64

	foreignTop int64 // highest Seq that a .NET owner has delivered: it knows no changes in the store
	newest     int64 // of the last delivery of an owner that was alone
	lastShared bool  // another owner has delivered since, which was not
}

type change struct {
	id      string
	last    bool // no later version of the document
	written bool
	wrote   time.Time
	lsn     int64
	hash    string
	seen    int
	handled bool
	unsaved bool      // it was handled, and is only in the memory of a sink
	kept    bool      // the sink of its last owner has kept it in memory, and not flushed it
	dead    bool      // in the dead letter store, perhaps without a delivery
	skipped bool      // an operator has moved the position past it
	resumed bool      // it was skipped, and the position was moved back since
	by      stream    // the owner that handled it last
	ended   time.Time // when it did

	delivered time.Time // last
	again     bool      // it was delivered since it was handled last
	postponed
}

// tenure is one epoch of one range.
type tenure struct {
	token string
	epoch int64
}

// stream is one owner's deliveries of a key within one epoch.
type stream struct {
	host string
	tenure
	term int // tells acquisitions apart if a restored lease repeats an epoch
}

func (c *checker) key(name string) *key {
	k, found := c.keys[name]
	if !found {
		k = &key{name: name, cursors: make(map[stream]int64)}
		c.keys[name] = k
	}
	return k
}

func (k *key) write(r *Report, e Event) {
	if e.Seq < 1 {
		r.violate(NoPhantom, k.name, e.Time, "write %d: changes are numbered from 1", e.Seq)
		return
	}
	for int64(len(k.changes)) < e.Seq {
		k.changes = append(k.changes, change{})
	}
	if k.changes[e.Seq-1].written {
		return // acknowledged twice: the writer repeated a write with an unknown outcome
	}
	for i := range k.changes[:e.Seq-1] {
		if k.changes[i].id == e.ID {
			k.changes[i].last = false
		}
	}
	k.changes[e.Seq-1] = change{id: e.ID, last: true, written: true, wrote: e.Time, lsn: e.LSN, hash: e.Hash}
	r.Written++
}

// deliver judges one delivery. If the ends of calls are known, an owner may
// redeliver changes that it has not handled; otherwise a redelivery must have
// an attempt above 1. shared reports that two owners may have read different
// versions of a document at the same time: a duplicate lease document gave the
// range a second lock, or the lease was taken from an owner that still worked.
// again is the rule that a redelivery of a handled change breaks.
func (k *key) deliver(r *Report, s stream, e Event, ended, shared bool, again Rule) {
	if e.Seq < 1 || e.Seq > int64(len(k.changes)) || k.changes[e.Seq-1].id != e.ID {
		r.violate(NoPhantom, k.name, e.Time, "delivery of %d %q, which was never written", e.Seq, e.ID)
		return
	}
	c := &k.changes[e.Seq-1]
	if c.seen++; c.seen > 1 {
		r.Redelivered++
	} else {
		r.Delivered++
	}
	cursor, found := k.cursors[s]
	switch {
	case !found:
		cursor = k.top // of all owners: a new owner may start before it, not after it
	case e.Seq > cursor:
	case ended && c.handled && c.by == s && !c.resumed && !c.late && !c.twice: // a letter that an earlier owner put late is delivered once more
		r.violate(again, k.name, e.Time, "%q delivered %d again, which it had handled in epoch %d of range %q", e.Host, e.Seq, e.Epoch, e.Range)
	case !ended && e.Attempt <= 1:
		r.violate(Order, k.name, e.Time, "%q went back from %d to %d within epoch %d of range %q without a retry", e.Host, cursor, e.Seq, e.Epoch, e.Range)
	}
	k.deliverPostponed(r, e, shared)
	if missing := k.missing(cursor, e.Seq); missing > 0 {
		r.violate(NoGap, k.name, e.Time, "%q delivered %d after %d without %d", e.Host, e.Seq, cursor, missing)
	}
	passed := e.Seq < k.foreignTop && k.wasPostponed(e.Seq)
	if c.seen == 1 && e.Seq < k.top && !shared && !c.skipped && !c.resumed && !passed {
		r.violate(Order, k.name, e.Time, "%d delivered for the first time after %d", e.Seq, k.top)
	}
	if found && ended {
		k.cursors[s] = max(cursor, e.Seq) // a retry need not repeat all later changes
	} else {
		k.cursors[s] = e.Seq
	}
	k.top = max(k.top, e.Seq)
}

// missing returns the first change between two positions that had to be
// delivered, because it has neither a later version nor a dead letter, or 0. A
// change in the store is judged by PostponedOrder: a .NET owner passes it over.
func (k *key) missing(after, before int64) int64 {
	fromStore := k.wasPostponed(after) || k.wasPostponed(before) // what was handled between them is not repeated
	for seq := after + 1; seq < before; seq++ {
		if c := k.changes[seq-1]; c.last && !c.dead && !c.skipped && !c.inStore && !(fromStore && c.handled) {
			return seq
		}
	}
	return 0
}

func (k *key) finish(r *Report, ended bool) {
	for i, c := range k.changes {
		switch {
		case !c.written || c.handled && !c.unsaved || c.seen > 0 && !(ended && c.last):
		case c.skipped && c.last:
			r.Skipped++
		case c.unsaved:
			r.Lost++
			r.violate(NoLoss, k.name, time.Time{}, "%d %q was handled, but its sink never flushed it", i+1, c.id)
		case c.seen > 0:
			r.Lost++
			r.violate(NoLoss, k.name, time.Time{}, "%d %q was delivered, but never handled", i+1, c.id)
		case c.last:
			r.Lost++
			r.violate(NoLoss, k.name, time.Time{}, "%d %q was never delivered", i+1, c.id)
		default:
			r.Superseded++
		}
	}
}
