package main

import (
	"encoding/json"
	"fmt"
)

// versions are the versions of documents that a sink has, by id.
type versions map[string]int

// equal compares a sink with the documents of the account.
func (v versions) equal(written []document) error {
	for _, d := range written {
		if v[d.ID] != d.Version {
			return fmt.Errorf("the sink has version %d of document %s, the container %d", v[d.ID], d.ID, d.Version)
		}
	}
	if len(v) != len(written) {
		return fmt.Errorf("the sink has %d documents, the container %d", len(v), len(written))
	}
	return nil
}

// of returns the versions of the documents that a run has written.
func (v versions) of(written []document) versions {
	found := versions{}
	for _, d := range written {
		if version, ok := v[d.ID]; ok {
			found[d.ID] = version
		}
	}
	return found
}

// add adds a document as JSON.
func (v versions) add(raw []byte) error {
	var d struct {
		ID      string
		Version int
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		return err
	}
	v[d.ID] = d.Version
	return nil
}

// newest are the versions of documents in a log, whose messages may be repeated or late:
// the greatest position of a document counts.
type newest struct {
	versions  versions
	positions map[string]position
	seen      map[string]bool // ids of messages
	repeated  int
}

type position struct{ epoch, lsn int64 }

func newNewest() *newest {
	return &newest{versions: versions{}, positions: map[string]position{}, seen: map[string]bool{}}
}

// add adds a message with the envelope of package stream.
func (n *newest) add(value []byte) error {
	var e struct {
		Op     string
		After  struct{ Version int }
		Source struct {
			ID, Document string
			Epoch, LSN   int64
		}
	}
	if err := json.Unmarshal(value, &e); err != nil {
		return err
	}
	if n.seen[e.Source.ID] {
		n.repeated++
		return nil
	}
	n.seen[e.Source.ID] = true
	last := n.positions[e.Source.Document]
	if e.Source.Epoch < last.epoch || e.Source.Epoch == last.epoch && e.Source.LSN < last.lsn {
		return nil
	}
	n.positions[e.Source.Document] = position{e.Source.Epoch, e.Source.LSN}
	n.versions[e.Source.Document] = e.After.Version
	if e.Op == "d" {
		delete(n.versions, e.Source.Document)
	}
	return nil
}
