package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// A function in all-versions mode that starts from a snapshot works on each range in two
// phases:
//
//  1. Host A acquires a lease without a continuation. A reads P, the position at which all
//     versions begin now, and saves it in the lease ([lease.SnapshotProperty]) before it reads
//     any page.
//  2. A reads latest versions from the beginning. It delivers those with LSNs up to P, and its
//     continuation is a position in this feed. A later version is left out: it is a change
//     after P. Owners that follow continue at the continuation, as in any range.
//  3. When the feed has passed P and everything is finished, A releases the lease at P and
//     without the property, in one write. The next owner, mostly A again, reads all versions
//     from P on.
//
// So each change after P is delivered, and each document that was last written before P and
// still existed when its page was read. A document that is deleted or rewritten while the
// snapshot is read may be missing in it: its delete or replace follows, for an id that was
// never delivered. LSNs of one physical range compare, and a split's children inherit P with
// the continuation: that they keep LSNs is an assumption that `halley verify-service --split`
// tries.
//
// If P is older than the retention of all versions, changes after it may be gone. Then the
// owner releases the lease without a continuation, and the next one begins a new snapshot.

// Each snapshot has a generation: the epoch of the owner that begins it, which is above those of
// all earlier owners. The lease keeps it after the snapshot ([lease.GenerationProperty]), since a
// sink stores it with whatever it writes. So rows with a smaller one are those that the snapshot
// has not shown, see snapshotend.go.

const (
	// snapshotForm is the version of the stored form of a snapshotState.
	snapshotForm = 2
	// snapshotWithoutGeneration is the form of versions of Halley that knew no generations. A host
	// that reads one continues the snapshot, and its sink removes nothing at the end. A host of
	// such a version begins a snapshot of the new form again: rows that it writes have no
	// generation, and must not be removed as not shown.
	snapshotWithoutGeneration = 1
)

// snapshotState is the form in which a lease tells that its range is in phase 2.
type snapshotState struct {
	Version int    `json:"v"`
	Until   string `json:"until"` // P
	Since   int64  `json:"since"` // when P was read, on the service's clock in Unix seconds
}

// encode returns the state as a property.
func (s snapshotState) encode() string {
	property, _ := json.Marshal(s) // text and numbers always encode
	return string(property)
}

// errSnapshotVoid ends the work on a range whose snapshot has to begin again.
var errSnapshotVoid = errors.New("the snapshot of the range begins again")

// readsSnapshot reports whether the next owner of a lease reads the snapshot of its range.
func readsSnapshot(l *lease.Lease, start Start) bool {
	return l.Property(lease.SnapshotProperty) != "" || start.Kind == feed.StartSnapshot && l.Continuation() == ""
}

// parseSnapshot parses [lease.SnapshotProperty]. It returns nil if there is none, or if this
// version of Halley cannot read its form.
func parseSnapshot(property string) *snapshotState {
	var s snapshotState
	if json.Unmarshal([]byte(property), &s) != nil || s.Version != snapshotForm && s.Version != snapshotWithoutGeneration {
		return nil
	}
	return &s
}

// savedGeneration returns the generation of the changes that follow in a lease, 0 if it is not known.
func savedGeneration(l *lease.Lease) int64 {
	if s := parseSnapshot(l.Property(lease.SnapshotProperty)); s != nil && s.Version == snapshotWithoutGeneration {
		return 0
	}
	generation, _ := strconv.ParseInt(l.Property(lease.GenerationProperty), 10, 64)
	return generation
}

// setGeneration sets the generation of the changes from now on.
func (w *rangeWorker) setGeneration(generation int64) {
	key := w.leases.Monitored().PartitionKey
	w.feedOrigin.Store(&changeOrigin{isSnapshot: w.readsSnapshot, generation: generation, keyPaths: key.Paths, definition: &key})
}

// generationProperty returns [lease.GenerationProperty] as the next write of the lease stores it.
func (w *rangeWorker) generationProperty() string {
	if generation := w.feedOrigin.Load().generation; generation > 0 {
		return strconv.FormatInt(generation, 10)
	}
	return ""
}

// SnapshotLag is how far the snapshot of a range is read.
type SnapshotLag struct {
	Position int64     `json:"position"`         // LSN up to which changes are checkpointed
	Until    int64     `json:"until"`            // LSN at which it ends
	Begun    time.Time `json:"begun"`            // on the service's clock
	Expires  time.Time `json:"expires,omitzero"` // if it is not read by then, it begins again; zero if the retention is unknown
}

// snapshotLag returns nil if the lease is not within a snapshot.
func snapshotLag(l *lease.Lease, retention time.Duration) *SnapshotLag {
	s := parseSnapshot(l.Property(lease.SnapshotProperty))
	if s == nil {
		return nil
	}
	g := &SnapshotLag{Begun: time.Unix(s.Since, 0).UTC()}
	g.Position, _ = cosmos.ContinuationLSN(l.Continuation())
	g.Until, _ = cosmos.ContinuationLSN(s.Until)
	if retention > 0 {
		g.Expires = g.Begun.Add(retention)
	}
	return g
}

// snapshot returns the state of the range's snapshot, nil if none is read.
func (w *rangeWorker) snapshot() *snapshotState {
	if !w.readsSnapshot {
		return nil
	}
	return parseSnapshot(w.snapshotProperty())
}

// snapshotProperty returns [lease.SnapshotProperty] as the next write of the lease stores it.
func (w *rangeWorker) snapshotProperty() string { return *w.snapshotText.Load() }

func (w *rangeWorker) setSnapshot(property string) { w.snapshotText.Store(&property) }

// firstSnapshotPosition is firstPosition for a range whose snapshot is read.
func (w *rangeWorker) firstSnapshotPosition(ctx context.Context) (string, error) {
	if w.snapshotProperty() != "" {
		if s := w.snapshot(); s == nil || w.isSnapshotLate() {
			return "", errSnapshotVoid
		}
		return w.held.Lease().Continuation(), nil
	}
	part, err := w.locateRange(ctx)
	if err != nil {
		return "", err
	}
	versions := *w.feedSource
	versions.Mode = w.function.ChangeFeedMode
	until, err := versions.ResolveStart(ctx, FromNow(), part)
	if err != nil {
		return "", err
	}
	if _, isLSN := cosmos.ContinuationLSN(until); !isLSN {
		return "", fmt.Errorf("snapshot of range %q: the position %q of all versions is not an LSN, so that it cannot be compared with latest versions: start from now", w.held.Lease().Token(), until)
	}
	w.setSnapshot(snapshotState{snapshotForm, until, w.leases.Now().Unix()}.encode())
	w.setGeneration(w.held.Epoch())
	w.log.Info("snapshot begun", slog.String("until", until), slog.Int64("generation", w.held.Epoch()))
	return "", w.held.ConfirmOwnership(ctx)
}

// snapshotEnd returns the position up to which the reader reads, "" if it does not read a snapshot.
func (w *rangeWorker) snapshotEnd() string {
	if s := w.snapshot(); s != nil {
		return s.Until
	}
	return ""
}

// isSnapshotLate reports whether changes after P may have left the retention.
func (w *rangeWorker) isSnapshotLate() bool {
	_, _, isPast := w.pastRetention(1, 0)
	return isPast
}

// endSnapshot has the release of the lease end the phase: at P if everything up to it is
// finished, else, if the snapshot has to begin again, without a continuation. The lease's
// writer has stopped.
func (w *rangeWorker) endSnapshot(ended error) {
	position := ""
	switch {
	case errors.Is(ended, feed.ErrSnapshotRead) && !w.isSnapshotLate():
		position = w.snapshotEnd()
		w.log.Info("snapshot ended", slog.String("until", position))
	case errors.Is(ended, feed.ErrSnapshotRead), errors.Is(ended, errSnapshotVoid):
		w.log.Warn("snapshot begins again: changes since its beginning have left the retention, or a newer version has written its state")
	default:
		return
	}
	w.setSnapshot("")
	w.releaseAt(position)
}
