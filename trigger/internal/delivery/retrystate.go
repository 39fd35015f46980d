package delivery

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
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
	Tries    int       `json:"tries,omitempty"`    // calls so far, over all sizes of the group; the next is attempt Tries+1
	Attempts int       `json:"attempts,omitempty"` // calls that failed with exactly this group, at most Policy.MaxAttempts
	Failures int       `json:"failures,omitempty"` // of these: calls that failed although the sink worked, for the backoff
	Since    time.Time `json:"-"`                  // of the first failure, on this process's clock; zero if there was none
	Hung     bool      `json:"hung,omitempty"`     // the last call did not return
	Crashes  int       `json:"crashes,omitempty"`  // owners in a row that ended without releasing the lease during a call with this group in isolation
}

// failedFirst sets the time of the first failure, if this is the first.
func (r RetryState) failedFirst(now time.Time) RetryState {
	if r.Since.IsZero() {
		r.Since = now
	}
	return r
}

// forPart is the history with which a part of a failed group begins.
func (r RetryState) forPart() RetryState { return RetryState{Tries: r.Tries, Since: r.Since} }

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
// for isKnown, so that lanes may keep them.
type retryRecord struct {
	First string `json:"first"` // name of the group's first change
	Last  string `json:"last"`  // name of its last change
	Size  int    `json:"size"`  // changes in the group
	RetryState
	Members  []uint32 `json:"members,omitempty"`  // of a group of several changes that hung: hashes of their names
	Since    int64    `json:"since,omitempty"`    // RetryState.Since, on the service's clock in Unix seconds; 0 if it is zero
	InFlight bool     `json:"inFlight,omitempty"` // announced: the group is in a call, see isolation.go

	isKnown bool // this owner has read its first change, or loads it from the store
}

// retryRecords are the records of a range, by the name of their first change. Lanes and the
// lease's writer use them at a time; mu guards the maps, and no other lock is taken under it.
type retryRecords struct {
	serviceNow func() time.Time // the service's clock
	keyPaths   []string         // of the container

	mu        sync.Mutex
	saved     map[string]*retryRecord // by earlier owners, and by this owner's lanes
	announced map[string]*retryRecord // by this owner, in place of saved ones
}

// newRetryRecords takes the records of earlier owners. An unreadable property counts
// as empty: attempts then start from zero. So they do if a record names a change in another
// way than this version; it is dropped when the feed has passed its LSN.
func newRetryRecords(c Config, serviceNow func() time.Time) *retryRecords {
	t := &retryRecords{serviceNow: serviceNow, keyPaths: c.KeyPaths, saved: map[string]*retryRecord{}, announced: map[string]*retryRecord{}}
	var list []retryRecord
	_ = json.Unmarshal([]byte(c.SavedRetries), &list)
	for i := range list {
		r := &list[i]
		if r.Since != 0 {
			r.RetryState.Since = time.Now().Add(-serviceNow().Sub(time.Unix(r.Since, 0)))
		}
		t.saved[r.First] = r
	}
	return t
}

func (t *retryRecords) nameOf(c *Item) string { return c.Name(t.keyPaths) }

// encodeProperty encodes the records for the lease; "" means that there are none.
// Announcements come first: the lease must not lose them to its limit.
func (t *retryRecords) encodeProperty() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.saved)+len(t.announced) == 0 {
		return ""
	}
	records := maps.Clone(t.saved)
	maps.Copy(records, t.announced)
	rank := func(r *retryRecord) string {
		return fmt.Sprintf("%t %020d %s", !r.InFlight, feed.NameLSN(r.First), r.First)
	}
	list := slices.SortedFunc(maps.Values(records), func(a, b *retryRecord) int { return cmp.Compare(rank(a), rank(b)) })
	text, _ := json.Marshal(list[:min(len(list), maxRecords)]) // text and numbers always encode
	return string(text)
}

// matchPage links the records of earlier owners with the changes of a page that
// begin their groups. It drops records that the feed has skipped up to the page's last
// LSN: their documents have been overwritten, or do not pass the filter.
func (t *retryRecords) matchPage(page []Item, reached int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.saved) == 0 {
		return
	}
	first := t.firstLSNs()
	for i := range page {
		if c := &page[i]; !first[c.LSN] {
			continue
		} else if r := t.saved[t.nameOf(c)]; r != nil && !r.isKnown {
			c.resumedRecord, r.isKnown = r, true
		}
	}
	maps.DeleteFunc(t.saved, func(_ string, r *retryRecord) bool { return !r.isKnown && feed.NameLSN(r.First) <= reached })
}

// keepRecord returns the record of a group that begins with a change in the store, or nil:
// the feed need not show the change.
func (t *retryRecords) keepRecord(name string) *retryRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.saved[name]
	if r != nil {
		r.isKnown = true
	}
	return r
}

// groupLength returns the number of changes that were in a group, of changes that begin
// with its first one. A document rewritten since is no longer in it, so changes after the
// group's last one are not charged with its failures. Changes with the LSN of the last one
// were in the group if the last one follows them. A group that hung may be given up without a
// further call, so that its changes are known one by one: a change between its first and its
// last was in no call if its key waited.
func (t *retryRecords) groupLength(r *retryRecord, items []*Item) int {
	length, lastLSN := 1, feed.NameLSN(r.Last)
	for i, c := range items[:min(len(items), max(r.Size, 1))] {
		switch {
		case i > 0 && len(r.Members) > 0 && !slices.Contains(r.Members, t.memberOf(c)):
			return i
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

// memberOf returns the hash of a change's name for the record of its group.
func (t *retryRecords) memberOf(c *Item) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, t.nameOf(c)) // never fails
	return h.Sum32()
}

// saveGroup keeps the history of a group for the next owner, and ends its announcement.
func (t *retryRecords) saveGroup(items []*Item, state RetryState) {
	r := t.newRecord(items, state)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.saved[r.First] = r
	delete(t.announced, r.First)
}

// announceGroup records that a group is about to be in a call.
func (t *retryRecords) announceGroup(items []*Item, state RetryState) {
	r := t.newRecord(items, state)
	r.InFlight = true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.announced[r.First] = r
}

// endAnnouncements takes back this owner's announcements: their calls have ended. Those of
// earlier owners stay until their changes are delivered.
func (t *retryRecords) endAnnouncements() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.announced)
}

func (t *retryRecords) newRecord(items []*Item, state RetryState) *retryRecord {
	r := &retryRecord{
		First: t.nameOf(items[0]), Last: t.nameOf(items[len(items)-1]), Size: len(items), RetryState: state, isKnown: true,
	}
	if state.Hung && len(items) > 1 {
		for _, c := range items {
			r.Members = append(r.Members, t.memberOf(c))
		}
	}
	if !state.Since.IsZero() {
		r.Since = t.serviceNow().Add(-time.Since(state.Since)).Unix()
	}
	return r
}

// forgetItems drops the records of changes that are handled or dead-lettered.
func (t *retryRecords) forgetItems(items []*Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.saved)+len(t.announced) == 0 {
		return
	}
	first := t.firstLSNs()
	for _, c := range items {
		if first[c.LSN] {
			name := t.nameOf(c)
			delete(t.saved, name)
			delete(t.announced, name)
		}
	}
}

// firstLSNs returns the LSNs of the first changes of all records. A change with another one
// needs no name, which is costly. mu is held.
func (t *retryRecords) firstLSNs() map[int64]bool {
	lsns := map[int64]bool{}
	for _, records := range []map[string]*retryRecord{t.saved, t.announced} {
		for name := range records {
			lsns[feed.NameLSN(name)] = true
		}
	}
	return lsns
}
