package migrate

import (
	"fmt"

	"halley/handlers/position"
	"halley/trigger"
)

// wanted is the state that a change asks for: the newest version of one source document
// in a batch.
type wanted struct {
	image
	source   string // partition key of the source document, as JSON
	at       position.Position
	change   trigger.Change
	written  bool  // by this call, which still looks for other copies
	conflict error // of the last write that another one was faster than; nil if there was none
}

// actionKind is the kind of an action.
type actionKind string

const (
	createCopy  actionKind = "create"
	replaceCopy actionKind = "replace"
	buryCopy    actionKind = "bury" // replace a copy by a tombstone
	createTomb  actionKind = "tomb" // for a document without a copy
)

// action is one conditional write. It fails if its document is not as it was read.
type action struct {
	kind actionKind
	on   *targetCopy       // replaceCopy, buryCopy: under its etag
	at   position.Position // of the guard that is written
}

// decide returns the writes that bring the target to the state of a change, or none if it
// is there. copies are all documents of the target with the change's id.
//
// The newest position in the target wins, whichever partition holds it. If it is newer
// than the change, the change has nothing to write. All live copies that are older than
// the winner become tombstones, also those that a former owner has written late. The new
// copy is written first and the old ones are buried then, so that a document that moves
// to another partition key is never missing.
func decide(w *wanted, copies []*targetCopy) ([]action, error) {
	var here *targetCopy // at the key that the change asks for
	var own []*targetCopy
	newest := position.Position{}
	for _, c := range copies {
		if w.content != nil && c.key.text == w.key.text {
			here = c
		}
		if c.own(w.source) {
			own = append(own, c)
			if c.guard.Compare(newest) > 0 {
				newest = c.guard.Position
			}
		}
	}
	stale := newest.Compare(w.at) > 0
	if here != nil && !here.own(w.source) && !stale {
		return nil, refuse(w, here)
	}
	var actions []action
	if w.content != nil && !stale {
		actions = writeAt(w, here)
	}
	winner := w.at
	if stale {
		winner = newest
	}
	atRest := false // some tombstone holds the winner's position, or will
	for _, c := range own {
		keep := !stale && w.content != nil && c == here || stale && c.guard.Compare(winner) == 0
		if !c.guard.Deleted && !keep {
			actions = append(actions, action{kind: buryCopy, on: c, at: winner})
		}
		atRest = atRest || c.guard.Compare(winner) == 0 || !c.guard.Deleted
	}
	if w.content == nil && !stale && !atRest {
		actions = append(actions, buryNothing(own, winner))
	}
	return actions, nil
}

// writeAt writes the copy at its key, unless this call has done so. A copy of the same
// position is written again: a transaction may have written the document twice.
func writeAt(w *wanted, here *targetCopy) []action {
	switch {
	case here == nil:
		return []action{{kind: createCopy, at: w.at}}
	case w.written && !here.guard.Deleted && here.guard.Compare(w.at) == 0:
		return nil
	}
	return []action{{kind: replaceCopy, on: here, at: w.at}}
}

// buryNothing records the delete of a document without a live copy, so that an older
// version that arrives later is refused.
func buryNothing(tombstones []*targetCopy, at position.Position) action {
	if len(tombstones) > 0 {
		return action{kind: buryCopy, on: tombstones[0], at: at}
	}
	return action{kind: createTomb, at: at}
}

// refuse returns the reason why a document of the target is not replaced.
func refuse(w *wanted, by *targetCopy) error {
	if by.guard == nil {
		return fmt.Errorf("document %q exists in the target at key %s and was not written by the migration: delete it, or keep it and discard this change", w.id, by.key.text)
	}
	return fmt.Errorf("document %q exists in the target at key %s as the copy of another document, with key %s in the source: two documents of one id get the same key, so let the transform choose another key", w.id, by.key.text, by.guard.Key)
}
