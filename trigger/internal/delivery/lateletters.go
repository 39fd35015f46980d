package delivery

import (
	"context"
	"slices"

	"halley/trigger/internal/feed"
)

// A put of an owner that has lost its lease may land after the next owner has listed the letters:
//
//  1. A postpones a change, and its request is slow. B acquires the lease and lists the letters.
//  2. The letter lands. B does not know it, and its feed shows the change: B handles it.
//  3. When B loads the key because of another letter, it finds that one, and deletes it: later
//     changes of the key are handled already.
//
// B deletes such a letter only if it has called the handler with the change, or dead-lettered it.
// It may have finished the change without: if it has postponed it, and the store has kept the
// letter of A, which has the same ID; if the letter was listed, and could not be read for a while;
// if the lease marks the change as finished; if the filter drops it. Then the letter joins the
// listed ones, and is delivered, after later changes of its key if an owner between has handled it.

// maxFormer bounds the changes whose names are remembered: it is more than a default owner has
// read behind its position. A late letter of a change beyond is delivered once more.
const maxFormer = 5000

// noteFormer is called with each part that is taken in, and notes the LSN up to which the owner
// before may have put letters: it has mostly read no more changes behind its position.
func (s *laneShared) noteFormer() {
	if !s.config.MergedRange && s.takenItems.Load() < int64(min(s.config.mostTaken(), maxFormer)) {
		s.formerLSN.Store(s.takenPart.lsn)
	}
}

// noteHandled remembers changes that this owner has handled, if the owner before may have put
// letters of them.
func (k *laneKeys) noteHandled(handled []*Item) {
	former := k.formerLSN.Load()
	if former == 0 || k.deadLetters == nil || !k.deadLetters.Keeps() {
		return
	}
	if k.handled == nil {
		k.handled = map[string]bool{}
	}
	first := feed.LSNOf(k.config.Continuation)
	for _, c := range handled {
		if first < c.LSN && c.LSN <= former {
			k.handled[k.nameOf(c)] = true
		}
	}
}

// isLate reports whether an earlier owner, which had lost its lease, put a letter after this one
// had listed them. It saved no position behind that change: letters that an operator puts are mostly
// of changes before the position at which this owner began. In a merged range LSNs do not tell.
func (k *laneKeys) isLate(s *letters, stored *StoredChange) bool {
	return stored.Order < k.config.FirstOrder && !s.known[stored.Order] && (k.config.MergedRange || stored.LSN > feed.LSNOf(k.config.Continuation))
}

// inheritLate lists letters that were put late. Those of their changes that wait in memory are
// finished, as those that the feed shows from now on are. Others that wait there are put in their
// places among the letters.
func (k *laneKeys) inheritLate(ctx context.Context, s *laneKey, late []StoredChange) error {
	if len(late) == 0 {
		return nil
	}
	for _, stored := range late {
		s.letters.inherit(stored.asListed())
	}
	s.letters.isMixed, k.hasListed = true, true
	var stored []*Item
	queue := slices.DeleteFunc(s.queue, func(c *Item) bool {
		isStored := s.letters.placeOf(c) == PlaceListed
		if isStored {
			stored = append(stored, c)
			s.letters.showListed(c)
		}
		return isStored
	})
	s.queue = nil
	k.finishItems(stored)
	return k.follow(ctx, queue)
}

// deleteOutdated deletes letters that are not needed any more. Late ones were not counted.
func (k *laneKeys) deleteOutdated(ctx context.Context, s *laneKey, outdated []*Item) error {
	for _, c := range outdated {
		if err := withStoreTimeout(ctx, func(ctx context.Context) error { return k.deadLetters.Delete(ctx, c.stored) }); err != nil {
			return err
		}
		if k.isLate(s.letters, c.stored) {
			s.letters.deleted[c.stored.LetterID] = true
		} else {
			s.letters.removed(c.stored)
		}
	}
	return nil
}
