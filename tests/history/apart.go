package history

import (
	"slices"
	"sort"
	"time"
)

// apartDelay is how long the reading of a change may take, and the changes of its key apart
// from the calls of others: the limit of idle time.
const apartDelay = 2 * time.Second

// apart is the first delivery of a change whose key had no unfinished change. A failing key
// may not delay it, whether it has been read or not.
type apart struct {
	key   string
	by    holder
	since time.Time // it was written, its key had become free, and the owner had the lease
	began time.Time
}

// noteApart keeps the first delivery of a change, if no earlier change of its key is
// unfinished. began is its first delivery by this owner.
func (c *checker) noteApart(d Event, by holder, began time.Time) {
	k := c.key(d.Key)
	t := c.terms[holder{d.Host, tenure{d.Range, d.Epoch}}]
	if t == nil || d.Seq < 1 || d.Seq > int64(len(k.changes)) || k.changes[d.Seq-1].seen != 1 && began.Equal(d.Time) {
		return
	}
	since := later(k.changes[d.Seq-1].wrote, t.began)
	for _, earlier := range k.changes[:d.Seq-1] {
		if earlier.last && !earlier.handled && !earlier.dead {
			return // it is in the same call, or the key waits
		}
		since = later(since, later(earlier.ended, earlier.delivered))
	}
	c.aparts = append(c.aparts, apart{d.Key, by, since, began})
}

// judgeApart judges the time from the write of a change to its first delivery in a run in
// which nothing but poison changes fails. After a poll and the batching window, its owner
// has no reason to be idle, unless the sink seems to be down: calls with three keys have
// failed and none has succeeded between them.
func (c *checker) judgeApart(a apart) {
	from := a.since.Add(c.limits.Poll + c.limits.Poison.BatchWindow)
	if !a.began.After(from) || c.seemsDown(a.by, a.since, a.began) {
		return
	}
	idle, reached := time.Duration(0), from
	calls := c.between(a.by, from, a.began)
	slices.SortFunc(calls, func(a, b interval) int { return a.began.Compare(b.began) })
	for _, i := range calls {
		idle += max(i.began.Sub(reached), 0)
		reached = later(reached, i.ended)
	}
	idle += max(a.began.Sub(reached), 0)
	c.report.count(KeysApart, 1, 0)
	if idle > apartDelay {
		c.violate(KeysApart, "a change of key %q, written or free at %s, was first delivered %s later, and its owner was idle for %s after the poll and the window",
			a.key, a.since.Format("15:04:05.000"), a.began.Sub(a.since).Round(time.Millisecond), idle.Round(time.Millisecond))
	}
}

// seemsDown reports whether, at some time between two others, the last calls of an owner
// have failed with three keys, without a success between them.
func (d *delays) seemsDown(by holder, from, to time.Time) bool {
	calls := d.calls[by] // in the order of their ends
	keys := map[string]bool{}
	first := sort.Search(len(calls), func(i int) bool { return calls[i].ended.After(from) })
	for first > 0 && calls[first-1].failed {
		first-- // an outage that began before
	}
	for _, call := range calls[first:] {
		if call.began.After(to) {
			break
		}
		if !call.failed {
			clear(keys)
			continue
		}
		if keys[call.key] = true; len(keys) >= 3 {
			return true
		}
	}
	return false
}
