package failovers

import (
	"encoding/json"
	"slices"
	"time"

	"halley/trigger/cosmos"
)

// kept returns the documents that the account has, in the order of the feed.
func (w *world) kept() (documents []document) {
	items := w.client(w.account, "").Container("db", "items")
	ranges, err := items.Ranges(w.t.Context())
	w.must(err)
	request := cosmos.FeedRequest{Range: ranges[0]}
	for {
		page, err := items.ReadFeed(w.t.Context(), request)
		w.must(err)
		if page.NotModified {
			return documents
		}
		for _, item := range page.Items {
			d := document{LSN: item.LSN}
			w.must(json.Unmarshal(item.Document, &d))
			documents = append(documents, d)
		}
		request.Continuation = page.Continuation
	}
}

// showsLate reports whether only the account shows a failover of the monitored range, which is read
// from time to time, and new documents may have the LSNs of lost ones. docs/regions.md names this
// case: until then later documents may come first. Then all are delivered once more, in a new epoch.
func (w *world) showsLate() bool {
	return w.options.Manners.FailoverKeepsVersion && !w.options.Manners.FailoverSkipsLSNs
}

// mayBeUnseen is the same for a range that fails over by itself, which the account does not show, and
// for an account that has gone back before it was read.
func (w *world) mayBeUnseen() bool {
	return w.showsLate() && (w.options.PartitionFailover || w.wentBack)
}

// checkDelivered checks that all documents were delivered that were written before a moment, and
// that a sink that refuses older ones has them. It returns how many were not, as documented.
func (w *world) checkDelivered(before time.Time) (unseen int) {
	kept := w.kept()
	w.mu.Lock()
	defer w.mu.Unlock()
	delivered, taken := map[string]bool{}, w.taken()
	for _, d := range w.deliveries {
		delivered[d.doc.ID] = true
	}
	for _, d := range kept {
		switch {
		case w.attempts[d.ID].After(before):
		case delivered[d.ID] && taken[d.ID]:
		case w.mayBeUnseen():
			unseen++
		case !delivered[d.ID]:
			w.t.Errorf("seed %d: %s (key %s, LSN %d), written at %s, is not delivered", w.seed, d.ID, d.Key, d.LSN, w.attempts[d.ID].Format("15:04:05.000"))
		default:
			w.t.Errorf("seed %d: %s (key %s, LSN %d) is delivered, and a sink refuses it as old", w.seed, d.ID, d.Key, d.LSN)
		}
	}
	return unseen
}

// taken returns the documents that a sink has taken which keeps the newest epoch and LSN of each
// key and refuses the others.
func (w *world) taken() map[string]bool {
	type position struct{ epoch, lsn int64 }
	newest, taken := map[string]position{}, map[string]bool{}
	for _, d := range w.deliveries {
		last := newest[d.doc.Key]
		if d.epoch < last.epoch || d.epoch == last.epoch && d.lsn <= last.lsn {
			continue
		}
		newest[d.doc.Key], taken[d.doc.ID] = position{d.epoch, d.lsn}, true
	}
	return taken
}

func (w *world) judge() (f figures) {
	f.unseen = w.checkDelivered(time.Now())
	kept := w.kept()
	w.mu.Lock()
	defer w.mu.Unlock()
	f.counted, f.kept, f.lost = w.counted, len(kept), len(w.attempts)-len(kept)
	w.checkOrder(kept)
	w.checkEpochs()
	f.overlap = w.checkOwners()
	w.checkPrompt(kept)
	return f
}

// checkPrompt checks that deliveries continue in time after a failover.
func (w *world) checkPrompt(kept []document) {
	first := map[string]time.Time{}
	for _, d := range w.deliveries {
		if _, found := first[d.doc.ID]; !found {
			first[d.doc.ID] = d.at
		}
	}
	for _, r := range w.mended {
		for _, d := range kept {
			written := w.attempts[d.ID]
			due := r.from.Add(r.bound)
			if due.Before(written.Add(promptAgain)) {
				due = written.Add(promptAgain) // a poll, and replication
			}
			if at, found := first[d.ID]; found && due.Before(r.until) && written.Before(r.until) && at.After(due) && !w.showsLate() && !w.options.Manners.HideCommitted && !w.drains && !w.isSlow {
				w.t.Errorf("seed %d: %s, written at %s, came at %s, and was due at %s, %v after the failover's end", w.seed, d.ID,
					written.Format("15:04:05.000"), at.Format("15:04:05.000"), due.Format("15:04:05.000"), r.bound)
				break
			}
		}
	}
}

// checkOrder checks that the first deliveries of the kept documents of a key are in feed order.
func (w *world) checkOrder(kept []document) {
	place := map[string]int{}
	for i, d := range kept {
		place[d.ID] = i
	}
	seen, last := map[string]bool{}, map[string]delivery{}
	for _, d := range w.deliveries {
		n, isKept := place[d.doc.ID]
		if !isKept || seen[d.doc.ID] {
			continue
		}
		seen[d.doc.ID] = true
		if former, found := last[d.doc.Key]; found && n < place[former.doc.ID] && !w.showsLate() {
			w.t.Errorf("seed %d: %s first came after %s", w.seed, describe(d), describe(former))
		}
		last[d.doc.Key] = d
	}
}

// checkEpochs checks that no two acquisitions of a range have one epoch.
func (w *world) checkEpochs() {
	type term struct {
		token string
		epoch int64
	}
	known := map[term]acquisition{}
	for _, a := range w.acquired {
		if former, found := known[term{a.token, a.epoch}]; found {
			w.t.Errorf("seed %d: range %s has epoch %d of %s at %s and of %s at %s", w.seed, a.token, a.epoch,
				former.host, former.at.Format("15:04:05.000"), a.host, a.at.Format("15:04:05.000"))
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

// couldNotKnow reports whether a host has started after an unplanned failover of the leases that was
// less than an expiration before a moment, or less than an expiration before it.
func (w *world) couldNotKnow(h *host, at time.Time) bool {
	return slices.ContainsFunc(w.lossy, func(failover time.Time) bool {
		return h.began.After(failover.Add(-expiration)) && at.Sub(failover) <= expiration
	})
}
