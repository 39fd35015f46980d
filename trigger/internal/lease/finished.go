package lease

import (
	"encoding/json"
	"strconv"

	"halley/trigger/internal/finished"
)

// A lease may hold which changes behind its continuation are finished, see package
// finished. That value is only as good as the writes between its owner and the next one:
//
//  1. Host A writes the value, bound to its continuation and its epoch.
//  2. Host B acquires the lease. The same write binds the value to B's epoch, or removes a
//     value that is void. An operator who frees the lease does so, too.
//  3. .NET host C acquires the lease. It does not know the value and keeps it. C delivers
//     an older version of a document again, which the value calls finished with the newer
//     one, and dies before its checkpoint. If B now passed over both, the sink would end
//     with the older version. So a write of another library makes the value void: each
//     owner sets the document's timestamp, and a Halley owner repeats it in a property.
//  4. An operator sets a position, or a host restores a deleted lease. Everything after the
//     position is wanted again: the value is removed, also at the position that it belongs to.
//  5. The children of a split inherit the value, each with its own epoch. A lease by keys
//     has none, because LSNs of a merged range do not tell the order.
const finishedTimestampProperty = "halley.finished.timestamp" // of the last write of a Halley owner

// Finished returns the value of [finished.Property], "" if it is void for every owner: the
// lease is for keys, or another library has written it since. The caller compares what the
// value belongs to.
func (l *Lease) Finished() string {
	var timestamp string
	_ = json.Unmarshal(l.timestamp, &timestamp) // "" if there is none
	confirmed, known := l.properties[finishedTimestampProperty]
	if l.byKeys || l.owner != "" && !l.OwnedByHalley() || known && confirmed != timestamp {
		return ""
	}
	return l.properties[finished.Property]
}

// HoldsFinished reports whether the lease holds a value, which may be void.
func (l *Lease) HoldsFinished() bool { return l.properties[finished.Property] != "" }

// FinishedUpTo returns the LSN up to which changes behind the continuation may be finished, 0
// if the lease holds no value that belongs to it.
func (l *Lease) FinishedUpTo() int64 {
	if v, ok := finished.Parse(l.Finished()); ok && v.Continuation == l.continuation && v.Epoch == l.Epoch() {
		return v.Reached
	}
	return 0
}

// raiseEpoch gives a new version of a lease, or a child, its epoch, and binds the value of
// the former version to it.
func (l *Lease) raiseEpoch(former *Lease, epoch int64) {
	value := ""
	if !l.byKeys {
		value = finished.Rebind(former.Finished(), l.continuation, former.Epoch(), epoch)
	}
	l.dropFinished()
	if value != "" {
		l.properties[finished.Property] = value
	}
	l.properties[epochProperty] = strconv.FormatInt(epoch, 10)
}

// dropFinished removes the value: every change after the continuation is wanted again.
func (l *Lease) dropFinished() {
	delete(l.properties, finished.Property)
	delete(l.properties, finishedTimestampProperty)
}

// confirmFinished notes the timestamp of a write next to the value, if there is one.
func (l *Lease) confirmFinished(timestamp json.RawMessage) {
	delete(l.properties, finishedTimestampProperty)
	if !l.HoldsFinished() {
		return
	}
	l.timestamp = timestamp
	var text string
	_ = json.Unmarshal(timestamp, &text) // it was encoded from a text
	l.properties[finishedTimestampProperty] = text
}
