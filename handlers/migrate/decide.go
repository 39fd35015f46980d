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
	var placed *targetCopy // at the key that the change asks for
	var copiesOfSource []*targetCopy
	newest := position.Position{}
	for _, c := range copies {
		if w.content != nil && c.key.text == w.key.text {
			placed = c
		}
		if c.own(w.source) {
			copiesOfSource = append(copiesOfSource, c)
			if c.guard.Compare(newest) > 0 {
				newest = c.guard.Position
			}
		}
	}
	stale := newest.Compare(w.at) > 0
	if placed != nil && !placed.own(w.source) && !stale {
		return nil, refuse(w, placed)
	}
	var actions []action
	if w.content != nil && !stale {
		actions = writeAt(w, placed)
	}
	winner := w.at
	if stale {
		winner = newest
	}
	atRest := false // some tombstone holds the winner's position, or will
	for _, c := range copiesOfSource {
		keep := !stale && w.content != nil && c == placed || stale && c.guard.Compare(winner) == 0
		if !c.guard.Deleted && !keep {
			actions = append(actions, action{kind: buryCopy, on: c, at: winner})
		}
		atRest = atRest || c.guard.Compare(winner) == 0 || !c.guard.Deleted
	}
	if w.content == nil && !stale && !atRest {
		actions = append(actions, buryNothing(copiesOfSource, winner))
	}
	return actions, nil
}

// writeAt writes the copy at its key, unless this call has done so. A copy of the same
// position is written again: a transaction may have written the document twice.
func writeAt(w *wanted, existing *targetCopy) []action {
	switch {
	case existing == nil:
		return []action{{kind: createCopy, at: w.at}}
	case w.written && !existing.guard.Deleted && existing.guard.Compare(w.at) == 0:
		return nil
	}
	return []action{{kind: replaceCopy, on: existing, at: w.at}}
}

// buryNothing records the delete of a document without a live copy, so that an older
// version that arrives later is refused.
func buryNothing(tombstones []*targetCopy, place position.Position) action {
	if len(tombstones) > 0 {
		return action{kind: buryCopy, on: tombstones[0], at: place}
	}
	return action{kind: createTomb, at: place}
}

// refuse returns the reason why a document of the target is not replaced.
func refuse(w *wanted, existing *targetCopy) error {
	if existing.guard == nil {
		return fmt.Errorf("document %q exists in the target at key %s and was not written by the migration: delete it, or keep it and discard this change", w.id, existing.key.text)
	}
	return fmt.Errorf("document %q exists in the target at key %s as the copy of another document, with key %s in the source: two documents of one id get the same key, so let the transform choose another key", w.id, existing.key.text, existing.guard.Key)
}
