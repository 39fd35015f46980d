package trigger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// troubleProperty is the lease property with what the handler has refused so
// far. An owner may last for less than it takes to give a change up: a drain of a
// few minutes does, and so does a host that is replaced. What one owner has tried
// counts for the next, or a poison change would block its range for ever.
const troubleProperty = "halley.trouble"

// maxTroubles bounds how many the property holds: the first in the feed.
const maxTroubles = 16

// trouble is a group of changes that the handler refused, or was still busy with
// when its owner ended.
type trouble struct {
	Change   string `json:"change"`   // the first of the group, by its name
	Last     string `json:"last"`     // the last of the group
	Size     int    `json:"size"`     // changes in the group
	Tries    int    `json:"tries"`    // calls so far, over all sizes
	Attempts int    `json:"attempts"` // calls that failed with this very group
	Failures int    `json:"failures"` // calls that failed in a row, for the backoff
	Since    int64  `json:"since"`    // first failure, on the service's clock in Unix seconds; 0: none
	Stuck    bool   `json:"stuck"`    // the last call did not return
	Deaths   int    `json:"deaths"`   // owners that ended without a word during a call with this change alone

	mine bool // of this owner, or taken up by it
}

// nameOf tells a change from others of its range: its LSN, "/", and a hash of its
// document's id.
func nameOf(c *pending) string {
	h := fnv.New64a()
	h.Write([]byte(idOf(c.item)))
	if c.item.Operation != "" { // one transaction may make several versions of a document
		for _, image := range [][]byte{[]byte(c.item.Operation), c.item.Previous, c.item.Document} {
			fmt.Fprintf(h, "/%d:%s", len(image), image)
		}
	}
	return strconv.FormatInt(c.item.LSN, 10) + "/" + strconv.FormatUint(h.Sum64(), 36)
}

// lsnOf is the LSN in a name; 0 where it has none.
func lsnOf(name string) int64 {
	lsn, _, _ := strings.Cut(name, "/")
	n, _ := strconv.ParseInt(lsn, 10, 64) // a name that nobody gave begins anew
	return n
}

// holds reports whether a change that comes after the first was in the group, too.
// Documents that were written again since have left it, and what came after them
// is not to answer for them.
func (t *trouble) holds(c *pending) bool {
	return c.item.LSN < lsnOf(t.Last) || nameOf(c) == t.Last
}

// troubles are those of a worker, by the name of the first change.
type troubles struct {
	mu     sync.Mutex
	known  map[string]trouble
	single string // the change that was last delivered with no other
}

// load takes what earlier owners left. What cannot be read begins anew.
func (t *troubles) load(property string) {
	var list []trouble
	_ = json.Unmarshal([]byte(property), &list)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known = map[string]trouble{}
	for _, one := range list {
		t.known[one.Change] = one
	}
}

// meet marks the changes of a page that begin a group which an earlier owner
// left. What one left and the feed has passed is forgotten: its document has a
// newer version.
func (t *troubles) meet(changes []*pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) == 0 || len(changes) == 0 {
		return
	}
	for _, c := range changes {
		name := nameOf(c)
		if left, there := t.known[name]; there && !left.mine {
			left.mine = true
			t.known[name], c.left = left, &left
		}
	}
	reached := changes[len(changes)-1].item.LSN
	maps.DeleteFunc(t.known, func(_ string, one trouble) bool { return !one.mine && lsnOf(one.Change) <= reached })
}

// note keeps how far a group has come.
func (t *troubles) note(first *pending, one trouble) {
	one.Change, one.mine = nameOf(first), true
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[one.Change] = one
}

// alone notes that a change is about to be delivered with no other, by an owner
// that may not survive it.
func (t *troubles) alone(c *pending) {
	c.left.Deaths++
	t.note(c, *c.left)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.single = nameOf(c)
}

// lived takes back that this owner might not survive the change that it delivers.
func (t *troubles) lived() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, there := t.known[t.single]; there && one.Deaths > 0 {
		one.Deaths--
		t.known[t.single] = one
	}
}

// settled forgets changes that are handled or dead-lettered.
func (t *troubles) settled(changes []*pending) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) == 0 {
		return
	}
	for _, c := range changes {
		delete(t.known, nameOf(c))
	}
}

// property is what the lease is to hold; "" is nothing.
func (t *troubles) property() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) == 0 {
		return ""
	}
	list := slices.SortedFunc(maps.Values(t.known), func(a, b trouble) int {
		return cmp.Or(cmp.Compare(lsnOf(a.Change), lsnOf(b.Change)), cmp.Compare(a.Change, b.Change))
	})
	text, _ := json.Marshal(list[:min(len(list), maxTroubles)]) // text and numbers always encode
	return string(text)
}

// resumed is the group that an earlier owner's trouble goes on with. Where LSNs do
// not tell which changes were in it, as after a merge, several begin anew.
func (l *lane) resumed(changes []*pending, left *trouble) *group {
	if len(changes) > 1 && l.worker.lease.byKeys {
		return &group{changes: changes, tries: left.Tries}
	}
	g := &group{changes: changes, tries: left.Tries, attempts: left.Attempts, stuck: left.Stuck, deaths: left.Deaths}
	l.failures = max(l.failures, left.Failures)
	if left.Since != 0 {
		g.since = time.Now().Add(-l.worker.f.store.now().Sub(time.Unix(left.Since, 0)))
	}
	return g
}

// remember keeps how far a group has come, for the next owner.
func (l *lane) remember(g *group) {
	one := trouble{
		Last: nameOf(g.changes[len(g.changes)-1]), Size: len(g.changes),
		Tries: g.tries, Attempts: g.attempts, Failures: l.failures, Stuck: g.stuck, Deaths: g.deaths,
	}
	if !g.since.IsZero() {
		one.Since = l.worker.f.store.now().Add(-time.Since(g.since)).Unix()
	}
	l.worker.troubles.note(g.changes[0], one)
}
