package trigger

import (
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

const (
	// retentionAlert is the share of the change feed's retention at which a range that
	// is behind is reported.
	retentionAlert = 0.5
	// retentionRelief is the share at which the oldest waiting key is put into the dead letter
	// store, so that the position does not leave the retention because of it.
	retentionRelief = 0.75
)

// leavesRetention reports whether a change that was written at timestamp is about to leave the
// container's retention.
func (w *rangeWorker) leavesRetention(timestamp int64) bool {
	_, _, past := w.pastRetention(retentionRelief, timestamp)
	return past && !w.readsSnapshot
}

// watchRetention logs that a range's changes, the oldest of which was written at
// timestamp (Unix seconds), will soon leave the container's retention. Status says
// so too, as long as they are not finished.
func (w *rangeWorker) watchRetention(timestamp int64) {
	if err := w.retentionError(timestamp); err != nil {
		w.log.Error("range falls behind its retention", slog.Any("error", err))
	}
	if err := w.softDeleteError(); err != nil && w.softDeletes.isNews() {
		w.log.Error("range falls behind the deletes", slog.Any("error", err))
	}
}

// oldestUnfinished is the retention error of the oldest change that is read and not
// finished.
func (w *rangeWorker) oldestUnfinished() error {
	_, timestamp, ok := w.rangeDelivery.OldestUnfinished()
	if !ok {
		return nil
	}
	return w.retentionError(timestamp)
}

// pastRetention returns the age of a change that was written at timestamp, and whether it
// has used up a share of the container's retention.
func (w *rangeWorker) pastRetention(share float64, timestamp int64) (age, retention time.Duration, past bool) {
	retention = w.leases.Monitored().Retention
	if s := w.snapshot(); s != nil { // the changes of a snapshot may be old: the changes after it leave the retention
		timestamp = s.Since
	}
	if w.function.ChangeFeedMode != cosmos.ModeAllVersions || retention == 0 || timestamp == 0 {
		return 0, retention, false
	}
	age = w.leases.Now().Sub(time.Unix(timestamp, 0))
	return age, retention, age >= time.Duration(share*float64(retention))
}

// retentionError is an error while there is time to act, and after that.
func (w *rangeWorker) retentionError(timestamp int64) error {
	age, retention, past := w.pastRetention(retentionAlert, timestamp)
	if !past {
		return nil
	}
	if w.readsSnapshot {
		return fmt.Errorf("the snapshot of the range has taken %s, and changes are kept for %s only: if it is not read by then, it begins again", age.Round(time.Second), retention)
	}
	text := fmt.Sprintf("the range is %s behind, and its changes are kept for %s only", age.Round(time.Second), retention)
	if age >= retention {
		return fmt.Errorf("%s: they are lost unless this host delivers the ones that it has read", text)
	}
	return fmt.Errorf("%s: in %s the first will be lost", text, (retention - age).Round(time.Second))
}

// softDeletes knows how long documents live that are marked as deleted, for all ranges of a
// function. They leave latest-version feeds when they expire.
type softDeletes struct {
	shortest atomic.Int64 // time to live of those that were read, a Duration; 0 if none expires
	told     atomic.Int64 // when the log last told of a range that is too late, Unix seconds
}

// observe is told each soft-deleted document of a container with a default time to live in seconds:
// without one, and without a ttl of its own, a document does not expire.
func (d *softDeletes) observe(document []byte, defaultTTL *int) {
	if defaultTTL == nil {
		return // the service ignores the ttl of documents
	}
	ttl, own := feed.TTL(document)
	if !own && *defaultTTL > 0 {
		ttl = time.Duration(*defaultTTL) * time.Second
	}
	for ttl > 0 {
		shortest := d.shortest.Load()
		if shortest > 0 && int64(ttl) >= shortest || d.shortest.CompareAndSwap(shortest, int64(ttl)) {
			return
		}
	}
}

// isNews reports whether the log is to tell again: once a minute for the function.
func (d *softDeletes) isNews() bool {
	now, told := time.Now().Unix(), d.told.Load()
	return now-told >= 60 && d.told.CompareAndSwap(told, now)
}

// softDeleteError is an error if the range reads so late that soft-deleted documents may expire before
// it reads them. Changes from before the leases were created were never awaited.
func (w *rangeWorker) softDeleteError() error {
	lives, read := time.Duration(w.softDeletes.shortest.Load()), w.readUpTo.Load()
	if lives == 0 || read == 0 {
		return nil
	}
	now := w.leases.Now()
	late := min(now.Sub(time.Unix(read, 0)), now.Sub(w.leases.Since()))
	if late < time.Duration(retentionAlert*float64(lives)) {
		return nil
	}
	text := fmt.Sprintf("the range is read %s late, and documents that are marked by %s live for %s only", late.Round(time.Second), w.function.SoftDeleteProperty, lives)
	if late >= lives {
		return fmt.Errorf("%s: deletes that have expired are lost", text)
	}
	return fmt.Errorf("%s: in %s the first deletes will be lost", text, (lives - late).Round(time.Second))
}
