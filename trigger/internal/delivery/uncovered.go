package delivery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"halley/trigger/internal/backoff"
)

// uncoveredLetters are the letters of postponed changes that calls have handled and that
// no request for a checkpoint covers yet. The handler may have such a change in memory
// alone, so its letter stays in the store: if the host ends before the request, the next
// owner delivers the change again. The key is free meanwhile, as its later changes hold the
// position until a request covers them, too.
//
// The lanes of a range share them. mu guards the list, and no other lock is taken under it.
type uncoveredLetters struct {
	mu   sync.Mutex
	list []uncoveredLetter // in no order
}

// uncoveredLetter is the letter of a change, handled by the call Item.answered.
type uncoveredLetter struct {
	*Item
	since time.Time
}

// add adds the letters of the changes that come from the store.
func (u *uncoveredLetters) add(items []*Item) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, c := range items {
		if c.stored != nil {
			u.list = append(u.list, uncoveredLetter{c, time.Now()})
		}
	}
}

// visit calls see with each letter. mu is held meanwhile.
func (u *uncoveredLetters) visit(see func(uncoveredLetter)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, letter := range u.list {
		see(letter)
	}
}

// coveredBy returns the letters that a request covers.
func (u *uncoveredLetters) coveredBy(requested int64) (covered []*StoredChange) {
	u.visit(func(letter uncoveredLetter) {
		if letter.answered < requested {
			covered = append(covered, letter.stored)
		}
	})
	return covered
}

// lastOrder returns the place of the last letter of a key, 0 if it has none.
func (u *uncoveredLetters) lastOrder(key uint64) (last int64) {
	u.visit(func(letter uncoveredLetter) {
		if letter.orderKey == key {
			last = max(last, letter.stored.Order)
		}
	})
	return last
}

// letterIDs returns the IDs of the letters.
func (u *uncoveredLetters) letterIDs() map[string]bool {
	ids := map[string]bool{}
	u.visit(func(letter uncoveredLetter) { ids[letter.stored.LetterID] = true })
	return ids
}

// remove forgets a letter that the store does not have any more.
func (u *uncoveredLetters) remove(id string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.list = slices.DeleteFunc(u.list, func(letter uncoveredLetter) bool { return letter.stored.LetterID == id })
}

// total returns the number of keys that have such letters, and when the first of them was
// handled.
func (u *uncoveredLetters) total() (keys int, since time.Time) {
	seen := map[uint64]bool{}
	u.visit(func(letter uncoveredLetter) {
		seen[letter.orderKey] = true
		since = earlier(since, letter.since)
	})
	return len(seen), since
}

// finishHandled finishes the changes that a call handled. With manual checkpoints the
// letters among them stay until a request covers them. A request first deletes the letters
// that it covers: if the position were saved before, and the host ended between, an earlier
// change of a key would be delivered again without the later ones.
func (k *laneKeys) finishHandled(ctx context.Context, handled []*Item, v Verdict) error {
	k.noteHandled(handled)
	if !k.config.Checkpoint.Manual {
		return k.finish(ctx, handled)
	}
	if v.Requested == 0 {
		k.progress.answerCall(handled, v)
		for _, c := range handled {
			if c.stored != nil {
				k.states[c.orderKey].letters.removed(c.stored)
			}
		}
		k.uncovered.add(handled)
		k.finishItems(handled)
		return nil
	}
	for _, stored := range k.uncovered.coveredBy(v.Requested) {
		if err := k.deleteLetter(ctx, stored); err != nil {
			return err
		}
		k.uncovered.remove(stored.LetterID)
	}
	k.progress.answerCall(handled, v)
	return k.finish(ctx, handled)
}

// RequestCheckpoint does what a request of the handler does that covers the calls up to the
// number answered, see Verdict.Answered. It is called after Run has returned, and returns once
// the store does not have the covered letters any more. If ctx ends before, it saves no
// position, and the next owner delivers the others again.
func (d *Delivery) RequestCheckpoint(ctx context.Context, answered int64) error {
	for _, stored := range d.uncovered.coveredBy(answered + 1) {
		for failures := 1; ; failures++ { // not untilStored: after a stop this is the last chance
			err := withStoreTimeout(ctx, func(ctx context.Context) error { return d.deadLetters.Delete(ctx, stored) })
			if err == nil {
				break
			}
			if backoff.Sleep(ctx, backoff.Wait(failures, d.config.RetryMin, d.config.RetryMax, d.config.JitterKey...)) != nil {
				return fmt.Errorf("%w: %w", ErrStoreFails, err)
			}
		}
		d.uncovered.remove(stored.LetterID)
	}
	d.progress.answerCall(nil, Verdict{Requested: answered + 1})
	d.progress.finishItems(nil)
	return nil
}
