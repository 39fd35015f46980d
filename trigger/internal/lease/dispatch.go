package lease

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// A queue spreads ranges over instances: a timer invocation sends one message for each
// range with work, and the instance that gets the message drains the range.
//
//  1. Host A finds changes behind a free lease. It marks the lease under its etag and
//     sends the message. While the mark lasts, no host sends another one.
//  2. Host B gets the message and acquires the lease. The same write removes the mark,
//     as every write of an owner does: while B holds the lease no host sends a message,
//     and after B has released or lost it the next timer invocation may.
//  3. The message is lost, because A was killed between mark and message, or the queue
//     has given it up. The mark ends after MarkDuration, and the next timer invocation
//     sends another one.
//  4. B does not acquire the lease: a limit or a failover holds it back, an operator has
//     paused the range, or by B's clock the owner is not dead yet. Or B loses the lease to a
//     document with the mark, which an operator has restored. It ends the mark, so that the
//     next timer invocation sends another message.
//
// A message too many does no harm: the host that gets it finds the lease held, or no
// changes. So it does not matter whether a .NET owner keeps the mark, as it does with
// all properties, or an older library drops it.
//
// A mark moves _ts, and the lease may have the name of an owner that is dead. So the
// mark keeps the time of the owner's last write: it must not extend the life of a dead
// owner's lease. A host that gives a lease back after a failover leaves an ended mark for
// the same reason.
const dispatchedProperty = "halley.dispatched" // when it was marked, negative if the mark has ended, and when the owner had written it (service's clock, Unix seconds), and that owner

// MarkDuration is how long a mark of a lease lasts.
const MarkDuration = 10 * time.Minute

// dispatchMark is the parsed value of dispatchedProperty.
type dispatchMark struct {
	at, written time.Time
	owner       string // "" if the lease had none
	hasEnded    bool   // its message was processed without an acquisition
}

func (m dispatchMark) String() string {
	at := m.at.Unix()
	if m.hasEnded {
		at = -at
	}
	return fmt.Sprintf("%d %d %s", at, m.written.Unix(), m.owner)
}

// mark returns the mark of the lease, if it has one.
func (l *Lease) mark() (m dispatchMark, marked bool) {
	markedAt, fields, _ := strings.Cut(l.properties[dispatchedProperty], " ")
	written, owner, _ := strings.Cut(fields, " ")
	atSeconds, hasMark := parseNumber(markedAt)
	writtenSeconds, hasWritten := parseNumber(written)
	if !hasMark || !hasWritten {
		return m, false
	}
	return dispatchMark{time.Unix(max(atSeconds, -atSeconds), 0), time.Unix(writtenSeconds, 0), owner, atSeconds < 0}, true
}

// IsDispatched reports whether a message for the range of a lease is on its way. After a
// failover of the leases an older mark does not count: the write that removed it may be lost.
func (s *Set) IsDispatched(l *Lease) bool {
	now, failedOver := s.Now(), time.Time{}
	if sign := s.store.container.FailedOver(l.partitionKey); !sign.IsZero() {
		failedOver = now.Add(-time.Since(sign))
	}
	return l.isDispatched(now, failedOver)
}

// isDispatched is IsDispatched with the times on the service's clock. A mark from the
// future is that of a host with a wrong clock and does not count.
func (l *Lease) isDispatched(now, failedOver time.Time) bool {
	m, marked := l.mark()
	age := now.Sub(m.at)
	return marked && !m.hasEnded && age > -requestDuration && age < MarkDuration && m.at.After(failedOver)
}

// writtenBeforeMark returns when the owner last wrote the lease, if the last write was
// that of the mark.
func writtenBeforeMark(l *Lease) (written time.Time, marked bool) {
	m, marked := l.mark()
	return m.written, marked && m.owner == l.owner && l.written.Sub(m.at) < requestDuration
}

// MarkDispatched records in a lease that is free that a message for its range is on its
// way. The error wraps [ErrLost] if the lease has changed since it was listed: its range
// then has another host, or another message. After any other error the mark may have
// been written.
func (s *Set) MarkDispatched(ctx context.Context, l *Lease) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	marked := l.clone()
	value := dispatchMark{at: s.Now(), written: l.written, owner: l.owner}.String()
	marked.properties[dispatchedProperty] = value
	err := s.store.replaceDocument(ctx, marked, l.timestamp)
	if cosmos.Classify(err).Unsure() {
		fresh, readErr := s.store.readLease(ctx, l)
		switch {
		case readErr == nil && fresh.properties[dispatchedProperty] == value && fresh.owner == l.owner:
			return nil
		case readErr == nil:
			err = ErrLost
		default:
			err = errors.Join(err, readErr)
		}
	}
	if err != nil {
		return fmt.Errorf("mark lease %q: %w", l.token, err)
	}
	return nil
}

// EndMark ends the mark of a lease whose message was processed without an acquisition,
// unless the lease has another mark or owner by now. A mark that it cannot end ends by
// itself, later. If the lease has the name of a dead owner, the mark stays to keep the time of
// its last write.
func (s *Set) EndMark(ctx context.Context, l *Lease) error {
	mark := l.properties[dispatchedProperty]
	if m, marked := l.mark(); !marked || m.hasEnded {
		return nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	err := s.store.operate(ctx, l, func(next *Lease) bool {
		if next.owner != l.owner || next.properties[dispatchedProperty] != mark {
			return false
		}
		next.endMark(s.Now())
		return true
	})
	if err != nil {
		return fmt.Errorf("end the mark of lease %q: %w", l.token, err)
	}
	return nil
}

// EndRestoredMark ends a mark of a lease that its owner of an epoch has lost to a document that an
// operator has restored. The acquisition had ended all earlier marks, so that no message is on
// its way for one of that time. An epoch is the time of the acquisition by its host's clock; the
// clocks of other hosts may be later by up to requestDuration.
func (s *Set) EndRestoredMark(ctx context.Context, l *Lease, epoch int64) error {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	fresh, err := s.store.readLease(ctx, l)
	if err == nil {
		err = s.store.operate(ctx, fresh, func(next *Lease) bool {
			m, marked := next.mark()
			if !marked || m.hasEnded || m.owner != next.owner || m.at.After(time.Unix(epoch, 0).Add(requestDuration)) {
				return false
			}
			next.endMark(s.Now())
			return true
		})
	}
	if err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("end the mark of lease %q: %w", l.token, err)
	}
	return nil
}

// endMark ends the mark of a lease. It stays to keep the time of a dead owner's last write.
func (l *Lease) endMark(now time.Time) {
	delete(l.properties, dispatchedProperty)
	if l.owner != "" {
		l.keepWritten(now)
	}
}

// keepWritten has the next write of a lease, in the name of its owner, not extend that owner's life.
func (l *Lease) keepWritten(now time.Time) {
	l.properties[dispatchedProperty] = dispatchMark{now, l.written, l.owner, true}.String()
}
