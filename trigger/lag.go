package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
	"halley/trigger/stall"
	"halley/trigger/units"
)

// Lag is how far one lease is behind the feed of its range, and why. In JSON, changes
// and seconds are null if they are not known.
type Lag struct {
	Function     string `json:"function"`
	Range        string `json:"range"`            // lease token
	Owner        string `json:"owner"`            // "" is free
	Holder       string `json:"holder,omitempty"` // app and function of the last owner, "app/function"; "" is not known
	Continuation string `json:"continuation"`     // saved; "" before the first checkpoint

	// Changes is the number of changes that are not checkpointed, with those that a filter
	// leaves out. Kind says whether it is exact. An estimate has Transactions in place of
	// the changes that were not counted.
	Changes int64 `json:"changes"`
	// Transactions is the difference between the newest LSN of the range and the last one
	// before the next change: what the .NET estimator and KEDA's azure-cosmosdb scaler
	// report. It also counts transactions that the feed does not show, such as deletes,
	// and, if the container shares the throughput of its database, the writes to all
	// other containers in its partition, such as lease renewals.
	Transactions int64 `json:"transactions"`
	// Exact reports whether Changes is the number of changes and not an estimate.
	Exact bool `json:"exact"`
	// Seconds is the age of the oldest change that is not checkpointed, or 0 if
	// there is none.
	Seconds float64 `json:"seconds"`
	// Known reports whether Changes and Seconds are known. If not, Changes is at least
	// 1, and Problem says why.
	Known bool `json:"known"`

	Renewed      time.Time     `json:"renewed,omitzero"`      // last write of the lease by its owner, on the service's clock
	Checkpointed time.Time     `json:"checkpointed,omitzero"` // when a Halley host last moved the continuation
	DeadLettered int           `json:"deadLettered"`          // changes that Halley hosts gave up since the lease was created
	Postponed    int           `json:"postponed,omitempty"`   // keys with a postponed change, as the owner last wrote
	NextDue      time.Time     `json:"nextDue,omitzero"`      // when the first of these is due
	Snapshot     *SnapshotLag  `json:"snapshot,omitempty"`    // of a range whose snapshot is read
	Units        *units.Host   `json:"units,omitempty"`       // request units of the function on the host that wrote the lease last
	Stalls       []stall.Stall `json:"stalls,omitempty"`      // why the range makes no progress
	Problem      string        `json:"problem,omitempty"`     // the same in words, and why the lag is unknown
}

// Kind says how Changes is to be read: "exact" is the number of changes; "at most" counts
// transactions, among them those of the changes, of which several may be one transaction; and
// "unknown" is a lower bound.
func (g Lag) Kind() string {
	switch {
	case !g.Known:
		return "unknown"
	case g.Exact:
		return "exact"
	}
	return "at most"
}

// MarshalJSON implements [json.Marshaler].
func (g Lag) MarshalJSON() ([]byte, error) {
	type fields Lag
	if g.Known {
		return json.Marshal(struct {
			fields
			Kind string `json:"kind"`
		}{fields(g), g.Kind()})
	}
	return json.Marshal(struct {
		fields
		Kind    string   `json:"kind"`
		Changes *int64   `json:"changes"`
		Seconds *float64 `json:"seconds"`
	}{fields: fields(g), Kind: g.Kind()})
}

// estimateParallel is the number of leases whose feed is read at a time. The feed has
// feedPatience to answer for each leasesPerPatience of them: while it is throttled, the
// leases tell why.
const (
	estimateParallel  = 16
	feedPatience      = 2 * time.Second
	leasesPerPatience = 500
)

var errFeedSilent = errors.New("the feed has not answered in time")

// EstimateLag reads every lease of a function and one change of the feed behind it: the lag
// is exact for a range that is not behind, or only by its newest transaction.
// It writes nothing, owns nothing, and may be called by a process that runs no
// host. The lag of a range whose feed does not answer for 2 s, as while it is throttled, is
// not known. A part of the key space that no lease covers is a Lag with a Problem. If no host
// has ever run the function, the result is empty.
func EstimateLag(ctx context.Context, leases *cosmos.Container, source FeedSource) ([]Lag, error) {
	return estimateLag(ctx, leases, source, 1)
}

// CountLag is EstimateLag for a person who asks: it reads up to 100 changes behind every
// lease, which costs their request units, and is exact for a range that is not further behind.
func CountLag(ctx context.Context, leases *cosmos.Container, source FeedSource) ([]Lag, error) {
	return estimateLag(ctx, leases, source, feed.CountedChanges)
}

// estimateLag reads up to maxItems changes behind every lease.
func estimateLag(ctx context.Context, leases *cosmos.Container, source FeedSource, maxItems int) ([]Lag, error) {
	if err := source.checkLeases(leases); err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	set := lease.NewSet(lease.Config{
		Leases: leases, Monitored: source.Container, Prefix: source.leasePrefix(), Function: source.Name, Mode: source.ChangeFeedMode,
		Expiration: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	found, err := set.Inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("estimate lag: %w", err)
	}
	e := &lagEstimate{functionName: source.Name, leases: set, feedSource: newSource(source, found.Since, set.Monitored().ResourceID), maxItems: maxItems}
	lags := make([]Lag, len(found.Leases), len(found.Leases)+len(found.Invalid)+len(found.Gaps))
	reading, stop := context.WithTimeoutCause(ctx, feedPatience*time.Duration(1+len(found.Leases)/leasesPerPatience), errFeedSilent)
	defer stop()
	slots := make(chan struct{}, estimateParallel)
	var working sync.WaitGroup
	for i, l := range found.Leases {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			lags[i] = e.leaseLag(reading, l)
		})
	}
	working.Wait()
	for _, i := range found.Invalid {
		cause := stall.Stall{Kind: unreadableKind(i.Err), Text: i.Err.Error()}
		lags = append(lags, Lag{Function: source.Name, Range: i.ID, Changes: 1, Transactions: 1, Stalls: []stall.Stall{cause}, Problem: cause.Describe(time.Time{})})
	}
	// slices.SortStableFunc would be compiled for this type: 16 kB of every app.
	sort.SliceStable(lags, func(i, j int) bool { return lease.CompareTokens(lags[i].Range, lags[j].Range) < 0 })
	for _, gap := range found.Gaps {
		cause := stall.Stall{Kind: stall.NoOwner, Text: fmt.Sprintf(
			"no lease covers the keys from %q to %q: they are not read until a running host has created one", gap.Span.Min, gap.Span.Max)}
		lags = append(lags, Lag{Function: source.Name, Range: gap.Token(), Changes: 1, Transactions: 1, Stalls: []stall.Stall{cause}, Problem: cause.Text})
	}
	return lags, context.Cause(ctx)
}

// checkLeases returns an error if the fields that name the leases of a function are not set.
func (s FeedSource) checkLeases(leases *cosmos.Container) error {
	switch {
	case leases == nil:
		return errors.New("it needs the lease container")
	case s.Container == nil:
		return errors.New("it needs the function's Container")
	case s.Name == "" && s.LeasePrefix == "":
		return errors.New("it needs the function's Name")
	}
	return nil
}

// lagEstimate reads the lag of the leases of one function.
type lagEstimate struct {
	functionName string
	leases       *lease.Set
	feedSource   *feed.Source
	maxItems     int // changes that are counted of a range
}

// leaseLag reads the lag of one lease. If its range has split, it is as far behind as
// its children will be together.
func (e *lagEstimate) leaseLag(ctx context.Context, l *lease.Lease) Lag {
	status := parseLeaseStatus(l)
	total := Lag{
		Function: e.functionName, Range: l.Token(), Owner: l.Owner(), Holder: l.Holder(), Continuation: l.Continuation(), Exact: true, Known: true,
		Renewed: l.Written().UTC(), Checkpointed: unixTime(status.Checkpoint), DeadLettered: status.DeadLetters,
		Snapshot: snapshotLag(l, e.leases.Monitored().Retention),
	}
	if host, ok := units.ParseHost(l.Property(unitsProperty)); ok && (l.Owner() == "" || l.OwnedByHalley()) {
		total.Units = &host
	}
	postponed := parsePostponed(l)
	total.Postponed, total.NextDue = postponed.keys, unixTime(postponed.due)
	var problems []string
	if err := e.addLag(ctx, l, &total); err != nil {
		if cause := context.Cause(ctx); errors.Is(cause, errFeedSilent) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		total.addUnknown(err)
		total.Changes, total.Transactions = max(total.Changes, 1), max(total.Transactions, 1)
	}
	if total.Problem != "" {
		problems = append(problems, total.Problem)
	}
	now := e.leases.Now()
	if l.Owner() == "" && postponed.isDue(now) { // a drain has work although the feed has nothing new
		total.Changes, total.Transactions = max(total.Changes, 1), max(total.Transactions, 1)
	}
	pause, paused := pauseStall(l)
	if paused {
		total.Stalls = append(total.Stalls, pause)
	}
	if cause, ok := ownerStall(l, total, now); ok && !(paused && cause.Kind == stall.NoOwner) {
		total.Stalls = append(total.Stalls, cause)
	}
	if cause, ok := status.stall(); ok {
		total.Stalls = append(total.Stalls, cause)
	}
	if status.Expiry != "" {
		problems = append(problems, status.Expiry)
	}
	total.Problem = strings.Join(append(describeStalls(total.Stalls, now), problems...), "; ")
	return total
}

// ownerStall returns why nothing is to be expected of the lease's owner. A range without an
// owner waits if its oldest change is older than an expiration.
func ownerStall(l *lease.Lease, g Lag, now time.Time) (stall.Stall, bool) {
	if _, untilExpiration, silent := l.Silence(now); silent {
		return stall.Stall{Kind: stall.OwnerSilent, Since: l.Written().UTC(), Next: now.Add(untilExpiration).UTC()}, true
	}
	expiration := l.AnnouncedExpiration()
	if l.Owner() == "" && g.Seconds > expiration.Seconds() && now.Sub(l.Written()) > expiration {
		return stall.Stall{Kind: stall.NoOwner, Since: l.Written().UTC()}, true
	}
	return stall.Stall{}, false
}

// addLag adds the lag behind the continuation of a lease.
func (e *lagEstimate) addLag(ctx context.Context, l *lease.Lease, total *Lag) error {
	return e.addLagAfter(ctx, l, l.Continuation(), total)
}

// addLagAfter adds the lag behind a continuation of a lease's range, or that of its children.
func (e *lagEstimate) addLagAfter(ctx context.Context, l *lease.Lease, continuation string, total *Lag) error {
	part, err := e.leases.Locate(ctx, l)
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
	source := e.feedSource
	if readsSnapshot(l, source.Start) { // the rest of its snapshot
		source = source.ForSnapshot()
	}
	if continuation == "" && source.Start.Kind == feed.StartNow {
		return nil // its position will be the time of its acquisition
	}
	pending, err := source.Pending(ctx, feedTarget(part), continuation, e.maxItems, func(page *feed.Page) bool { return continuesFeed(page, l, continuation, source.Container) })
	if cosmos.Classify(err) == cosmos.OutcomeRangeGone {
		if err := e.leases.RefreshRanges(ctx); err != nil {
			return err
		}
		if children, err := e.leases.Children(l); err != nil || children == nil {
			return errors.Join(err, lease.ErrRangesChanging)
		}
		return e.addLagAfter(ctx, l, continuation, total)
	}
	if err != nil {
		return err
	}
	total.addPending(pending, e.leases.Now())
	return nil
}

// addPending adds the changes that are pending in one physical range.
func (g *Lag) addPending(p feed.Pending, now time.Time) {
	g.Changes += p.Changes
	g.Transactions += p.Transactions
	g.Exact = g.Exact && p.Exact
	if !p.Oldest.IsZero() {
		g.Seconds = max(g.Seconds, now.Sub(p.Oldest).Seconds())
	}
	if p.Unknown != nil {
		g.addUnknown(p.Unknown)
	}
}

// addUnknown notes why the lag is not known.
func (g *Lag) addUnknown(err error) {
	g.Exact, g.Known = false, false
	if g.Problem != "" {
		g.Problem += "; "
	}
	g.Problem += err.Error()
}
