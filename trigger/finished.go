package trigger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"halley/trigger/internal/finished"
	"halley/trigger/internal/lease"
)

// finishedBinding returns to what a value belongs that the owner of a lease in an epoch may
// trust: another mode, phase or filter would show other changes.
func (f *Function) finishedBinding(l *lease.Lease, epoch int64) finished.Binding {
	return finished.Binding{Continuation: l.Continuation(), Epoch: epoch, Mode: strconv.Itoa(int(f.ChangeFeedMode)), Filter: f.Filter.hash()}
}

// hash names a filter in leases, "" if there is none.
func (f Filter) hash() string {
	if len(f) == 0 {
		return ""
	}
	text, _ := json.Marshal(f) // texts always encode
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
