package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/delivery"
	"halley/trigger/internal/feed"
	"halley/trigger/internal/lease"
)

// keepsDeadLetters reports whether the function has a store that keeps dead letters: a
// postponed change must not get lost.
func (f *Function) keepsDeadLetters() bool {
	_, drops := f.DeadLetters.(dropStore)
	return f.DeadLetters != nil && !drops
}

// postponedID is the ID of a change in the store that was postponed a number of times. It
// differs from the one before, so that the change is put with its new time before the old
// one is deleted, and from that of the change as a dead letter.
func postponedID(id string, times int) string { return id + "-" + strconv.Itoa(times) }

// loadPostponed calls take with the postponed changes of a key until it returns false.
func loadPostponed(ctx context.Context, store DeadLetters, source DeadLetterSource, f *Function, key string, take func(delivery.StoredChange) bool) error {
	for d, err := range AllDeadLetters(ctx, store, DeadLetterQuery{Source: source, Kind: RecordPostponed, Key: key}) {
		switch {
		case errors.Is(err, ErrDamaged):
			continue // the list at the acquisition has told
		case err != nil:
			return err
		case !take(f.storedChange(d)):
			return nil
		}
	}
	return nil
}

// storedChange returns a postponed change as the feed reported it.
func (f *Function) storedChange(d DeadLetter) delivery.StoredChange {
	c := delivery.StoredChange{
		LetterID: d.ID,
		DeadLetter: delivery.DeadLetter{
			IsPostponed: true, Due: d.Due, Time: d.Time, Order: d.Order, Since: d.Since, Attempts: d.Attempts, Postponed: d.Postponed,
		},
		Change: feed.Change{Key: d.Key, Item: cosmos.Item{
			Document: d.Document, Previous: d.Previous, LSN: d.LSN, Timestamp: d.Written.Unix(), PartitionKey: d.DocumentKey,
		}},
	}
	if f.ChangeFeedMode == cosmos.ModeAllVersions {
		c.Operation = d.Operation
	}
	if d.Document == nil {
		c.ID = d.DocumentID
	}
	return c
}

// ownsKey reports whether a logical partition key belongs to the leased range.
func (w *rangeWorker) ownsKey(key string) bool {
	hash, err := w.leases.Monitored().PartitionKey.EffectiveKey(key)
	if err != nil {
		w.log.Error("cannot tell to which range a postponed change belongs; it stays in the store", slog.Any("error", err))
		return false
	}
	r := w.rangeOf()
	return cosmos.CompareKeys(r.Min, hash) <= 0 && cosmos.CompareKeys(hash, r.Max) < 0
}

// postponedProperty is the lease property that tells when the next postponed change of
// the range is due: a drain then works on the range although its feed has nothing new.
const postponedProperty = "halley.postponed"

// leasePostponed is its value: two numbers with a space between them, or "0". A lease
// without it is new, or was written by another library.
type leasePostponed struct {
	isKnown bool
	keys    int
	due     int64 // of the first change, in Unix seconds on the service's clock, rounded up
}

// postponedProperty returns the property. The lease's writer calls it at each write.
func (w *rangeWorker) postponedProperty() string {
	keys, due := w.rangeDelivery.PostponedKeys()
	switch {
	case !w.function.keepsDeadLetters():
		return ""
	case !w.rangeDelivery.HasStored(): // as the owner before has left it
		return w.held.Lease().Property(postponedProperty)
	case keys == 0:
		return "0"
	}
	return fmt.Sprint(keys, w.leases.Now().Add(time.Until(due)+time.Second-1).Unix())
}

// readAheadProperty is the lease property that tells the next owner what this one had read
// behind the continuation, see delivery.ReadAhead. Its value is the token and the epoch of
// this owner's lease, the time of the service in Unix microseconds, the number of changes,
// and the continuation that it belongs to, with spaces between them.
const readAheadProperty = "halley.readAhead"

// readAheadProperty returns the property, "" until the delivery has ended. The release writes
// it, or the children of a split or a merge get it.
func (w *rangeWorker) readAheadProperty() string {
	continuation, changes, ok := w.rangeDelivery.ReadAhead()
	if !ok || !w.function.keepsDeadLetters() {
		return ""
	}
	return fmt.Sprint(w.held.Lease().Token(), " ", w.held.Epoch(), " ", w.leases.Now().UnixMicro(), " ", changes, " ", continuation)
}

// parseReadAhead reads the property of a lease that was acquired with this token, epoch and
// continuation. It is valid for the first owner
// after its writer, and while the continuation is that of its writer: another owner may have
// postponed changes behind it and crashed, and an operator may have moved the lease.
func parseReadAhead(property, token string, epoch int64, continuation string) (r delivery.ReadAhead) {
	fields := strings.SplitN(property, " ", 5)
	if len(fields) < 5 || fields[4] != continuation {
		return r
	}
	former, epochErr := strconv.ParseInt(fields[1], 10, 64)
	end, endErr := strconv.ParseInt(fields[2], 10, 64)
	changes, err := strconv.ParseInt(fields[3], 10, 64)
	if fields[0] != token {
		former++ // the epoch of the new lease, which its first owner has raised by one more
	}
	if errors.Join(epochErr, endErr, err) != nil || former+1 != epoch {
		return r
	}
	return delivery.ReadAhead{IsKnown: true, Changes: changes, Until: time.UnixMicro(end + 1)}
}

// parsePostponed reads the property of a lease.
func parsePostponed(l *lease.Lease) (p leasePostponed) {
	keys, due, _ := strings.Cut(l.Property(postponedProperty), " ")
	n, err := strconv.Atoi(keys)
	p.isKnown, p.keys = err == nil, n
	p.due, _ = strconv.ParseInt(due, 10, 64) // 0 if there is none
	return p
}

// isDue reports whether a postponed change of the range is due.
func (p leasePostponed) isDue(now time.Time) bool { return p.keys > 0 && p.due <= now.Unix() }

// hasPostponed reports whether a lease is to be acquired even if its range has no changes:
// a postponed change is due, or only the next owner can tell.
func (r *functionRunner) hasPostponed(l *lease.Lease) bool {
	p := parsePostponed(l)
	return r.function.keepsDeadLetters() && (!p.isKnown || p.isDue(r.leases.Now()))
}
