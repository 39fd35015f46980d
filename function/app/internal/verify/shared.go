package verify

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
)

// The documents that facts share, as the session keeps them.

// written is a document that a probe has stored.
type written struct {
	id   string
	lsn  int64
	etag string
	resp cosmos.Response
}

// trio are three documents that several facts read.
type trio struct {
	start string // position before them
	docs  []written
}

// markedDocument is a document that is marked as deleted and expires soon, for two facts.
type markedDocument struct {
	written
	start string // position before it
}

// versionsSeen is a document that was created, replaced and deleted, for several facts.
type versionsSeen struct {
	start string // position before it
	id    string
	lsns  []int64 // of the three writes
}

// leaseState is a document of the lease container, for several facts.
type leaseState struct {
	id             string // "" before the first fact
	pk             cosmos.PartitionKey
	oldTag, newTag azcore.ETag // of its two versions; newTag is "" before the second
}

func (l leaseState) version(n int) map[string]any {
	return map[string]any{"id": l.id, "partitionKey": l.id, "version": n}
}
