package triggertest

import (
	"encoding/json"
	"fmt"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// record holds the changes of a world and those that were handled. The lock of the
// world guards it.
type record struct {
	everyVersion bool // the function sees each version, and deletes
	versions     []version
	newest       map[document]string // its etag; "" if it was deleted
	handled      map[string]bool     // by the name of the version
}

// document identifies a document of the container.
type document struct{ id, key string }

// version is one change of a document.
type version struct {
	id   string
	key  cosmos.PartitionKey
	kind versionKind
	etag string // of the version that was written or deleted
}

type versionKind string

const (
	written versionKind = "version"
	deleted versionKind = "delete"
)

func newRecord(mode cosmos.Mode) record {
	return record{everyVersion: mode == cosmos.ModeAllVersions, newest: map[document]string{}, handled: map[string]bool{}}
}

func (v version) name() string { return string(v.kind) + v.etag }

func (v version) String() string {
	return fmt.Sprintf("a %s of document %q, partition key %v,", v.kind, v.id, v.key)
}

func (r *record) put(id string, key cosmos.PartitionKey, etag string) {
	r.versions = append(r.versions, version{id, key, written, etag})
	r.newest[document{id, key.String()}] = etag
}

func (r *record) delete(id string, key cosmos.PartitionKey) {
	d := document{id, key.String()}
	if r.everyVersion {
		r.versions = append(r.versions, version{id, key, deleted, r.newest[d]})
	}
	r.newest[d] = ""
}

// handle records changes that a handler has handled.
func (r *record) handle(changes []trigger.Change) {
	for _, c := range changes {
		r.handled[versionOf(c)] = true
	}
}

// waiting returns the changes that were neither handled nor are in dead.
func (r *record) waiting(dead map[string]bool) (waiting []version) {
	for _, v := range r.versions {
		superseded := !r.everyVersion && r.newest[document{v.id, v.key.String()}] != v.etag
		if !superseded && !r.handled[v.name()] && !dead[v.name()] {
			waiting = append(waiting, v)
		}
	}
	return waiting
}

// versionOf names the version that a change tells of. A delete has the etag of the
// version before it, which the embedded account gives.
func versionOf(c trigger.Change) string {
	v := version{kind: written}
	image := c.Document
	if image == nil {
		v.kind, image = deleted, c.Previous
	}
	_ = json.Unmarshal(cosmos.Property(image, "_etag"), &v.etag) // "" is the name of no version
	return v.name()
}
