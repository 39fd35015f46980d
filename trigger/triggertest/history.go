package triggertest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"halley/trigger/cosmos"
)

// step is one write of a history.
type step struct {
	id, key  string
	document json.RawMessage // nil deletes the document
	expires  bool            // by its ttl, before the next step
}

// The size of a history: small enough to read, with several versions of each document
// and several documents in each key.
const (
	historySteps = 32
	historyKeys  = 4
	historyIDs   = 10
	removalShare = 5 // one step in so many removes a document, if there is one
	timeToLive   = 1 // of documents that expire, in seconds
)

// The streams of random numbers of one seed.
const (
	historyStream  = 1
	planStream     = 2
	caseStream     = 3
	pointStream    = 4
	documentStream = 100 // of the first document
)

// newHistory returns the history of a seed.
func (s Scenario) newHistory(t testing.TB, seed uint64) []step {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, historyStream))
	steps := make([]step, 0, historySteps)
	existing := map[string]bool{}
	for i := range historySteps {
		number := i
		if !s.WriteOnce {
			number = random.IntN(historyIDs)
		}
		next := step{id: fmt.Sprintf("d%d", number), key: fmt.Sprintf("k%d", number%historyKeys)}
		content := rand.New(rand.NewPCG(seed, documentStream+uint64(i)))
		next.document = s.documentOf(t, content, next)
		if existing[next.id] && random.IntN(removalShare) == 0 {
			next = s.removal(random, next)
		}
		existing[next.id] = next.document != nil && !next.expires
		steps = append(steps, next)
	}
	return steps
}

// removal makes a step that removes its document, if the function sees that.
func (s Scenario) removal(random *rand.Rand, next step) step {
	switch {
	case s.Function.SoftDeleteProperty != "":
		next.document = withProperty(next.document, s.Function.SoftDeleteProperty, true)
	case s.Function.ChangeFeedMode != cosmos.ModeAllVersions:
	case random.IntN(2) == 0:
		next.document, next.expires = withProperty(next.document, "ttl", timeToLive), true
	default:
		next.document = nil
	}
	return next
}

// documentOf calls Document and checks that it keeps to id and key.
func (s Scenario) documentOf(t testing.TB, random *rand.Rand, write step) json.RawMessage {
	t.Helper()
	raw := rawJSON(s.Document(random, write.id, write.key))
	if idOf(raw) != write.id || keyOf(raw, keyPath(s.PartitionKey)).String() != cosmos.NewPartitionKey(write.key).String() {
		t.Fatalf("triggertest: Scenario.Document returned %s for id %q and partition key %q: set both in the document, the key at %s (Scenario.PartitionKey)", raw, write.id, write.key, s.PartitionKey)
	}
	return raw
}

// withProperty returns a document with a property. The document is an object: it has
// an id.
func withProperty(document json.RawMessage, name string, value any) json.RawMessage {
	var properties map[string]json.RawMessage
	_ = json.Unmarshal(document, &properties)
	properties[name] = rawJSON(value)
	return rawJSON(properties)
}
