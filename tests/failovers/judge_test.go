package failovers

import (
	"slices"
	"time"

	"halley/trigger/cosmos"
)

// showsLate reports whether only the account shows a failover of the monitored range, which is read
// from time to time, and new documents may have the LSNs of lost ones. docs/regions.md names this
// case: until then later documents may come first. Then all are delivered once more, in a new epoch.
func (w *world) showsLate() bool {
	return w.options.Manners.FailoverKeepsVersion && !w.options.Manners.FailoverSkipsLSNs
}

// mayBeUnseen reports whether nothing may show the failover that has brought a change: its range has
// failed over by itself, which the account does not show, or the account has gone back before it was read.
func (w *world) mayBeUnseen(c change) bool {
	return w.options.Manners.FailoverKeepsVersion && (w.options.PartitionFailover || w.wentBack) &&
		(w.isBack(c) || !w.options.Manners.FailoverSkipsLSNs && w.reusesLSN(c))
}

// checkDelivered checks that all changes were delivered that were written before a moment, and
// that a sink that refuses older ones has them. It returns how many were not, as documented.
func (w *world) checkDelivered(before time.Time) (unseen int) {
	kept := w.kept()
	w.mu.Lock()
	defer w.mu.Unlock()
	delivered, taken := map[string]bool{}, w.taken()
	for _, d := range w.deliveries {
		delivered[d.name] = true
	}
	for _, c := range w.due(kept) {
		switch {
		case w.writes[c.name].began.After(before):
		case delivered[c.name] && taken[c.name]:
		case w.mayBeUnseen(c):
			unseen++
		case !delivered[c.name]:
			w.t.Errorf("seed %d: %s (key %s, LSN %d), written at %s, is not delivered", w.seed, c.name, c.key, c.lsn, w.writes[c.name].began.Format("15:04:05.000"))
		default:
			w.t.Errorf("seed %d: %s (key %s, LSN %d) is delivered, and a sink refuses it as old", w.seed, c.name, c.key, c.lsn)
		}
	}
	return unseen
}

// due returns the kept changes that must be delivered: all, or with a snapshot the last one of each
// document; a delete only if a version was delivered before.
func (w *world) due(kept []change) (due []change) {
	if w.feed.isWhole || w.feed.mode == cosmos.ModeLatestVersion {
		return kept
	}
	shown, last := map[string]bool{}, map[string]string{}
	for _, d := range w.deliveries {
		shown[d.id] = true
	}
	for _, c := range kept {
		last[c.id] = c.name
	}
	return slices.DeleteFunc(slices.Clone(kept), func(c change) bool {
		return last[c.id] != c.name || c.isDelete() && !shown[c.id]
	})
}

// taken returns the changes that a sink has taken which keeps the newest epoch and LSN of each
// key and refuses the others.
func (w *world) taken() map[string]bool {
	type position struct{ epoch, lsn int64 }
	newest, taken := map[string]position{}, map[string]bool{}
	for _, d := range w.deliveries {
		last := newest[d.key]
		if d.epoch < last.epoch || d.epoch == last.epoch && d.lsn <= last.lsn {
			continue
		}
		newest[d.key], taken[d.name] = position{d.epoch, d.lsn}, true
	}
	return taken
}

func (w *world) judge() (f figures) {
	f.unseen = w.checkDelivered(time.Now())
	kept := w.kept()
	w.mu.Lock()
	defer w.mu.Unlock()
	f.counted, f.kept, f.written = w.counted, len(kept), len(w.writes)
	w.checkOrder(kept)
	w.checkEpochs()
	f.overlap = w.checkOwners()
	w.checkPrompt(kept)
	return f
}

// checkPrompt checks that deliveries continue in time after a failover.
func (w *world) checkPrompt(kept []change) {
	if w.options.Manners.HideCommitted || w.working != runs || w.isSlow {
		return
	}
	first := map[string]time.Time{}
	for _, d := range w.deliveries {
		if _, found := first[d.name]; !found {
			first[d.name] = d.at
		}
	}
	for _, r := range w.mended {
		for _, c := range kept {
			written := w.writes[c.name].began
			due := r.from.Add(r.bound)
			if due.Before(written.Add(promptAgain)) {
				due = written.Add(promptAgain) // a poll
			}
			due = due.Add(w.options.ReplicationLag)
			if at, found := first[c.name]; found && due.Before(r.until) && written.Before(r.until) && at.After(due) && !w.isBack(c) && !(w.showsLate() && w.reusesLSN(c)) {
				w.t.Errorf("seed %d: %s, written at %s, came at %s, and was due at %s, %v after the failover's end", w.seed, c.name,
					written.Format("15:04:05.000"), at.Format("15:04:05.000"), due.Format("15:04:05.000"), r.bound)
				break
			}
		}
	}
}

// checkOrder checks that the first deliveries of the kept changes of a key are in feed order.
func (w *world) checkOrder(kept []change) {
	place := map[string]int{}
	for i, c := range kept {
		place[c.name] = i
	}
	seen, last := map[string]bool{}, map[string]delivery{}
	for _, d := range w.deliveries {
		n, isKept := place[d.name]
		if !isKept || seen[d.name] || w.isBack(d.change) {
			continue
		}
		seen[d.name] = true
		if former, found := last[d.key]; found && n < place[former.name] && !(w.showsLate() && w.reusesLSN(d.change)) {
			w.t.Errorf("seed %d: %s first came after %s", w.seed, describe(d), describe(former))
		}
		last[d.key] = d
	}
}

// checkEpochs checks that no two acquisitions of a range have one epoch, unless a failover has lost
// the first one within its second and the other host could not know.
func (w *world) checkEpochs() {
	type term struct {
		token string
		epoch int64
	}
	known := map[term]acquisition{}
	for _, a := range w.acquired {
		former, found := known[term{a.token, a.epoch}]
		if found && !(former.at.Unix() == a.at.Unix() && w.couldNotKnow(a.host, a.at)) {
			w.t.Errorf("seed %d: range %s has epoch %d of %s at %s and of %s at %s", w.seed, a.token, a.epoch,
				former.host.name, former.at.Format("15:04:05.000"), a.host.name, a.at.Format("15:04:05.000"))
		}
		known[term{a.token, a.epoch}] = a
	}
}

// checkOwners checks that an owner delivers nothing once a later one has begun to, but for the case
// of a host that has started after a failover, and returns the longest time for which one has.
func (w *world) checkOwners() (longest time.Duration) {
	newest := map[string]delivery{} // first ones of their epochs
	for _, d := range w.deliveries {
		last, found := newest[d.token]
		if found && d.host != last.host && d.epoch < last.epoch {
			longest = max(longest, d.at.Sub(last.at))
			if !w.couldNotKnow(last.host, d.at) {
				w.t.Errorf("seed %d: %s, after %s", w.seed, describe(d), describe(last))
			}
		}
		if !found || d.epoch > last.epoch {
			newest[d.token] = d
		}
	}
	return longest
}

// couldNotKnow reports whether a host could not know, less than an expiration before a moment, of an
// unplanned failover of the leases: it has started since, or less than an expiration before; or the
// leases have come back to a region in which it may have written last, and no version tells.
func (w *world) couldNotKnow(h *host, at time.Time) bool {
	return slices.ContainsFunc(w.lossy, func(f lossyFailover) bool {
		return at.Sub(f.at) <= expiration && (h.began.After(f.at.Add(-expiration)) || f.isReturn && w.options.Manners.FailoverKeepsVersion)
	})
}
