package archive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Record is one archived change, a row of a blob. The columns have the JSON names.
type Record struct {
	// Change names the change. A change that was delivered twice may be in two blobs of
	// one partition of time; both rows then have the same value here.
	Change       string           `json:"change"`
	ID           string           `json:"id"`
	PartitionKey string           `json:"partition_key"` // values as a JSON array
	Operation    cosmos.Operation `json:"operation"`
	LSN          int64            `json:"lsn"`
	Time         time.Time        `json:"ts"`                 // when it was written or deleted, in whole seconds
	Document     json.RawMessage  `json:"document,omitempty"` // none for a delete in all-versions mode
}

// newRecord returns the record of a change. Its bytes are those of the change.
func newRecord(c trigger.Change) Record {
	r := Record{
		ID: c.ID(), PartitionKey: string(c.PartitionKey()), Operation: c.Operation,
		LSN: c.LSN, Time: c.Time.UTC(), Document: c.Document,
	}
	r.Change = r.identity()
	return r
}

// identity is derived from the document and its version alone: an etag names a version
// for ever, and the position of a delete does. It does not depend on ranges, owners and
// batches.
func (r Record) identity() string {
	version := string(cosmos.Property(r.Document, "_etag"))
	if version == "" {
		version = fmt.Sprintf("%s %d %d", r.Operation, r.LSN, r.Time.Unix())
		if r.Document != nil { // made by hand, without an etag
			version += " " + string(r.Document)
		}
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%d:%s%s", len(r.PartitionKey), r.PartitionKey, len(r.ID), r.ID, version))
	return hex.EncodeToString(sum[:16])
}

// Compare orders the records of one document by their versions: -1, 0 or 1.
func (r Record) Compare(other Record) int {
	return cmp.Or(r.Time.Compare(other.Time), cmp.Compare(r.LSN, other.LSN))
}
