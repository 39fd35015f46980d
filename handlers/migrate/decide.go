package migrate

import (
	"fmt"
	"slices"

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
	placed, sourceCopies, newest := survey(w, copies)
	switch {
	case newest.Compare(w.at) > 0: // the change is stale
		return bury(sourceCopies, newest, func(c *targetCopy) bool { return c.guard.Compare(newest) == 0 }), nil
	case w.content == nil:
		return decideDelete(w, sourceCopies), nil
	case placed != nil && !placed.own(w.source):
		return nil, refuse(w, placed)
	}
	return append(writeAt(w, placed), bury(sourceCopies, w.at, func(c *targetCopy) bool { return c == placed })...), nil
}

// survey returns the document at the key that the change asks for, the copies and
// tombstones of its source, and the newest position among these.
func survey(w *wanted, copies []*targetCopy) (placed *targetCopy, sourceCopies []*targetCopy, newest position.Position) {
	for _, c := range copies {
		if w.content != nil && c.key.text == w.key.text {
			placed = c
		}
		if c.own(w.source) {
			sourceCopies = append(sourceCopies, c)
			if c.guard.Compare(newest) > 0 {
				newest = c.guard.Position
			}
		}
	}
	return placed, sourceCopies, newest
}

// bury turns the live copies into tombstones with the winner's position, except those to
// keep.
func bury(sourceCopies []*targetCopy, winner position.Position, keep func(*targetCopy) bool) (actions []action) {
	for _, c := range sourceCopies {
		if !c.guard.Deleted && !keep(c) {
			actions = append(actions, action{kind: buryCopy, on: c, at: winner})
		}
	}
	return actions
}

// decideDelete buries all live copies. If there is none, and no tombstone holds the
// position of the delete, it records the delete.
func decideDelete(w *wanted, sourceCopies []*targetCopy) []action {
	isRecorded := func(c *targetCopy) bool { return !c.guard.Deleted || c.guard.Compare(w.at) == 0 }
	if !slices.ContainsFunc(sourceCopies, isRecorded) {
		return []action{buryNothing(sourceCopies, w.at)}
	}
	return bury(sourceCopies, w.at, func(*targetCopy) bool { return false })
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
