package simulation

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// leaseSpan is the keys of a lease, [min, max).
type leaseSpan struct{ min, max string }

// slowestWrite is the longest write of a lease while writes are slow.
const slowestWrite = 20 * time.Second

// outage returns the fate of a request that a slow container decides. The caller
// holds w.mu.
func (w *world) outage(r *request, now time.Time) (fate, bool) {
	switch {
	case r.kind == readFeed && now.Before(w.feedSlow):
		return w.feedRefusal, true
	case r.container == "leases" && r.kind.writes() && now.Before(w.slowWrites):
		return fate{class: slowWrites, after: w.swarm.dice(r.id).duration("slow", time.Second, slowestWrite)}, true
	}
	return fate{}, false
}

// olderThan returns an etag before the continuation of a feed read, or "" if there
// is none, or if the numbers of the range are not those of the leases. Both functions may
// share the answer, and one may have the lease of a merge where the other one's was made
// again for the physical range.
func (w *world) olderThan(r *request) string {
	n, err := strconv.ParseInt(strings.Trim(r.after, `"`), 10, 64)
	if err != nil || n < 2 || r.keys != (leaseSpan{}) || w.swarm.companion && !w.second.leases[r.physical] {
		return ""
	}
	for _, l := range w.leases {
		if l.token == r.physical {
			back := int64(w.swarm.dice(r.id).between("back", 1, int(min(n-1, 50))))
			return strconv.Quote(strconv.FormatInt(n-back, 10))
		}
	}
	return ""
}

// firstRead records a feed read if it is the first one with a lease, or after a
// throttle. The caller holds w.mu.
func (p *process) firstRead(r *request) {
	if r.kind != readFeed {
		return
	}
	id := p.name + " first reads" // whichever function of the host does
	var firsts []history.Event    // several if the lease before a merge was acquired and never read
	for _, token := range slices.Sorted(maps.Keys(p.unread)) {
		if p.w.readsRange(r, token, p.unread[token]) {
			delete(p.unread, token)
			id += " " + token
			firsts = append(firsts, history.Event{Kind: history.Reading, Host: p.name, Range: token})
		}
	}
	if len(firsts) > 0 { // in one note, because notes of one identity are one event
		p.w.noted(id, firsts...)
	}
}

// readsRange reports whether a feed read is for the range of a lease.
func (w *world) readsRange(r *request, token string, keys leaseSpan) bool {
	switch {
	case r.physical == token:
		return true
	case r.keys != (leaseSpan{}):
		return cosmos.CompareKeys(r.keys.min, keys.min) == 0
	case !strings.Contains(token, "-"):
		return false
	}
	for _, physical := range w.ranges() {
		if physical.ID == r.physical {
			return cosmos.CompareKeys(physical.Min, keys.min) == 0
		}
	}
	return false
}

// pageRead records the page that a feed read returned, if the delays of its changes
// are judged.
func (p *process) pageRead(r *request, resp *http.Response, err error) {
	p.charged(r, resp, err)
	if !p.w.swarm.quick || r.kind != readFeed || err != nil || resp.StatusCode != http.StatusOK {
		return
	}
	upTo, err := strconv.ParseInt(strings.Trim(resp.Header.Get("Etag"), `"`), 10, 64)
	if err != nil {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.noted(r.id+" has changes", history.Event{Kind: history.Reading, Host: p.name, Range: r.physical, Position: upTo})
}

// charged records the request units of a read of a host that may spend only so many.
func (p *process) charged(r *request, resp *http.Response, err error) {
	if p.tool || p.w.swarm.function.ReadRequestUnits == 0 || r.kind != readFeed || err != nil || resp.StatusCode >= 400 {
		return
	}
	units, err := strconv.ParseFloat(resp.Header.Get("X-Ms-Request-Charge"), 64)
	if err != nil {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.noted(r.id+" is charged", history.Event{Kind: history.Charged, Host: p.name, Units: units})
}

// A host acquired lease "0" and never read its range, which has merged with another. Its
// lease for the same keys is read now: the read is the first one for both.
func TestFirstReadCountsForEachLeaseOfItsKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{queue: newQueue(1), began: time.Now()}
		p := &process{w: w, name: "h0.1", unread: map[string]leaseSpan{"0": {"", "80"}, "-80": {"", "80"}, "1": {"80", "FF"}}}
		p.firstRead(&request{kind: readFeed, id: "read", physical: "2", keys: leaseSpan{"", "80"}})
		w.collect()
		var read []string
		for _, e := range w.history {
			read = append(read, e.Range)
		}
		if !slices.Equal(read, []string{"-80", "0"}) || len(p.unread) != 1 {
			t.Errorf("the first read is recorded for %v, and awaited for %v", read, p.unread)
		}
	})
}

// The lease of range "19" was made again, and the companion still has that of a merge for the
// same keys, whose positions do not compare: no answer to either function has an older etag.
func TestOlderEtagNeedsComparableLeasesOfBothFunctions(t *testing.T) {
	s := newSwarm(1)
	s.companion = true
	w := &world{swarm: s, second: newCompanionRecord(), leases: map[string]leaseDocument{"19": {token: "19"}}}
	r := &request{kind: readFeed, id: "read", physical: "19", after: `"21"`}
	for _, write := range []struct {
		resource string
		isLess   bool
	}{
		{"POST companionhalley.emulator_db_items..17-1D", false},
		{"PUT companionhalley.emulator_db_items..19", true},
		{"DELETE companionhalley.emulator_db_items..19", false},
	} {
		w.keepCompanion(write.resource)
		if older := w.olderThan(r); (older != "") != write.isLess {
			t.Errorf("after %s: older etag %q", write.resource, older)
		}
	}
	if w.swarm.companion = false; w.olderThan(r) == "" {
		t.Error("without a companion there is no older etag")
	}
}
