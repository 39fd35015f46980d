package delivery

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"time"

	"halley/trigger/internal/feed"
)

// RetryState is the failure history of a group of changes. The next owner of the
// range continues it: an owner may last for less time than it takes to give a
// change up, and a poison change would otherwise block its key forever.
type RetryState struct {
	Tries    int       // calls so far, over all sizes of the group; the next is attempt Tries+1
	Attempts int       // calls that failed with exactly this group, at most Policy.MaxAttempts
	Failures int       // of these: calls that failed although the sink worked, for the backoff
	Since    time.Time // of the first failure, on this process's clock; zero if there was none
	Hung     bool      // the last call did not return
	Crashes  int       // owners in a row that ended without releasing the lease during a call with this group in isolation
}

// failedFirst sets the time of the first failure, if this is the first.
func (r RetryState) failedFirst(now time.Time) RetryState {
	if r.Since.IsZero() {
		r.Since = now
	}
	return r
}

// countAttempt counts a failed call. A group that has had all attempts is called
// again if the breaker pauses, or if its owner ends before the store has it; these
// calls are no attempts.
func (r RetryState) countAttempt(p Policy) RetryState {
	if p.MaxAttempts <= 0 || r.Attempts < p.MaxAttempts {
		r.Attempts++
	}
	return r
}

// isExhausted reports whether a group has had all attempts, or all the time, that
// the policy grants.
func (r RetryState) isExhausted(p Policy, now time.Time) bool {
	return p.MaxAttempts > 0 && r.Attempts >= p.MaxAttempts || r.isTooOld(p, now)
}

func (r RetryState) isTooOld(p Policy, now time.Time) bool {
	return p.RetryMaxAge > 0 && !r.Since.IsZero() && now.Sub(r.Since) >= p.RetryMaxAge
}

// maxRecords is the number of records that the lease holds: those of the first
// changes in the feed.
const maxRecords = 16

// retryRecord is a RetryState as the lease holds it. Records are immutable, except
// for wasMatched, so that lanes may keep them.
type retryRecord struct {
	First    string `json:"first"`              // name of the group's first change
	Last     string `json:"last"`               // name of its last change
	Size     int    `json:"size"`               // changes in the group
	Tries    int    `json:"tries,omitempty"`    // see RetryState
	Attempts int    `json:"attempts,omitempty"` // see RetryState
	Failures int    `json:"failures,omitempty"` // see RetryState
	Since    int64  `json:"since,omitempty"`    // first failure, on the service's clock in Unix seconds; 0 if there was none
	Hung     bool   `json:"hung,omitempty"`     // see RetryState
	Crashes  int    `json:"crashes,omitempty"`  // see RetryState
	InFlight bool   `json:"inFlight,omitempty"` // announced: the group is in a call, see isolation.go

	announced  bool         // by this owner
	before     *retryRecord // the record that its announcement replaced, or nil
	wasMatched bool         // its first change was read by this owner
}

// retryRecords are the records of a range, by the name of their first change: those
// of earlier owners, and those that this owner's lanes save. Lanes and the lease's
// writer use them at a time; mu guards them, and no other lock is taken under it.
type retryRecords struct {
	serviceNow func() time.Time // the service's clock
	keyPaths   []string         // of the container

	mu     sync.Mutex
	byName map[string]*retryRecord
}

func (t *retryRecords) nameOf(c *Item) string { return c.Name(t.keyPaths) }

// loadProperty takes the records of earlier owners. An unreadable property counts
// as empty: attempts then start from zero. So they do if a record names a change in another
// way than this version; it is dropped when the feed has passed its LSN.
func (t *retryRecords) loadProperty(property string) {
	var list []retryRecord
	_ = json.Unmarshal([]byte(property), &list)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName = map[string]*retryRecord{}
	for i := range list {
		t.byName[list[i].First] = &list[i]
	}
}

// encodeProperty encodes the records for the lease; "" means that there are none.
// Announcements come first: the lease must not lose them to its limit.
func (t *retryRecords) encodeProperty() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byName) == 0 {
		return ""
	}
	inFlight := func(r *retryRecord) int {
		if r.InFlight {
			return 0
		}
		return 1
	}
	list := slices.SortedFunc(maps.Values(t.byName), func(a, b *retryRecord) int {
		return cmp.Or(inFlight(a)-inFlight(b), cmp.Compare(feed.NameLSN(a.First), feed.NameLSN(b.First)), cmp.Compare(a.First, b.First))
	})
	text, _ := json.Marshal(list[:min(len(list), maxRecords)]) // text and numbers always encode
	return string(text)
}

// matchPage links the records of earlier owners with the changes of a page that
// begin their groups. It drops records that the feed has skipped up to the page's last
// LSN: their documents have been overwritten, or do not pass the filter.
func (t *retryRecords) matchPage(page []Item, reached int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byName) == 0 {
		return
	}
	for i := range page {
		if r := t.byName[t.nameOf(&page[i])]; r != nil && !r.wasMatched {
			r.wasMatched = true
			page[i].resumedRecord = r
		}
	}
	maps.DeleteFunc(t.byName, func(_ string, r *retryRecord) bool { return !r.wasMatched && feed.NameLSN(r.First) <= reached })
}

// groupLength returns the number of changes that were in a group, of changes that begin
// with its first one. A document rewritten since is no longer in it, so changes after the
// group's last one are not charged with its failures. Changes with the LSN of the last one
// were in the group if the last one follows them.
func (t *retryRecords) groupLength(r *retryRecord, items []*Item) int {
	length, lastLSN := 1, feed.NameLSN(r.Last)
	for i, c := range items[:min(len(items), max(r.Size, 1))] {
		switch {
		case c.LSN > lastLSN:
			return length
		case c.LSN < lastLSN:
			length = i + 1
		case t.nameOf(c) == r.Last:
			return i + 1
		}
	}
	return length
}

// findRecord returns the record of a group that begins with a change from the store, or
// nil.
func (t *retryRecords) findRecord(name string) *retryRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[name]
}

// keepRecord keeps the record of a change that the feed does not show, because it is in
// the store.
func (t *retryRecords) keepRecord(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.byName[name]; r != nil {
		r.wasMatched = true
	}
}

// saveGroup keeps the history of a group for the next owner.
func (t *retryRecords) saveGroup(items []*Item, state RetryState) {
	t.putRecord(t.newRecord(items, state))
}

// announceGroup records that a group is about to be in a call.
func (t *retryRecords) announceGroup(items []*Item, state RetryState) {
	r := t.newRecord(items, state)
	r.InFlight, r.announced = true, true
	t.mu.Lock()
	defer t.mu.Unlock()
	r.before = t.byName[r.First]
	t.byName[r.First] = r
}

// endAnnouncements takes back the announcements of calls that have ended.
func (t *retryRecords) endAnnouncements() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, r := range t.byName {
		switch {
		case !r.announced: // one of an earlier owner stays until its changes are delivered
		case r.before != nil:
			t.byName[name] = r.before
		default:
			delete(t.byName, name)
		}
	}
}

func (t *retryRecords) newRecord(items []*Item, state RetryState) *retryRecord {
	r := &retryRecord{
		First: t.nameOf(items[0]), Last: t.nameOf(items[len(items)-1]), Size: len(items), Tries: state.Tries, Attempts: state.Attempts,
		Failures: state.Failures, Hung: state.Hung, Crashes: state.Crashes, wasMatched: true,
	}
	if !state.Since.IsZero() {
		r.Since = t.serviceNow().Add(-time.Since(state.Since)).Unix()
	}
	return r
}

func (t *retryRecords) putRecord(r *retryRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[r.First] = r
}

// retryState is the history that a record holds.
func (t *retryRecords) retryState(r *retryRecord) RetryState {
	state := RetryState{Tries: r.Tries, Attempts: r.Attempts, Failures: r.Failures, Hung: r.Hung, Crashes: r.Crashes}
	if r.Since != 0 {
		state.Since = time.Now().Add(-t.serviceNow().Sub(time.Unix(r.Since, 0)))
	}
	return state
}

// forgetItems drops the records of changes that are handled or dead-lettered.
func (t *retryRecords) forgetItems(items []*Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.byName) == 0 {
		return
	}
	for _, c := range items {
		delete(t.byName, t.nameOf(c))
	}
}
