package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"halley/trigger/cosmos"
)

// Containers may be dropped, and created again under their old names, while hosts run:
//
//  1. A request for documents of a missing container, or a feed read that names the
//     resource id of a former one, ends the function of this host with an error. A lease
//     container that was created again looks as if all documents had been deleted: then this
//     host reads the container and compares its resource id, see [ErrRecreated].
//  2. The function is tried again. [Set.Reopen] has the next [Set.Prepare] read both
//     containers.
//  3. The monitored container is another one: the ids of leases have its resource id, so
//     no lease of the former container is found, and its positions are never used.
//     Prepare creates leases that begin at the beginning, also if a function starts
//     from now: the changes since the container was created are not skipped. The marker
//     says so, and hosts that start later read it.
//  4. The lease container is another one: this host writes the positions that it holds as in
//     [Set.RestoreLost]. Then it creates the leases that no other host held when the leases
//     were last listed. Those of other hosts wait for their owners, and then for an audit.

// ErrRecreated says that the lease container was deleted and created again since [Set.Prepare]:
// the leases in it are gone.
var ErrRecreated = errors.New("the lease container was deleted and created again")

// Reopen has the next Prepare find both containers again, because a request has shown that one
// of them is missing or was created again. No method but Prepare is called until that has
// succeeded.
func (s *Set) Reopen() {
	s.prepared = false
	s.noteAbsent()
	s.cfg.Leases.Forget()
	s.cfg.Monitored.Forget()
}

// noteAbsent records that the lease container may be missing: no host can move a lease
// meanwhile, so the leases that this host has lost do not become too old to be restored.
func (s *Set) noteAbsent() {
	s.lost.due(s.cfg.Expiration, s.absentAt) // forgets those that were too old before
	s.absentAt = time.Now()
}

// reopen opens the containers and compares them with those of the last successful call.
func (s *Set) reopen(ctx context.Context) error {
	oldStore, oldMonitored := s.store, s.monitored
	if err := s.open(ctx); err != nil {
		if cosmos.Classify(err) == cosmos.OutcomeContainerGone {
			s.noteAbsent()
		}
		return setupError(err)
	}
	switch {
	case oldStore == nil:
	case s.monitored.ResourceID != oldMonitored.ResourceID:
		s.monitoredRecreated()
	case s.store.resourceID != oldStore.resourceID && !s.since.IsZero():
		s.formerLeases, s.leasesRecreated = oldStore.lastListed(), true
		s.cfg.Log.Error("lease container was deleted and created again; writing the positions that this host holds into new leases",
			slog.String("database", s.cfg.Leases.Database()), slog.String("container", s.cfg.Leases.Name()),
			slog.Time("since", s.since), slog.Bool("changesLost", s.cfg.Mode == cosmos.ModeAllVersions))
	}
	return nil
}

// monitoredRecreated forgets all that belongs to the former container.
func (s *Set) monitoredRecreated() {
	s.since = s.cfg.SinceBeginning
	s.formerLeases, s.leasesRecreated, s.unreadable = nil, false, nil
	s.auditor = auditor{auditInterval: s.cfg.AuditInterval}
	s.lost.forgetAll()
	log := s.cfg.Log.With(slog.String("database", s.cfg.Monitored.Database()), slog.String("container", s.cfg.Monitored.Name()))
	if s.cfg.Mode == cosmos.ModeAllVersions {
		log.Warn("container was deleted and created again; all versions are read from now on, and earlier changes of the new container are not delivered",
			slog.Time("gapFrom", s.monitored.Modified), slog.Time("gapUntil", s.Now()))
		return
	}
	log.Warn("container was deleted and created again; reading it from its beginning")
}

// resumeLeases creates the leases again after their container was created again.
func (s *Set) resumeLeases(ctx context.Context) error {
	if err := s.restoreMarker(ctx); err != nil {
		return fmt.Errorf("resume leases: %w", err)
	}
	if err := s.RestoreLost(ctx); err != nil {
		return err
	}
	if err := s.creator().fillGaps(ctx, s.since, func(p Part) bool { return !s.hadOtherOwner(p) }); err != nil {
		return fmt.Errorf("resume leases: %w", err)
	}
	s.auditor = auditor{auditInterval: s.cfg.AuditInterval}
	return nil
}

// hadOtherOwner reports whether another host held a part of the key space when the leases
// were last listed before their container was dropped.
func (s *Set) hadOtherOwner(p Part) bool {
	for _, l := range s.formerLeases {
		covers := l.token == p.Physical.ID || l.span.isKnown() && l.span.overlapsWith(p.Span)
		if covers && !l.Tombstone() && l.owner != "" && l.owner != s.cfg.Owner {
			return true
		}
	}
	return false
}

// verifyLeaseContainer fails if the lease container is missing, or is not the one in which
// Prepare found the leases. It is called if leases or their marker are missing.
func (s *Set) verifyLeaseContainer(ctx context.Context) error {
	s.cfg.Leases.Forget()
	found, err := s.cfg.Leases.Properties(ctx)
	if err == nil && found.ResourceID != s.store.resourceID {
		err = fmt.Errorf("%s/%s: %w", s.cfg.Leases.Database(), s.cfg.Leases.Name(), ErrRecreated)
	}
	if err != nil {
		return fmt.Errorf("read lease container: %w", err)
	}
	return nil
}
