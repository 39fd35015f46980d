package trigger

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/finished"
)

// An unplanned failover of the monitored container's range loses the writes that the region which
// takes over does not have, and their LSNs may be those of other changes then. So each lease keeps
// up to which LSN all regions had the feed, and in which region and version that was:
//
//  1. A page tells its version and its committed LSN. If the version has risen, or no region has
//     reached the position any more, the range has failed over. If versions do not rise, it also has
//     if the account names another first write region; since the account is read from time to time
//     only, what all regions had before its last read counts then.
//  2. What was read up to that LSN is the same in the new region. If the range was read further,
//     the owner releases the lease at that LSN, and without what is finished behind it. The next
//     owner, mostly the same host, delivers in a new epoch what follows now.
//  3. If the service does not tell what all regions have, the range waits at its position, and says
//     so, or LostPosition sets it back by time.
//
// If a failover changes neither version nor region, and new changes get the LSNs of lost ones
// before a page is read, nothing shows it. docs/regions.md says what that means.

// keptProperty is the lease property that holds a keptFeed, of accounts with several regions.
const keptProperty = "halley.kept"

// keptForm is the version of the stored form of a keptFeed.
const keptForm = 1

// keptFeed is how much of the range's feed all regions had when its owner last read it.
type keptFeed struct {
	Form      int    `json:"v"`
	Range     string `json:"range"`           // whose feed it is; that of its parent if the range has split since
	Region    string `json:"region"`          // host of the account's first write region
	Version   int64  `json:"version"`         // of the range's session tokens
	Raises    bool   `json:"raises,omitzero"` // a failover has raised the version: then changes of the account tell nothing more
	LSN       int64  `json:"lsn"`             // newest one that all regions had; 0 if the service does not tell
	Confirmed int64  `json:"confirmed"`       // the same before the last read of the account
	Read      int64  `json:"read"`            // when the position was last one of this feed, on the service's clock in Unix seconds
	Ahead     int64  `json:"ahead,omitempty"` // since when it is ahead of the feed, likewise; 0 if it is not
}

// parseKept parses [keptProperty]. It returns nil if there is none, or if this version of Halley
// cannot read its form.
func parseKept(property string) *keptFeed {
	var k keptFeed
	if json.Unmarshal([]byte(property), &k) != nil || k.Form != keptForm {
		return nil
	}
	return &k
}

// keptProperty returns the property as the next write of the lease stores it.
func (w *rangeWorker) keptProperty() string {
	k := w.kept.Load()
	if k == nil {
		return ""
	}
	property, _ := json.Marshal(k) // text and numbers always encode
	return string(property)
}

// errFeedFailedOver ends the work on a range that was read further than all regions had its feed
// when it failed over.
var errFeedFailedOver = errors.New("the monitored range has failed over")

// verifyPage returns an error if a page, read after the continuation, does not continue what
// was read before. The reader calls it for each page.
func (w *rangeWorker) verifyPage(ctx context.Context, page *feed.Page, continuation string) error {
	if w.held.Lease().ByKeys() { // of several feeds
		return nil
	}
	position := feed.LSNOf(continuation)
	w.refusedReads = 0
	if err := w.checkKept(page, position); err != nil {
		return err
	}
	if page.SessionLSN == 0 || position <= page.SessionLSN {
		return nil
	}
	return cmp.Or(w.checkReached(ctx, continuation), feed.ErrStale) // else a replica that lags has answered
}

// maxRefusedReads bounds the reads in a row that may be refused because a region lags.
const maxRefusedReads = 5

// verifyPosition returns an error if a read was refused because of its continuation: no region has
// reached it, or one of several had not.
func (w *rangeWorker) verifyPosition(ctx context.Context, continuation string) error {
	err := w.checkReached(ctx, continuation)
	if w.refusedReads++; err == nil && w.refusedReads <= maxRefusedReads && w.feedSource.Container.Client().FailsOver() {
		return feed.ErrStale
	}
	return err
}

// checkReached returns an error if no region that answers has reached a continuation.
func (w *rangeWorker) checkReached(ctx context.Context, continuation string) error {
	position := feed.LSNOf(continuation)
	if w.held.Lease().ByKeys() || position == 0 {
		return nil
	}
	part, err := w.locateRange(ctx)
	if err != nil {
		return err
	}
	newest, err := w.feedSource.Container.NewestLSN(ctx, part.Physical)
	if err != nil || position <= newest {
		return err
	}
	return w.positionAhead(position, newest)
}

// checkKept returns an error if the range has failed over since its last page, and was read further
// than all regions had it.
func (w *rangeWorker) checkKept(page *feed.Page, position int64) error {
	container := w.feedSource.Container
	if !container.Client().FailsOver() {
		return nil
	}
	now := keptFeed{Form: keptForm, Range: w.held.Lease().Token(), Region: container.WriteRegion(), Version: page.Version, LSN: page.CommittedLSN, Read: w.leases.Now().Unix()}
	former, readAt := w.kept.Load(), container.Client().RegionsReadAt()
	if former == nil || now.Range != former.Range && now.Version < former.Version {
		now.Confirmed, w.confirmedAt = now.LSN, readAt
		w.kept.Store(&now)
		return nil
	}
	if now.Version < former.Version { // a region that does not know of the failover yet
		return nil
	}
	now.Confirmed, now.Raises = former.Confirmed, former.Raises || now.Version > former.Version
	if !w.confirmedAt.IsZero() && readAt.After(w.confirmedAt) {
		now.Confirmed = former.LSN
	}
	w.confirmedAt = readAt
	isBehind := page.SessionLSN > 0 && page.SessionLSN < position
	switch {
	case now.Version > former.Version:
		return w.failedOver(position, former.LSN, now)
	case now.Region != former.Region && !now.Raises:
		return w.failedOver(position, former.Confirmed, now)
	case isBehind: // see verifyPosition
		return nil
	case former.Ahead > 0:
		return w.failedOver(position, former.LSN, now)
	}
	now.LSN = max(now.LSN, former.LSN)
	w.kept.Store(&now)
	return nil
}

// failedOver returns an error if a range was read further than up to the LSN that all regions had
// before it failed over. now is what is known of its feed since.
func (w *rangeWorker) failedOver(position, keptLSN int64, now keptFeed) error {
	switch {
	case max(position, w.finishedUpTo()) <= keptLSN:
		w.kept.Store(&now)
		return nil
	case keptLSN == 0:
		return w.positionLost(&feed.AheadError{Position: position})
	}
	now.LSN = min(now.LSN, keptLSN)
	now.Confirmed = now.LSN
	w.kept.Store(&now)
	w.resumeAt = keptLSN
	w.log.Warn("the monitored range has failed over; it is read again from the LSN that all regions had",
		slog.Int64("position", position), slog.Int64("lsn", keptLSN), slog.String("region", now.Region), slog.Int64("version", now.Version))
	return errFeedFailedOver
}

// The values of Function.LostPosition.
const (
	lostPositionStall = "stall"
	lostPositionSeek  = "seek"
)

const (
	// aheadPatience is how long no region must have reached a position before it counts as lost. A
	// region that is not reachable may have.
	aheadPatience = 5 * time.Second
	// seekPatience is the same if what all regions had is not known.
	seekPatience = time.Minute
	// seekMargin is how far before the last read that agreed with a position a lost one is set.
	seekMargin = 15 * time.Minute
)

// positionAhead is the error of a position that no region has reached.
func (w *rangeWorker) positionAhead(position, newest int64) error {
	ahead := &feed.AheadError{Position: position, Newest: newest}
	former := w.kept.Load()
	if former == nil {
		return ahead
	}
	now := *former
	if now.Ahead == 0 {
		now.Ahead = w.leases.Now().Unix()
		w.kept.Store(&now)
	}
	if now.LSN == 0 {
		return w.positionLost(ahead)
	}
	if ahead.KeptLSN = min(now.LSN, newest); w.leases.Now().Unix()-now.Ahead < int64(aheadPatience/time.Second) {
		return ahead
	}
	now.Ahead = 0
	return w.failedOver(position, ahead.KeptLSN, now)
}

// positionLost returns the error of a position that is lost, while it is not known what all regions
// had: errPositionLost once the function may set it back.
func (w *rangeWorker) positionLost(ahead *feed.AheadError) error {
	k := *w.kept.Load()
	ahead.SeekTo = time.Unix(k.Read, 0).Add(-seekMargin)
	if k.Ahead == 0 {
		k.Ahead = w.leases.Now().Unix()
		w.kept.Store(&k)
	}
	if w.function.LostPosition == lostPositionSeek && w.leases.Now().Unix()-k.Ahead >= int64(seekPatience/time.Second) {
		return fmt.Errorf("%w: %w", errPositionLost, ahead)
	}
	return ahead
}

// errPositionLost ends the work on a range whose position the function sets back.
var errPositionLost = errors.New("the position is lost")

// finishedUpTo returns the LSN up to which changes behind the position may be finished.
func (w *rangeWorker) finishedUpTo() int64 {
	_, property := w.rangeDelivery.Snapshot()
	v, _ := finished.Parse(property)
	return v.Reached
}

// endFailover has the release of the lease set the position back. The lease's writer has stopped.
func (w *rangeWorker) endFailover(ctx context.Context, ended error) {
	var ahead *feed.AheadError
	switch {
	case errors.Is(ended, errFeedFailedOver):
		acknowledged, _ := w.rangeDelivery.Snapshot()
		position, resumed := cmp.Or(acknowledged, w.held.Position()), feed.QuotedLSN(w.resumeAt)
		if feed.IsLess(resumed, position) {
			position = resumed
		}
		w.releaseAt(position)
	case errors.Is(ended, errPositionLost) && errors.As(ended, &ahead):
		position, err := w.lostPosition(ctx, ahead)
		if err != nil {
			w.log.Warn("could not set the position back", slog.Any("error", err))
			return
		}
		w.kept.Store(nil)
		w.log.Warn("the position is ahead of the account and set back", slog.Int64("position", ahead.Position), slog.Int64("newest", ahead.Newest), slog.String("to", position))
		w.releaseAt(position)
	}
}

// lostPosition returns the position from which a range is read again whose position is lost.
func (w *rangeWorker) lostPosition(ctx context.Context, ahead *feed.AheadError) (string, error) {
	if w.feedSource.Mode == cosmos.ModeAllVersions {
		return "", errors.New("all versions cannot be read from a time, and it is not known which ones all regions had")
	}
	part, err := w.locateRange(ctx)
	if err != nil {
		return "", err
	}
	return w.feedSource.PositionAt(ctx, ahead.SeekTo, part)
}

// releaseAt has the release of the lease set another position, with nothing finished behind it.
func (w *rangeWorker) releaseAt(position string) {
	w.held.Snapshot = func() (string, string) { return position, "" }
	w.held.Advance(position, time.Now())
}
