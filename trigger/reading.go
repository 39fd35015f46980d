package trigger

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// newReader returns the reader of the worker's range. sent is called after each page.
func (w *rangeWorker) newReader(sent func()) *feed.Reader {
	pollDelay := w.function.FeedPollDelay
	return &feed.Reader{
		Source: w.feedSource, LeaseToken: w.held.Lease().Token(), MergedRange: w.held.Lease().ByKeys(), FirstPage: w.firstPage, FirstItems: savedPageItems(w.held.Lease()), UntilCaughtUp: w.drain,
		PollMin: w.function.FeedPollMin, PollDelay: pollDelay, ChangedAt: w.formerlyChanged(),
		ReadTimeout: w.host.options.LeaseExpirationInterval, JitterKey: w.jitterKey(),
		Budget: w.host.pageBudget, Reserved: w.reservedBytes,
		FirstPosition: w.firstPosition, SnapshotEnd: w.snapshotEnd, Locate: w.locateRange, Relocate: w.relocateRange, IsFinal: isFinalRead,
		UntilPoll: func() time.Duration { return w.host.untilPoll(pollDelay) },
		PayRead:   w.payRead, PageSent: sent,
		Verify: w.verifyPage, VerifyPosition: w.verifyPosition,
		ObservePage: w.observePage,
		ReportProblem: func(err error, failures int) {
			w.rangeStats.setProblem(delivery.AllLanes, feedStallOf(err, w.feedSource.Mode), err)
			w.log.Warn("read feed failed", slog.Any("error", err), slog.Int("failures", failures))
		},
	}
}

// formerlyChanged returns when earlier owners of the range last had changes, or later by the error of
// the clocks; the zero time if that is not known. A range that was busy a moment ago is polled as
// often by its next owner.
func (w *rangeWorker) formerlyChanged() time.Time {
	moved := w.rangeStats.movedAt.Load()
	if moved == 0 {
		return time.Time{}
	}
	return time.Now().Add(clockError - max(w.leases.Now().Sub(time.Unix(moved, 0)), clockError))
}

// pageItemsProperty is the lease property that tells the next owner how many changes to ask
// for in its first page, see [delivery.Delivery.FirstItems].
const pageItemsProperty = "halley.pageItems"

// pageItemsProperty returns the property, "" if pages have their full size. The lease's writer
// calls it at each write: an owner that is killed has no later one.
func (w *rangeWorker) pageItemsProperty() string {
	if items := w.rangeDelivery.FirstItems(); items > 0 {
		return strconv.Itoa(items)
	}
	return ""
}

// savedPageItems reads the property of a lease, 0 if it has none.
func savedPageItems(l *lease.Lease) int {
	items, _ := strconv.Atoi(l.Property(pageItemsProperty))
	return max(items, 0)
}

// pageSizes returns how many changes a page of the function has: of a range that has caught up, and
// of one that is behind. A function with ReadRequestUnits does not read large pages, as one of
// them could cost many seconds' worth at a time.
func (f *Function) pageSizes() (usual, most int) {
	usual, most = cmp.Or(f.PageItems, feed.UsualItems), f.PageItems
	if f.PageItems == 0 && f.ReadRequestUnits == 0 {
		most = feed.MostItems
	}
	return usual, max(usual, most)
}

// sourceOf returns the feed as a lease reads it. In a merged range LSNs do not name positions.
func (r *functionRunner) sourceOf(l *lease.Lease) *feed.Source {
	if l.ByKeys() {
		return r.feedSource.AsOpaque()
	}
	return r.feedSource
}

// firstPosition returns the continuation to read first. A lease that begins now gets a
// concrete position before anything is delivered; otherwise changes written while
// no host runs would be skipped.
func (w *rangeWorker) firstPosition(ctx context.Context) (string, error) {
	if w.superseded {
		if isSuperseded, err := w.held.StillSuperseded(ctx); err != nil {
			return "", err
		} else if isSuperseded {
			return "", errSuperseded
		}
	}
	if begun, err := w.held.SplitBegun(ctx); err != nil {
		return "", err
	} else if begun {
		return "", lease.ErrSplit
	}
	if w.readsSnapshot {
		return w.firstSnapshotPosition(ctx)
	}
	if continuation := w.held.Lease().Continuation(); continuation != "" {
		return continuation, nil
	}
	part, err := w.locateRange(ctx)
	if err != nil {
		return "", err
	}
	token, err := w.feedSource.ResolveStart(ctx, w.feedSource.Start, part)
	if err != nil || token == "" {
		return "", err
	}
	w.held.Advance(token, time.Now())
	return token, w.held.Flush(ctx)
}

func (w *rangeWorker) observePage(page *feed.Page) {
	w.noteAnswer(useFeed, nil)
	w.held.RangeRead()
	if page.UnknownForm != "" && w.toldUnknownForm.CompareAndSwap(false, true) {
		w.log.Warn("feed has changes in a form that is not known; delivering them as upserts if they have a document",
			slog.String("form", page.UnknownForm), slog.String("continuation", page.Continuation))
	}
	if w.rangeStats.countPage(page) {
		w.emitEvent(Event{Kind: EventCaughtUp, Range: w.held.Lease().Token(), Epoch: w.held.Epoch(), Continuation: page.Continuation})
	}
	if page.NotModified {
		w.rangeDelivery.CaughtUp()
		w.readUpTo.Store(0)
	}
	if len(page.Items) > 0 {
		w.readUpTo.Store(page.Items[len(page.Items)-1].Timestamp)
		w.rangeDelivery.PageRead()
		w.watchRetention(page.Items[0].Timestamp)
	}
}
