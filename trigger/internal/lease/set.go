package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
	"halley/trigger/units"
)

// Config describes the leases of one function and the host that works on them.
// All fields are required, except those that name a zero value.
type Config struct {
	Leases    *cosmos.Container // holds the lease documents
	Monitored *cosmos.Container
	Prefix    string      // processor name: begins the ids of leases, before the account's host name; may be ""
	Function  string      // name of the function, for the order of hosts in Plan
	Mode      cosmos.Mode // of the change feed

	AppName     string // of the app that this host belongs to; "" is not known
	Owner       string // name of this host in leases
	Incarnation string // Owner, "/", and a text that no other process has

	AcquireInterval time.Duration // between passes of the balancer
	RenewInterval   time.Duration // between writes of a held lease without progress
	Expiration      time.Duration // how long a lease lasts without a write
	AuditInterval   time.Duration // between searches for coverage gaps
	StopGrace       time.Duration // bounds the request of an acquisition
	PollDelay       time.Duration // longest wait between attempts of a split
	Limits          Limits        // zero is no limit

	// Reset deletes existing leases in the first Prepare.
	Reset bool
	// StartToken returns the position of a new lease, "" if only its first read can
	// tell. since is when the leases were first created, zero before that. It may be
	// called by several goroutines at once.
	StartToken func(ctx context.Context, p Part, since time.Time) (token string, err error)
	// SinceBeginning is a time that StartToken takes as the beginning of the feed, and
	// [Set.Since] returns if the monitored container was created again.
	SinceBeginning time.Time
	Meter          *units.Meter // counts the requests for leases; may be nil
	Log            *slog.Logger
}

// Set is the leases of one function, as one host sees them. One goroutine, which
// balances or drains the function, calls Prepare and then the audits, RestoreLost,
// Candidates, Plan and RequestHandover. After Prepare any goroutine may call the other methods.
type Set struct {
	cfg     Config
	ranges  rangeCache
	auditor auditor
	lost    lostLeases
	joining joining
	reset   bool // still to do

	unreadable map[string]Unreadable // by document id, as the last Candidates listed them

	absentAt        time.Time         // when a container was last found missing or changed; for lost
	leasesRecreated bool              // Prepare has to resume the leases in a new lease container
	formerLeases    map[string]*Lease // of the former lease container, as last listed

	// Set by Prepare or Inspect, and constant after that until Reopen.
	prepared  bool
	store     *leaseStore
	monitored cosmos.ContainerProperties
	since     time.Time
}

// NewSet makes a set. It does no I/O.
func NewSet(cfg Config) *Set {
	return &Set{
		cfg: cfg, ranges: rangeCache{container: cfg.Monitored},
		auditor: auditor{auditInterval: cfg.AuditInterval}, lost: lostLeases{byToken: map[string]lostLease{}}, reset: cfg.Reset,
	}
}

// Prepare finds the leases and ensures that they were created once. After it has
// succeeded it does nothing until [Set.Reopen]; after an error call it again, unless the
// error wraps [ErrSetup].
func (s *Set) Prepare(ctx context.Context) error {
	if s.prepared {
		return nil
	}
	if err := s.reopen(ctx); err != nil {
		return err
	}
	if s.reset {
		if err := s.creator().resetLeases(ctx); err != nil {
			return err
		}
		s.reset = false
	}
	if _, err := s.ranges.refresh(ctx); err != nil {
		return err
	}
	if err := s.createLeases(ctx); err != nil {
		return err
	}
	// The first of two looks at a gap: a process may not live for AuditInterval.
	if err := s.auditor.auditOnce(ctx, s.creator(), s.since); err != nil {
		s.cfg.Log.Warn("lease audit failed", slog.Any("error", err))
	}
	if err := s.checkMode(ctx); err != nil {
		return err
	}
	s.prepared, s.leasesRecreated, s.formerLeases = true, false, nil
	return nil
}

// createLeases ensures that the leases were created once in their container.
func (s *Set) createLeases(ctx context.Context) (err error) {
	if s.leasesRecreated {
		return s.resumeLeases(ctx)
	}
	s.since, err = s.creator().bootstrapLeases(ctx, s.since)
	return err
}

func (s *Set) open(ctx context.Context) error {
	store, monitored, err := openStore(ctx, s.cfg.Leases, s.cfg.Monitored, s.cfg.Prefix, s.cfg.Log)
	if err == nil {
		s.store, s.monitored, store.owner, store.meter = store, monitored, s.cfg.Owner, s.cfg.Meter
	}
	return err
}

// setupError marks errors that repeat until an operator changes something.
func setupError(err error) error {
	switch cosmos.Classify(err) {
	case cosmos.OutcomeDenied, cosmos.OutcomeInvalid, cosmos.OutcomeNotFound, cosmos.OutcomeContainerGone:
		return fmt.Errorf("%w: %w", ErrSetup, err)
	default:
		return err
	}
}

func (s *Set) creator() *leaseCreator {
	return &leaseCreator{store: s.store, ranges: &s.ranges, mode: s.cfg.Mode, startToken: s.cfg.StartToken, log: s.cfg.Log}
}

// checkMode refuses leases of another mode: their continuations mean nothing in
// this one.
func (s *Set) checkMode(ctx context.Context) error {
	leases, _, err := s.store.listLeases(ctx)
	if err != nil {
		return err
	}
	mode := ModeName(s.cfg.Mode)
	for _, l := range leases {
		if l.mode != mode {
			return fmt.Errorf("%w: lease %q is in mode %q and the function in mode %q; choose another lease container prefix, or reset the leases",
				ErrSetup, l.token, l.mode, mode)
		}
	}
	return nil
}

// Since returns when the leases were first created, on the service's clock.
func (s *Set) Since() time.Time { return s.since }

// Monitored returns the properties of the monitored container as Prepare read
// them: the leases belong to the container with that resource id.
func (s *Set) Monitored() cosmos.ContainerProperties { return s.monitored }

// IDPrefix returns the text with which the ids of all lease documents begin.
func (s *Set) IDPrefix() string { return s.store.idPrefix }

// Now is the service's clock.
func (s *Set) Now() time.Time { return s.cfg.Leases.Client().Now() }

// AuditIfDue looks for coverage gaps at the audit interval and fills those that
// two audits have seen. It restores a deleted marker. If the last audit saw gaps, it
// waits a few seconds to look again.
func (s *Set) AuditIfDue(ctx context.Context) error {
	return s.auditAfter(ctx, secondAuditDelay)
}

// AuditNextToOwners is AuditIfDue for a host whose leases other running hosts may
// hold: they get the time to restore their deleted leases at the acknowledged
// positions, see [Set.RestoreLost]. An owner misses its lease within one pass, and
// restores it in the next, secondAuditDelay later. AuditNextToOwners does not wait.
func (s *Set) AuditNextToOwners(ctx context.Context) error {
	return s.auditAfter(ctx, s.cfg.AcquireInterval+2*secondAuditDelay)
}

func (s *Set) auditAfter(ctx context.Context, second time.Duration) error {
	due, err := s.auditor.waitDue(ctx, second)
	if err != nil || !due {
		return err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if err := s.restoreMarker(ctx); err != nil {
		return fmt.Errorf("audit leases: %w", err)
	}
	return s.auditor.auditOnce(ctx, s.creator(), s.since)
}

// bounded limits how long a pass waits for answers: one answer that never comes
// must not delay a takeover.
func (s *Set) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, s.cfg.Expiration/2)
}

// Candidates lists the leases that hosts may acquire, in the order of their
// tokens: one per token, and no tombstones. It requests duplicates from their
// owners. [Set.Unreadable] then has the documents that are not leases. The error wraps
// [ErrRecreated] if the lease container was created again and has no leases.
func (s *Set) Candidates(ctx context.Context) ([]*Lease, error) {
	listing, cancel := s.bounded(ctx)
	defer cancel()
	all, invalid, err := s.store.listLeases(listing)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && len(invalid) == 0 {
		if err := s.verifyLeaseContainer(listing); err != nil {
			return nil, err
		}
	}
	s.noteInvalid(invalid)
	used, duplicates := onePerToken(all, s.Now(), s.cfg.Expiration)
	for _, l := range duplicates {
		s.requestDuplicate(ctx, l)
	}
	return slices.DeleteFunc(used, (*Lease).Tombstone), nil
}

// requestDuplicate asks the owner of a duplicate document to release it: with two
// documents for one range, two hosts would deliver its changes.
func (s *Set) requestDuplicate(ctx context.Context, l *Lease) {
	s.cfg.Log.Error("two lease documents for one range; delete the ignored one", slog.String("range", l.token),
		slog.String("id", l.id), slog.String("ignored", l.partitionKey.String()))
	if !needsRequest(l, s.cfg.Incarnation, s.Now(), s.cfg.Expiration) {
		return
	}
	if _, err := s.RequestHandover(ctx, l); err != nil {
		s.cfg.Log.Info("could not request the handover of a duplicate lease", slog.String("range", l.token), slog.Any("error", err))
	}
}

// Plan returns this host's next steps for the leases that it may acquire, and when it is to
// plan again: each acquire interval, and earlier while it joins other hosts. working reports
// whether the host works on the range of a token: such a lease is its own, even if the list is
// older than the acquisition or a renewal is late. Paused leases belong to no share. Leases of
// another process with this owner's name are in its share, and do not count against the most
// that this process takes; one that another host has requested counts as that host's.
func (s *Set) Plan(leases []*Lease, working func(token string) bool) (steps []Step, next time.Duration) {
	now := s.Now()
	limits := s.cfg.Limits
	views := make([]View, 0, len(leases))
	for _, l := range leases {
		if working(l.token) {
			views = append(views, View{Token: l.token, Owner: s.cfg.Owner})
			continue
		}
		if _, paused := l.Paused(); paused {
			continue
		}
		v := viewOf(l, now, s.cfg.Expiration, s.cfg.AcquireInterval)
		if limits.Max > 0 && v.Owner == s.cfg.Owner && !v.Free && v.RequestedBy == "" {
			limits.Max++
		}
		views = append(views, v)
	}
	steps = s.joining.plan(views, s.cfg.Function, s.cfg.Owner, limits)
	return steps, s.joining.next(s.cfg.AcquireInterval)
}

// requestAttempts bounds the requests for a lease that its owner writes at the same time.
const requestAttempts = 3

// RequestHandover asks the owner of a lease to release it to this host, and returns the lease
// as stored, for [Set.AwaitHandover]. A write of the owner since the lease was listed does not
// end it: the owner of a busy range writes several times a second.
func (s *Set) RequestHandover(ctx context.Context, l *Lease) (*Lease, error) {
	for attempt := 1; ; attempt++ {
		requested, err := s.store.requestHandover(ctx, l, s.cfg.Owner)
		if cosmos.Classify(err) != cosmos.OutcomeConflict || attempt == requestAttempts {
			return requested, err
		}
		fresh, readErr := s.store.readLease(ctx, l)
		if readErr != nil || !fresh.isProgressOf(l) {
			return nil, err
		}
		l = fresh
	}
}

// The wait between two reads of a requested lease is a quarter of the time since the watch began,
// within these bounds. The range has no owner from the release to the read that sees it. Unless
// a call runs, the owner of a busy range releases it within a second or two, that of an idle one
// with its next renewal. A read that finds no change costs one request unit.
const (
	minHandoverPoll = 200 * time.Millisecond
	maxHandoverPoll = 900 * time.Millisecond
)

// AwaitHandover returns a requested lease once its owner has released it. It ends
// with an error when this host's request is not pending any more: another host has
// the lease, the document is gone, or the lease expired, which is left to the next
// plan. A read that fails is repeated, and so is one that does not find the document: one
// answer may be wrong.
func (s *Set) AwaitHandover(ctx context.Context, l *Lease) (*Lease, error) {
	began := time.Now()
	for isGone := false; ; {
		if err := backoff.Sleep(ctx, min(max(time.Since(began)/4, minHandoverPoll), maxHandoverPoll)); err != nil {
			return nil, err
		}
		fresh, err := s.readRequested(ctx, l)
		switch {
		case err == nil:
			l, isGone = fresh, false
		case errors.Is(err, ErrLost) && isGone:
			return nil, err
		case errors.Is(err, ErrLost):
			isGone = true
		}
		if _, paused := l.Paused(); paused || l.Tombstone() || handoverRequest(l, s.Now(), s.cfg.Expiration) != s.cfg.Owner {
			return nil, fmt.Errorf("handover of lease %q: request is not pending any more", l.token)
		}
		if l.owner == "" { // released on top of the request, so after any failover that has lost neither
			s.store.noteRelease(l, time.Now())
			return l, nil
		}
	}
}

func (s *Set) readRequested(ctx context.Context, l *Lease) (*Lease, error) {
	bounded, cancel := s.bounded(ctx)
	defer cancel()
	fresh, _, err := s.store.readIfChanged(bounded, l, l.etag)
	return fresh, err
}

// Locate returns the keys of a lease and the physical range to read them from.
// The error wraps [ErrSplit] if the lease has to give way to children. If the
// ranges read last do not hold the lease, Locate reads them again before it says so.
func (s *Set) Locate(ctx context.Context, l *Lease) (Part, error) {
	r, children, err := locate(l, s.ranges.current(), s.store.idPrefix)
	if err != nil || children != nil {
		ranges, refreshErr := s.ranges.refresh(ctx)
		if refreshErr != nil {
			return Part{}, refreshErr
		}
		r, children, err = locate(l, ranges, s.store.idPrefix)
	}
	if err != nil {
		return Part{}, err
	}
	if children != nil {
		return Part{}, ErrSplit
	}
	return Part{Physical: r, Span: spanWithin(l, r)}, nil
}

// RangesVersion returns a number that is another one after the physical ranges were read again:
// until then Locate returns the same.
func (s *Set) RangesVersion() int64 { return s.ranges.currentVersion() }

// RefreshRanges reads the physical ranges, for example after an answer that the
// range of a lease is gone.
func (s *Set) RefreshRanges(ctx context.Context) error {
	_, err := s.ranges.refresh(ctx)
	return err
}

// Children returns the leases that a lease would give way to, by the ranges as
// last read, or none if its range is there. It creates nothing.
func (s *Set) Children(l *Lease) ([]*Lease, error) {
	_, children, err := locate(l, s.ranges.current(), s.store.idPrefix)
	return children, err
}

// Inspection is the state of a function's leases at one moment.
type Inspection struct {
	Created bool      // a host has created the leases once
	Since   time.Time // when that was, on the service's clock
	Leases  []*Lease  // one per token, without tombstones, in the order of tokens
	Invalid []Invalid // documents that are not leases
	Gaps    []Part    // parts of the key space that no lease covers

	Duplicates []*Lease // further documents of tokens in Leases, which hosts ignore
}

// Inspect reads the state of the leases. It writes nothing and may be called
// without Prepare, for example by a process that does not run the function. If no
// host has ever run, the inspection is empty.
func (s *Set) Inspect(ctx context.Context) (i Inspection, err error) {
	if err := s.open(ctx); err != nil {
		return i, err
	}
	if _, err := s.ranges.refresh(ctx); err != nil {
		return i, err
	}
	if i.Since, _, i.Created, err = s.store.readStamp(ctx, s.store.markerID()); err != nil {
		return i, err
	}
	s.since = i.Since
	all, invalid, err := s.store.listLeases(ctx)
	if err != nil || !i.Created && len(all) == 0 && len(invalid) == 0 {
		return i, err
	}
	if i.Gaps, err = s.confirmedGaps(ctx, all, invalid); err != nil {
		return i, err
	}
	used, duplicates := onePerToken(all, s.Now(), s.cfg.Expiration)
	i.Leases, i.Invalid, i.Duplicates = slices.DeleteFunc(used, (*Lease).Tombstone), invalid, duplicates
	return i, nil
}

// confirmedGaps returns the coverage gaps that a second look sees, too: leases
// that change while they are listed may show a gap that never existed.
func (s *Set) confirmedGaps(ctx context.Context, leases []*Lease, invalid []Invalid) ([]Part, error) {
	seen := coverageGaps(s.ranges.current(), leases, invalid, s.store.idPrefix)
	if len(seen) == 0 {
		return nil, nil
	}
	ranges, err := s.ranges.refresh(ctx)
	if err != nil {
		return nil, err
	}
	leases, invalid, err = s.store.listLeases(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(coverageGaps(ranges, leases, invalid, s.store.idPrefix), func(p Part) bool {
		return !slices.ContainsFunc(seen, func(o Part) bool { return o.Span.overlapsWith(p.Span) })
	}), nil
}
