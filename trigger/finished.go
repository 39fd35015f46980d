package trigger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
	"halley/trigger/internal/lease"
)

// A lease tells which changes behind its continuation are finished (halley.finished, see
// package finished), so that a failing key does not make the next owner repeat the others.

// finishedBinding returns to what a value belongs that the owner of a lease in an epoch may
// trust: another mode, phase or filter would show other changes.
func (f *Function) finishedBinding(l *lease.Lease, epoch int64) finished.Binding {
	return finished.Binding{Continuation: l.Continuation(), Epoch: epoch, Mode: lease.ModeName(f.ChangeFeedMode), Phase: f.phaseOf(l), Filter: f.Filter.hash()}
}

// phaseOf names the phase of a range whose snapshot is read, see snapshot.go.
func (f *Function) phaseOf(l *lease.Lease) string {
	if readsSnapshot(l, f.StartFrom) {
		return "snapshot"
	}
	return ""
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

// waitingChanges returns the value of a lease whose unfinished changes behind the
// continuation are those of marked keys. ok is false if there is none, or it is void.
func (f *Function) waitingChanges(l *lease.Lease) (v finished.Value, ok bool) {
	v, ok = finished.Parse(l.Finished())
	return v, ok && v.Binding == f.finishedBinding(l, l.Epoch()) && l.Continuation() != "" && len(v.Marks) > 0
}

// isRetryDue reports whether a marked change does not wait for a retry, or for one that is
// due. RetryAt has whole seconds, and an acquisition takes time: an owner that is a second
// early waits in memory.
func isRetryDue(v finished.Value, now time.Time) bool {
	return v.RetryAt <= now.Add(time.Second).Unix()
}

// waitingLag is the lag of a range up to the position behind which only changes are news,
// because the unfinished ones before it wait for a retry.
func (r *functionRunner) waitingLag(l *lease.Lease) int64 {
	if v, ok := r.function.waitingChanges(l); ok {
		return v.Reached - feed.LSNOf(l.Continuation())
	}
	return 0
}
