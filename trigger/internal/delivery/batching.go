package delivery

import (
	"context"
	"time"
)

func (l *lane) batchIsReady(now time.Time) bool {
	return len(l.freshItems) > 0 && (l.sourceClosed || l.batchIsFull() || !now.Before(l.oldestArrival.Add(l.config.BatchWindow)))
}

func (l *lane) batchIsFull() bool {
	if len(l.freshItems) == 0 {
		return false
	}
	earlier := l.freshItems[0].resumedRecord
	return l.nextBatchSize() < len(l.freshItems) || len(l.freshItems) >= l.config.BatchItems || earlier != nil && len(l.freshItems) >= earlier.Size
}

// nextBatchSize is the number of fresh changes that the next batch takes. A group
// with a history of an earlier owner is a batch of its own.
func (l *lane) nextBatchSize() int {
	bytes, most := 0, l.config.BatchItems
	earlier := l.freshItems[0].resumedRecord
	if earlier != nil {
		most = min(most, l.retries.groupLength(earlier, l.freshItems))
	}
	for i, c := range l.freshItems {
		bytes += c.Size()
		if i == 0 {
			continue
		}
		if i == most || bytes > l.config.BatchBytes || c.resumedRecord != nil {
			return i
		}
	}
	return len(l.freshItems)
}

// cutBatch takes the next batch off the fresh changes. It returns nil if all of these
// follow postponed changes, or if they are suspects: they wait aside until their range has
// the suspect slot.
func (l *lane) cutBatch(ctx context.Context) (*group, error) {
	n := l.nextBatchSize()
	batch := l.freshItems[:n:n]
	l.freshItems = l.freshItems[n:]
	l.oldestArrival = l.lastArrival // changes are received until a batch is full, so the rest came last
	batch, err := l.withoutPostponed(ctx, batch)
	if err != nil || len(batch) == 0 {
		return nil, err
	}
	g := l.resumeGroup(batch)
	if !g.suspect {
		return g, nil
	}
	l.setKeys(g)
	for _, part := range g.suspects(l.keyOf) {
		l.putAside(part, time.Now())
	}
	return nil, nil
}

// resumeGroup returns the group of these changes, with the history that an earlier
// owner has saved. In a merged range LSNs do not tell which changes were in a
// group, so several changes start from zero there.
func (l *lane) resumeGroup(batch []*Item) *group {
	g := &group{items: batch}
	earlier := batch[0].resumedRecord
	if earlier == nil {
		return g
	}
	g.retry, g.suspect = earlier.RetryState, earlier.InFlight
	if len(batch) > 1 && l.config.MergedRange {
		g.retry = RetryState{Tries: g.retry.Tries}
	}
	return g
}
