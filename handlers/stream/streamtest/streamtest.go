// Package streamtest has a consumer of messages of package stream, and the scenario with
// which the publishers are tested. Only tests import this package.
package streamtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"halley/handlers/handlerstest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

// Envelope is the value of a message, as a consumer reads it.
type Envelope struct {
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
	Source struct {
		Document string          `json:"document"`
		Key      json.RawMessage `json:"key"`
		Epoch    int64           `json:"epoch"`
		LSN      int64           `json:"lsn"`
		ID       string          `json:"id"`
	} `json:"source"`
	Op string `json:"op"`
}

// Replica is a consumer that keeps the last version of each document.
type Replica struct {
	documents map[string]version
	seen      map[string]bool // ids
}

// version is the state of a document after a message.
type version struct {
	epoch, lsn int64
	content    any // nil if it was deleted
}

// NewReplica returns a consumer at the beginning of a log.
func NewReplica() *Replica {
	return &Replica{documents: map[string]version{}, seen: map[string]bool{}}
}

// Apply consumes the next message of the log. id and key are those next to the value.
func (r *Replica) Apply(t testing.TB, id, key string, value []byte) {
	t.Helper()
	var e Envelope
	if err := json.Unmarshal(value, &e); err != nil {
		t.Fatalf("message is not JSON: %v\n%s", err, value)
	}
	if e.Source.ID != id || string(e.Source.Key) != key {
		t.Fatalf("message has id %q and key %s, and in its source %q and %s", id, key, e.Source.ID, e.Source.Key)
	}
	if r.seen[id] {
		return
	}
	r.seen[id] = true
	document := key + e.Source.Document
	last := r.documents[document]
	if e.Source.Epoch < last.epoch || e.Source.Epoch == last.epoch && e.Source.LSN < last.lsn {
		return
	}
	next := version{epoch: e.Source.Epoch, lsn: e.Source.LSN}
	switch e.Op {
	case "c", "u", "r":
		next.content = content(t, e.After)
	case "d":
		if !bytes.Equal(e.After, []byte("null")) && e.After != nil {
			t.Fatalf("a delete has a document: %s", value)
		}
	default:
		t.Fatalf("op is %q: %s", e.Op, value)
	}
	r.documents[document] = next
}

// State returns the documents that exist, without system properties.
func (r *Replica) State() any {
	state := map[string]any{}
	for document, v := range r.documents {
		if v.content != nil {
			state[document] = v.content
		}
	}
	return state
}

// content is a document without the properties that the service sets.
func content(t testing.TB, document []byte) map[string]any {
	t.Helper()
	var properties map[string]any
	if err := json.Unmarshal(document, &properties); err != nil {
		t.Fatalf("document is not a JSON object: %v\n%s", err, document)
	}
	for name := range properties {
		if strings.HasPrefix(name, "_") {
			delete(properties, name)
		}
	}
	return properties
}

// Scenario is one in which a replica has to end up with the documents of the container.
// open returns an empty sink.
func Scenario(t testing.TB, function trigger.Function, open func(t testing.TB, w *triggertest.World) triggertest.Sink) triggertest.Scenario {
	return triggertest.Scenario{
		PartitionKey: "/customer",
		Function:     function,
		Seeds:        handlerstest.Seeds(),
		Document: func(random *rand.Rand, id, customer string) any {
			return map[string]any{"id": id, "customer": customer, "total": random.IntN(1000), "note": "a \"quoted\"\nünicode <b>"}
		},
		Open: open,
		Want: func(documents []json.RawMessage) any {
			state := map[string]any{}
			for _, document := range documents {
				properties := content(t, document)
				key, _ := json.Marshal([]any{properties["customer"]}) // a string
				state[string(key)+fmt.Sprint(properties["id"])] = properties
			}
			return state
		},
	}
}

// Functions are settings of functions whose feeds have deletes, by the name of a test.
func Functions() map[string]trigger.Function {
	return map[string]trigger.Function{
		"soft deletes": {SoftDeleteProperty: "deleted"},
		"all versions": {FeedSource: trigger.FeedSource{ChangeFeedMode: cosmos.ModeAllVersions}},
		"blocked keys": {SoftDeleteProperty: "deleted", GiveUpPolicy: trigger.GiveUpPolicy{BlockKeys: true}},
	}
}
