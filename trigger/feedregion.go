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
	"halley/trigger/internal/lease"
	"halley/trigger/units"
)

// An unplanned failover of the monitored container's range loses the writes that the new write
// region does not have, and later changes may get their LSNs. So each lease keeps up to which LSN
// all regions had the part that was read, and the region and version in which that was:
//
//  1. Each page has its version and the committed LSN. If the version has risen, or no region has
//     reached the position any more, the range has failed over. If versions do not rise, another
//     first write region in the account's document shows it; since the account is read every few
//     minutes, the LSN before its last read counts then.
//  2. The changes up to the committed LSN are the same in the new region, and if each version is
//     read, all that was read up to there. Latest versions hide what came before them: if a page had
//     the second version of a document, or passed a document that was deleted, and that write is
//     lost, the first version is back, below the committed LSN. So a page counts as kept only once
//     the committed LSN has reached the newest LSN that its region had then.
//  3. If the range was read further than that, the owner releases the lease there, with nothing
//     finished behind it. The next owner, mostly the same host, delivers the changes after it in a
//     new epoch.
//  4. If the service does not tell the committed LSN, the range waits at its position, and status
//     says so, or LostPosition sets it back by time.
//
// If a failover changes neither version nor region, and new changes get the LSNs of lost ones
// before a page is read, nothing shows it: see docs/regions.md.

// clockTolerance is how many seconds the estimates of the service's clock of two hosts may differ: it
// tells whole seconds.
const clockTolerance = 2

// keptForm is the version of the stored form of a keptFeed.
const keptForm = 1

// keptFeed is how much of the range's feed all regions had when its owner last read it.
type keptFeed struct {
	Form      int    `json:"v"`
	Range     string `json:"range"`           // that the feed is of; the parent if the range has split since
	Region    string `json:"region"`          // host of the account's first write region
	Account   int64  `json:"account"`         // when the account was read that names it, on the service's clock in Unix seconds
	Version   int64  `json:"version"`         // of the range's session tokens
	Raises    bool   `json:"raises,omitzero"` // a failover has raised the version: then changes of the account tell nothing more
	Committed int64  `json:"committed"`       // LSN that all regions have; 0 if the service does not tell
	LSN       int64  `json:"lsn"`             // up to which all regions had the part that was read
	Confirmed int64  `json:"confirmed"`       // the same before the last read of the account
	Newest    int64  `json:"newest"`          // newest LSN of any region that was read; of latest versions
	Next      int64  `json:"next"`            // position of the page that counts next, likewise
	NextFrom  int64  `json:"nextFrom"`        // committed LSN from which it counts
	At        int64  `json:"at"`              // when its last page was read, on the service's clock in Unix seconds
	Read      int64  `json:"read"`            // up to when changes were finished, when the position was last one of this feed, likewise
	Ahead     int64  `json:"ahead,omitempty"` // since when no region has reached the position, likewise; 0 if one has
}

// take moves the state on by a page that was read after a position, see rule 2 above. former is the
// state before the page, nil if there is none.
func (k *keptFeed) take(page *feed.Page, position int64, former *keptFeed, everyVersion bool) {
	if former == nil {
		former = &keptFeed{LSN: position}
	}
	k.Committed, k.LSN = max(k.Committed, former.Committed), former.LSN
	if everyVersion {
		k.LSN = max(k.LSN, k.Committed)
		return
	}
	read := feed.LSNOf(page.Continuation)
	k.Newest, k.Next, k.NextFrom = max(former.Newest, page.SessionLSN, read), former.Next, former.NextFrom
	if k.NextFrom <= k.Committed {
		k.LSN, k.Next, k.NextFrom = max(k.LSN, k.Next), read, k.Newest
	}
	if k.Newest <= k.Committed {
		k.LSN = max(k.LSN, read)
	}
}

// parseKept parses [lease.KeptProperty]. It returns nil if there is none, or if this version of Halley
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

// feedState is how a page compares with the feed that was read before.
type feedState int

const (
	feedContinues feedState = iota
	feedBehind              // the page is of a region that has less than was read, or does not know of a failover yet
	feedFailedOver
)

// compare returns how a page compares, and after a failover the LSN to read again from. now is the
// page's own state.
func (k *keptFeed) compare(now keptFeed, isBehind bool) (state feedState, keptLSN int64) {
	switch {
	case k == nil, now.Range != k.Range && now.Version < k.Version:
		return feedContinues, 0
	case now.Version < k.Version:
		return feedBehind, 0
	case now.Version > k.Version:
		return feedFailedOver, k.LSN
	case now.Region != k.Region && now.Account > k.Account && !k.Raises: // else this client knows an older account
		return feedFailedOver, k.Confirmed
	case isBehind:
		return feedBehind, 0
	case k.Ahead > 0: // it was shorter for a while
		return feedFailedOver, k.LSN
	}
	return feedContinues, 0
}

// stateOf returns the state of a range's feed as a page shows it.
func stateOf(page *feed.Page, l *lease.Lease, container *cosmos.Container) keptFeed {
	readAt := container.Client().RegionsReadAt() // before its region: a later one only looks older
	account := container.Client().Now().Add(-time.Since(readAt)).Unix()
	return keptFeed{Form: keptForm, Range: l.Token(), Region: container.WriteRegion(), Account: account, Version: page.Version, Committed: page.CommittedLSN}
}

// isBehind reports whether a page is of a region that has not reached a position.
func isBehind(page *feed.Page, position int64) bool {
	return page.SessionLSN > 0 && page.SessionLSN < position
}

// continuesFeed reports whether a page that was read at the position of a lease continues the feed
// that its last owner has read. It is for callers that look at a range without owning it.
func continuesFeed(page *feed.Page, l *lease.Lease, position string, container *cosmos.Container) bool {
	if l.ByKeys() || !container.Client().FailsOver() {
		return true
	}
	state, _ := parseKept(l.Property(lease.KeptProperty)).compare(stateOf(page, l, container), isBehind(page, feed.LSNOf(position)))
	return state == feedContinues
}

// errFeedFailedOver ends the work on a range that was read further than all regions had its feed
// when it failed over.
var errFeedFailedOver = errors.New("the monitored range has failed over")

// verifyPage returns an error if a page, read after the continuation, does not continue the pages
// before it. The reader calls it for each page. An account with one region does not fail over.
func (w *rangeWorker) verifyPage(ctx context.Context, page *feed.Page, continuation string) error {
	if w.held.Lease().ByKeys() || !w.feedSource.Container.Client().FailsOver() { // merged ranges are of several feeds
		return nil
	}
	position := feed.LSNOf(continuation)
	w.refusedReads = 0
	now, former := stateOf(page, w.held.Lease(), w.feedSource.Container), w.kept.Load()
	now.At = w.leases.Now().Unix()
	now.Read = now.At
	if len(page.Items) > 0 {
		now.Read = min(now.Read, page.Items[0].Timestamp)
	}
	if _, written, isBehind := w.rangeDelivery.OldestUnfinished(); isBehind {
		now.Read = min(now.Read, written)
	}
	state, keptLSN := former.compare(now, isBehind(page, position))
	switch state {
	case feedBehind:
		return cmp.Or(w.checkReached(ctx, continuation), feed.ErrStale) // it also tells this client of newer regions
	case feedFailedOver:
		return w.failedOver(ctx, position, keptLSN, now)
	}
	now.take(page, position, former, w.feedSource.Mode == cosmos.ModeAllVersions && !w.readsSnapshot)
	if now.Confirmed = now.LSN; former != nil {
		now.Confirmed, now.Raises = former.Confirmed, former.Raises
		if now.Account <= former.Account {
			now.Region, now.Account = former.Region, former.Account
		} else if former.At < now.Account-clockTolerance {
			now.Confirmed = former.LSN
		}
	}
	w.kept.Store(&now)
	return nil
}

// maxRefusedReads bounds the reads in a row that may be refused because a region lags.
const maxRefusedReads = 5

// verifyPosition returns an error if a read was refused because of its continuation: no region has
// reached it, or one of several had not.
func (w *rangeWorker) verifyPosition(ctx context.Context, continuation string) error {
	if err := w.checkReached(ctx, continuation); err != nil {
		w.refusedReads = 0
		return err
	}
	if w.refusedReads++; w.refusedReads <= maxRefusedReads && w.feedSource.Container.Client().FailsOver() {
		return feed.ErrStale
	}
	return nil
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
	newest, charge, err := w.feedSource.Container.NewestLSN(ctx, part.Physical)
	w.feedSource.Meter.Add(units.Polls, charge)
	if err != nil || position <= newest {
		return err
	}
	return w.positionAhead(ctx, position, newest)
}

// failedOver returns an error if a range was read further than all regions had it before it
// failed over. now is the state of its feed since. If the lease cannot be written, failedOver waits
// until it can. The lease gets state and position together: an owner that ends otherwise leaves both
// to the next one.
func (w *rangeWorker) failedOver(ctx context.Context, position, keptLSN int64, now keptFeed) error {
	former := w.kept.Load()
	now.Raises = former.Raises || now.Version > former.Version
	now.LSN, now.Confirmed, now.Newest, now.Next, now.NextFrom, now.Ahead = keptLSN, keptLSN, 0, 0, 0, 0
	if s := w.snapshot(); s != nil { // all versions begin at its end
		position = max(position, feed.LSNOf(s.Until))
	}
	switch {
	case max(position, w.finishedUpTo()) <= keptLSN:
		w.kept.Store(&now)
		return nil
	case former.Committed == 0:
		return w.positionLost(ctx, &feed.AheadError{Position: position}, &now)
	}
	if err := w.held.ConfirmOwnership(ctx); err != nil { // a lease that cannot be written cannot be released at the LSN
		return err
	}
	w.resume = &resumption{feed.QuotedLSN(keptLSN), &now}
	w.log.Warn("the monitored range has failed over; it is read again from where all regions had it",
		slog.Int64("position", position), slog.Int64("lsn", keptLSN), slog.String("region", now.Region), slog.Int64("version", now.Version))
	return errFeedFailedOver
}

// resumption is where the next owner of a range reads on, and the state of its feed there.
type resumption struct {
	position string
	kept     *keptFeed // nil if it is not known
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
	// seekPatience is the same if the committed LSN is not known.
	seekPatience = time.Minute
	// seekMargin is how far before the last read that agreed with a position a lost one is set.
	seekMargin = 15 * time.Minute
)

// positionAhead is the error of a position that no region has reached.
func (w *rangeWorker) positionAhead(ctx context.Context, position, newest int64) error {
	lost := &feed.AheadError{Position: position, Newest: newest}
	former := w.kept.Load()
	if former == nil {
		return lost
	}
	now := *former
	if now.Ahead == 0 {
		now.Ahead = w.leases.Now().Unix()
		w.kept.Store(&now)
	}
	if now.Committed == 0 {
		return w.positionLost(ctx, lost, nil)
	}
	lost.IsKeptKnown, lost.KeptLSN = true, min(now.LSN, newest)
	if w.leases.Now().Unix()-now.Ahead < int64(aheadPatience/time.Second) {
		return lost
	}
	began := time.Now()
	if err := w.held.ConfirmOwnership(ctx); err != nil || time.Since(began) > aheadPatience {
		return cmp.Or(err, error(lost)) // the region that has the changes may be back
	}
	return w.failedOver(ctx, position, lost.KeptLSN, now)
}

// positionLost returns the error of a position that is lost, while the committed LSN is not known:
// errPositionLost if the function sets it back now. next is the state of the feed then, nil if it is
// not known.
func (w *rangeWorker) positionLost(ctx context.Context, lost *feed.AheadError, next *keptFeed) error {
	k := *w.kept.Load()
	lost.SeekTo = time.Unix(k.Read, 0).Add(-seekMargin)
	if k.Ahead == 0 {
		k.Ahead = w.leases.Now().Unix()
		w.kept.Store(&k)
	}
	isLate := w.leases.Now().Unix()-k.Ahead >= int64(seekPatience/time.Second)
	if w.function.LostPosition != lostPositionSeek || w.readsSnapshot || w.feedSource.Mode == cosmos.ModeAllVersions || !isLate {
		return lost // all versions cannot be read from a time
	}
	part, err := w.locateRange(ctx)
	if err != nil {
		return errors.Join(lost, err)
	}
	position, err := w.feedSource.PositionAt(ctx, lost.SeekTo, part)
	if err != nil {
		return errors.Join(lost, fmt.Errorf("set the position back: %w", err))
	}
	w.resume = &resumption{position, next}
	w.log.Warn("the position is lost and set back", slog.Int64("position", lost.Position), slog.String("to", position), slog.Time("time", lost.SeekTo))
	return errPositionLost
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
func (w *rangeWorker) endFailover(ended error) {
	if !errors.Is(ended, errFeedFailedOver) && !errors.Is(ended, errPositionLost) {
		return
	}
	w.kept.Store(w.resume.kept)
	if s := w.snapshot(); s != nil && feed.IsLess(w.resume.position, s.Until) { // changes after it are read as versions
		s.Until = w.resume.position
		w.setSnapshot(s.encode())
	}
	acknowledged, _ := w.rangeDelivery.Snapshot()
	position := cmp.Or(acknowledged, w.held.Position())
	if feed.IsLess(w.resume.position, position) {
		position = w.resume.position
	}
	w.releaseAt(position)
}

// releaseAt has the release of the lease set another position, with nothing finished behind it.
func (w *rangeWorker) releaseAt(position string) {
	w.held.Snapshot = func() (string, string) { return position, "" }
	w.held.Advance(position, time.Now())
}
