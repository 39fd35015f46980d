package delivery

import (
	"context"
	"fmt"
)

// giveUp dead-letters changes, in order. A change counts as finished only once it is
// durable in the store; while the store fails, the lane waits and says why.
func (l *lane) giveUp(ctx context.Context, items []*Item, v Verdict, a Action) error {
	if l.deadLetters == nil { // the handler gave the changes up
		l.calls.ReportProblem(l.laneIndex, fmt.Errorf(
			"the handler gave up %d changes and the function has no dead letter store; the range waits: %w", len(items), a.Reason))
		<-ctx.Done() // nothing is dropped unless a setting asks for it
		return context.Cause(ctx)
	}
	if v.Outcome != GivenUp {
		l.retries.saveGroup(items, a.Retry) // the store may fail for longer than this owner lasts
		l.breaker.addGivenUp(len(items))
	}
	for _, c := range items {
		if err := l.keys.put(ctx, c, DeadLetter{Attempts: max(a.Retry.Attempts, a.Retry.Crashes), Cause: a.Reason}); err != nil {
			return err
		}
	}
	return nil
}

// put returns once a change is durable in the store, as a dead letter or until it is due, and
// finishes it. A change that comes from the store keeps its place there.
func (k *laneKeys) put(ctx context.Context, c *Item, letter DeadLetter) error {
	letter.Time, letter.Order = k.calls.ServiceNow().UTC(), k.orderOf(c, letter.IsPostponed)
	if err := k.askStore(ctx, k.laneIndex, func(ctx context.Context) error { return k.deadLetters.Put(ctx, c, letter) }); err != nil {
		return err
	}
	if letter.IsPostponed {
		k.states[k.keyOf(c)].letters.added(c, letter)
		k.calls.Postponed(k.laneIndex, c, letter)
	} else {
		if k.config.BlockKeys {
			k.blockedKeys.addChange(BlockedChange{Key: c.Key, LSN: c.LSN, Written: c.Timestamp, Order: letter.Order})
		}
		k.calls.DeadLettered(k.laneIndex, c, letter)
	}
	return k.finish(ctx, []*Item{c})
}
