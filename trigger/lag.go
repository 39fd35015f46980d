package trigger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
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
	// Exact reports whether Changes is the number of changes and not an estimate.
	Exact bool `json:"exact"`
	// Seconds is the age of the oldest change that is not checkpointed, or 0 if
	// there is none.
	Seconds float64 `json:"seconds"`
	// Problem says why the lag is unknown; Changes is then at least 1.
	Problem string `json:"problem,omitempty"`
}

// estimateParallel is the number of leases that are read at a time.
const estimateParallel = 16

// EstimateLag reads every lease of a function and one page of the feed behind it.
// It writes nothing, owns nothing, and may be called by a process that runs no
// host. Of the function only Name, LeasePrefix, Container, ChangeFeedMode and
// StartFrom count. A part of the key space that no lease covers is a Lag with a
// Problem. If no host has ever run the function, the result is empty.
func EstimateLag(ctx context.Context, leases *cosmos.Container, of Function) ([]Lag, error) {
	set := lease.NewSet(lease.Config{
		Leases: leases, Monitored: of.Container, Prefix: of.leasePrefix(), Function: of.Name, Mode: of.ChangeFeedMode,
		Expiration: time.Minute, Log: zap.NewNop(),
	})
	found, err := set.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	of.MaxItemsPerInvocation = 1
	e := &lagEstimate{functionName: of.Name, leases: set, feedSource: newSource(of, found.Since, set.Monitored().ResourceID)}
	lags := make([]Lag, len(found.Leases), len(found.Leases)+len(found.Invalid)+len(found.Gaps))
	slots := make(chan struct{}, estimateParallel)
	var working sync.WaitGroup
	for i, l := range found.Leases {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			lags[i] = e.leaseLag(ctx, l)
		})
	}
	working.Wait()
	for _, i := range found.Invalid {
		lags = append(lags, Lag{Function: of.Name, Range: i.ID, Changes: 1, Problem: i.Err.Error()})
	}
	for _, gap := range found.Gaps {
		lags = append(lags, Lag{Function: of.Name, Range: gap.Token(), Changes: 1, Problem: fmt.Sprintf(
			"no lease covers the keys from %q to %q: they are not read until a running host has created one", gap.Span.Min, gap.Span.Max)})
	}
	return lags, context.Cause(ctx)
}

// lagEstimate reads the lag of the leases of one function.
type lagEstimate struct {
	functionName string
	leases       *lease.Set
	feedSource   *feed.Source
}

// leaseLag reads the lag of one lease. If its range has split, it is as far behind as
// its children will be together.
func (e *lagEstimate) leaseLag(ctx context.Context, l *lease.Lease) Lag {
	total := Lag{Function: e.functionName, Range: l.Token(), Owner: l.Owner(), Continuation: l.Continuation(), Exact: true}
	if err := e.addLag(ctx, l, &total); err != nil {
		total.Changes, total.Exact, total.Problem = max(total.Changes, 1), false, err.Error()
	}
	return total
}

func (e *lagEstimate) addLag(ctx context.Context, l *lease.Lease, total *Lag) error {
	at, err := e.leases.Locate(ctx, l)
	if errors.Is(err, lease.ErrSplit) {
		children, err := e.leases.Children(l)
		for _, c := range children {
			err = errors.Join(err, e.addLag(ctx, c, total))
		}
		return err
	}
	if err != nil {
		return err
	}
	if l.Continuation() == "" && e.feedSource.Start.Kind == feed.StartNow {
		return nil // its position will be the time of its acquisition
	}
	page, err := e.feedSource.ReadPage(ctx, feedTarget(at), l.Continuation())
	if cosmos.Classify(err) == cosmos.RangeGone {
		if err := e.leases.RefreshRanges(ctx); err != nil {
			return err
		}
		if children, err := e.leases.Children(l); err != nil || children == nil {
			return errors.Join(err, lease.ErrRangesChanging)
		}
		return e.addLag(ctx, l, total)
	}
	if err != nil {
		return err
	}
	defer page.Release()
	total.addPage(page, e.leases.Now())
	return nil
}

// addPage counts a page of one change. The formula is that of
// azure-cosmos-dotnet-v3 (ChangeFeedEstimatorIterator): the LSN of the session
// token, less the one before the first change.
func (g *Lag) addPage(page *cosmos.Page, now time.Time) {
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
