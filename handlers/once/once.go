package once

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Document identifies a document of the monitored container: the first half of the
// SHA-256 hash of its partition key and its id. Ids are unique only within a key.
type Document [16]byte

// DocumentOf returns the document that changed, in every mode and operation.
func DocumentOf(c trigger.Change) Document {
	key := c.PartitionKey()
	text := make([]byte, 0, len(key)+64)
	text = append(strconv.AppendInt(text, int64(len(key)), 10), ' ')
	text = append(append(text, key...), c.ID()...)
	sum := sha256.Sum256(text)
	return Document(sum[:16])
}

// Position is the version of a document whose effect took place last. The zero value is
// before all versions.
type Position struct {
	Epoch int64 // of the owner that delivered it
	LSN   int64
	Time  int64 // when it was written, in seconds since 1970
	// Versions names the version. If one transaction wrote several versions of the
	// document, Versions names all of them whose effects took place, the last at the end.
	Versions []string
}

// PositionOf returns the position of a change that is delivered in an epoch.
func PositionOf(c trigger.Change, epoch int64) Position {
	return Position{Epoch: epoch, LSN: c.LSN, Time: c.Time.Unix(), Versions: []string{versionOf(c)}}
}

// versionOf identifies the version of a document: by its etag, or else by its LSN. The
// text has no spaces.
func versionOf(c trigger.Change) string {
	if tag := etagOf(c.Document); tag != "" {
		return tag
	}
	version := "lsn:" + strconv.FormatInt(c.LSN, 10)
	if c.Document == nil {
		version += "-" + etagOf(c.Previous)
	}
	return version
}

// etagOf returns the _etag of a document without its quotes, or "".
func etagOf(document json.RawMessage) string {
	var tag string
	if json.Unmarshal(cosmos.Property(document, "_etag"), &tag) != nil {
		return ""
	}
	return strings.ReplaceAll(strings.Trim(tag, `"`), " ", "_")
}

// isNew reports whether p was not set.
func (p Position) isNew() bool { return len(p.Versions) == 0 }

// After reports whether the change at p, a position of [PositionOf], comes after the
// stored position of its document. The package documentation has the rule.
func (p Position) After(stored Position) bool {
	switch {
	case stored.isNew():
		return true
	case slices.Contains(stored.Versions, p.Versions[0]):
		return false
	case p.Epoch > stored.Epoch:
		return p.LSN >= stored.LSN || p.Time > stored.Time
	case p.Epoch < stored.Epoch:
		return p.LSN >= stored.LSN && p.Time >= stored.Time
	default:
		return p.LSN >= stored.LSN
	}
}

// Names reports whether p is the position of this version of a document: the effect of the
// change took place, and no later one did.
func (p Position) Names(c trigger.Change) bool {
	return !p.isNew() && p.Versions[len(p.Versions)-1] == versionOf(c)
}

// join returns the position after the change at p took effect on top of stored. If one
// transaction wrote both versions, it names both.
func (p Position) join(stored Position) Position {
	if !stored.isNew() && p.LSN == stored.LSN {
		p.Versions = slices.Concat(stored.Versions, p.Versions)
	}
	return p
}

// Fresh returns the changes whose effects did not take place yet, in the order of the
// batch, and the positions of their documents after that. stored has the positions of the
// batch's documents; a document without a position may be absent.
func Fresh(b trigger.Batch, stored map[Document]Position) (fresh []trigger.Change, moved map[Document]Position) {
	moved = map[Document]Position{}
	for _, c := range b.Changes {
		document := DocumentOf(c)
		last, found := moved[document]
		if !found {
			last = stored[document]
		}
		if next := PositionOf(c, b.Epoch); next.After(last) {
			fresh = append(fresh, c)
			moved[document] = next.join(last)
		}
	}
	return fresh, moved
}

// Documents returns the documents of a batch, each once.
func Documents(b trigger.Batch) []Document {
	documents := make([]Document, 0, len(b.Changes))
	seen := make(map[Document]bool, len(b.Changes))
	for _, c := range b.Changes {
		if d := DocumentOf(c); !seen[d] {
			seen[d] = true
			documents = append(documents, d)
		}
	}
	return documents
}

// Last keeps the last change of each document, in the order of changes. It is for effects
// that depend on the last version of a document alone.
func Last(changes []trigger.Change) []trigger.Change {
	last := make(map[Document]int, len(changes))
	documents := make([]Document, len(changes))
	for i, c := range changes {
		documents[i] = DocumentOf(c)
		last[documents[i]] = i
	}
	kept := make([]trigger.Change, 0, len(last))
	for i, c := range changes {
		if last[documents[i]] == i {
			kept = append(kept, c)
		}
	}
	return kept
}

// Effects calls apply with a batch until apply has written the effects of all changes that
// it can have, and returns the verdict on the whole batch. apply writes all or nothing. So
// if its error is a trigger.Failed or trigger.FailedFrom that names some changes, nothing
// is written yet, and Effects calls apply again with the others.
func Effects(b trigger.Batch, apply func(b trigger.Batch) error) error {
	var failures []error
	for {
		err := apply(b)
		if err == nil {
			return errors.Join(failures...)
		}
		verdict := b.Judge(err)
		failures = append(failures, err)
		if len(verdict.Handled) == 0 {
			return errors.Join(failures...)
		}
		b.Changes = verdict.Handled
	}
}
