package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
)

// Lag is how far one lease is behind the feed of its range.
type Lag struct {
	Function     string `json:"function"`
	Range        string `json:"range"`        // lease token
	Owner        string `json:"owner"`        // "" is free
	Continuation string `json:"continuation"` // saved; "" before the first checkpoint

	// Changes is the difference between the newest LSN of the range and the last
	// one before the next change. It counts transactions, also those that the
	// feed does not show, such as deletes: an upper bound in most cases, and what
	// the .NET estimator and KEDA's azure-cosmosdb scaler report.
	Changes int64 `json:"changes"`
	// Exact says that Changes is the number of changes and not an estimate.
	Exact bool `json:"exact"`
	// Seconds is the age of the oldest change that is not checkpointed; 0 where
	// there is none.
	Seconds float64 `json:"seconds"`
	// Problem says why the lag is not known; Changes is then 1 at least.
	Problem string `json:"problem,omitempty"`
}

// estimateParallel is how many leases are looked at together.
const estimateParallel = 16

// EstimateLag looks at every lease of a function and at the feed behind it, one
// read each. It writes nothing, owns nothing, and may be called by a process
// that runs no host. Only Name, Container, Mode and Start of the function count.
// What no lease covers is a Lag with a Problem. A function whose hosts never ran
// has none at all.
func EstimateLag(ctx context.Context, leases *cosmos.Container, of Function) ([]Lag, error) {
	store, err := newLeaseStore(ctx, leases, of, time.Minute)
	if err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	f := &function{Function: of, store: store, ranges: topology{container: of.Container}, log: zap.NewNop()}
	f.MaxItemsPerInvocation = 1
	if _, err := f.ranges.refresh(ctx); err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	var began bool
	if f.since, _, began, err = store.stamp(ctx, store.markerID()); err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	all, bad, err := store.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	if !began && len(all) == 0 && len(bad) == 0 {
		return nil, nil
	}
	uncovered, err := f.uncovered(ctx, all, bad)
	if err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	found, _ := onePerToken(all, store.now(), store.expiration)
	found = slices.DeleteFunc(found, (*lease).tombstone)
	lags := make([]Lag, len(found), len(found)+len(bad)+len(uncovered))
	slots := make(chan struct{}, estimateParallel)
	var working sync.WaitGroup
	for i, l := range found {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			lags[i] = f.lag(ctx, l)
		})
	}
	working.Wait()
	for _, b := range bad {
		lags = append(lags, Lag{Function: of.Name, Range: b.id, Changes: 1, Problem: b.err.Error()})
	}
	for _, hole := range uncovered {
		lags = append(lags, Lag{Function: of.Name, Range: hole.newLease(store.prefix).token, Changes: 1, Problem: fmt.Sprintf(
			"no lease covers the keys from %q to %q: nobody reads them until a running host has made one anew", hole.span.Min, hole.span.Max)})
	}
	return lags, context.Cause(ctx)
}

// uncovered lists what no lease covers. Leases that change while they are listed
// may show a hole that never was, so a second look has to see it, too.
func (f *function) uncovered(ctx context.Context, leases []*lease, bad []unreadable) ([]part, error) {
	seen := holes(f.ranges.current(), leases, bad, f.store.prefix)
	if len(seen) == 0 {
		return nil, nil
	}
	ranges, err := f.ranges.refresh(ctx)
	if err != nil {
		return nil, err
	}
	if leases, bad, err = f.store.list(ctx); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(holes(ranges, leases, bad, f.store.prefix), func(p part) bool {
		return !slices.ContainsFunc(seen, func(o part) bool { return o.span.overlaps(p.span) })
	}), nil
}

// lag looks at one lease. A lease whose range has split is as far behind as
// its children will be together.
func (f *function) lag(ctx context.Context, l *lease) Lag {
	total := Lag{Function: f.Name, Range: l.token, Owner: l.owner, Continuation: l.continuation, Exact: true}
	if err := f.addLag(ctx, l, &total); err != nil {
		total.Changes, total.Exact, total.Problem = max(total.Changes, 1), false, err.Error()
	}
	return total
}

func (f *function) addLag(ctx context.Context, l *lease, total *Lag) error {
	at, err := f.physical(ctx, l)
	if errors.Is(err, errSplit) {
		_, children, err := locate(l, f.ranges.current(), f.store.prefix)
		for _, c := range children {
			err = errors.Join(err, f.addLag(ctx, c, total))
		}
		return err
	}
	if err != nil {
		return err
	}
	if l.continuation == "" && f.begin().kind == startNow {
		return nil // its position will be now, whenever that is
	}
	page, err := f.readFeed(ctx, at, l.continuation)
	if cosmos.Classify(err) == cosmos.RangeGone {
		if _, err := f.ranges.refresh(ctx); err != nil {
			return err
		}
		if _, children, err := locate(l, f.ranges.current(), f.store.prefix); err != nil || children == nil {
			return errors.Join(err, errRangesChanging)
		}
		return f.addLag(ctx, l, total)
	}
	if err != nil {
		return err
	}
	defer page.Release()
	total.add(page, f.store.now())
	return nil
}

// add counts what a page of one change says. The formula is that of
// azure-cosmos-dotnet-v3 (ChangeFeedEstimatorIterator): the LSN of the session
// token, less the one before the first change.
func (g *Lag) add(page *cosmos.Page, now time.Time) {
	if page.NotModified || len(page.Items) == 0 {
		return
	}
	first := page.Items[0]
	behind := page.SessionLSN - (first.LSN - 1)
	known := page.SessionLSN > 0 && first.LSN > 0 && behind > 0
	if !known {
		behind = 1
	}
	g.Changes += behind
	g.Exact = g.Exact && known && behind == 1 && len(page.Items) == 1
	if first.Timestamp > 0 {
		g.Seconds = max(g.Seconds, now.Sub(time.Unix(first.Timestamp, 0)).Seconds())
	}
}
