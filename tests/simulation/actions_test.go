package simulation

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// act performs a fault of the world. It returns the affected host, range or lease,
// "" if there is none.
var act = map[class]func(*world, dice) string{
	split:       (*world).split,
	merge:       (*world).merge,
	kill:        (*world).killOne,
	stop:        (*world).stopOne,
	scale:       (*world).scaleOut,
	pause:       (*world).pauseOne,
	partition:   func(w *world, d dice) string { return w.isolate(d, "", "items", "leases") },
	noLeases:    func(w *world, d dice) string { return w.isolate(d, "leases") },
	noFeed:      func(w *world, d dice) string { return w.isolate(d, "items") },
	throttled:   func(w *world, d dice) string { return w.isolateAll(d) },
	clockStep:   (*world).stepClock,
	sinkDown:    (*world).breakSink,
	leaseDelete: (*world).deleteLease,
	leaseBroken: (*world).corruptLease,
	leaseOld:    (*world).restoreLease,
	leaseTwice:  (*world).duplicateLease,
}

// plan puts all planned faults into the queue.
func (w *world) plan() {
	for _, c := range slices.Sorted(maps.Keys(act)) {
		for id, at := range w.swarm.planned(c) {
			name := string(c) + "/" + id
			w.items = append(w.items, item{name, w.began.Add(at), func() { w.act(c, id, w.swarm.dice(name)) }})
		}
	}
}

func (w *world) act(c class, id string, d dice) {
	if w.recovering {
		return
	}
	met := act[c](w, d)
	if met == "" {
		return
	}
	w.swarm.happened(c, id)
	w.mu.Lock()
	w.figures.Faults[string(c)]++
	w.mu.Unlock()
	w.log.add(time.Since(w.began), string(c), met)
	if !slices.Contains([]class{kill, stop, scale, leaseDelete, leaseBroken, leaseOld, leaseTwice}, c) { // these record themselves
		w.record(history.Event{Kind: history.Fault, Op: history.Op(c), Host: met})
	}
}

// victim returns a running host, or nil.
func (w *world) victim(d dice) *process {
	living := w.living()
	if len(living) == 0 {
		return nil
	}
	return one(d, "victim", living...)
}

func (w *world) killOne(d dice) string {
	p := w.victim(d)
	if p == nil {
		return ""
	}
	w.kill(p)
	return p.name
}

func (w *world) stopOne(d dice) string {
	p := w.victim(d)
	if p == nil {
		return ""
	}
	w.stop(p)
	w.later(d.duration("back", 10*time.Second, 10*time.Minute), "start/"+p.owner, func() {
		if !w.ending {
			w.start(p.owner)
		}
	})
	return p.name
}

// stop begins a graceful stop of a host.
func (w *world) stop(p *process) {
	w.mu.Lock()
	p.stopping = true
	w.mu.Unlock()
	p.end()
}

func (w *world) scaleOut(d dice) string {
	p := w.start("extra" + d.id[strings.LastIndexByte(d.id, '/')+1:])
	w.later(d.duration("for", time.Minute, 40*time.Minute), "scale in/"+p.name, func() {
		if w.alive[p.name] != nil && !p.stopping && !w.ending {
			w.stop(p)
		}
	})
	return p.name
}

func (w *world) pauseOne(d dice) string {
	p := w.victim(d)
	if p == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.frozen = time.Now().Add(d.duration("for", w.swarm.limits().Expiration, 6*w.swarm.limits().Expiration))
	return p.name
}

// isolate keeps a host from reaching containers.
func (w *world) isolate(d dice, containers ...string) string {
	p := w.victim(d)
	if p == nil {
		return ""
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range containers {
		p.unheard[c] = time.Now().Add(d.duration("for", 5*time.Second, 5*time.Minute))
	}
	return p.name
}

// isolateAll makes the lease container fail for all hosts.
func (w *world) isolateAll(d dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowDown = time.Now().Add(d.duration("for", 5*time.Second, 5*time.Minute))
	return "all"
}

// stepClock moves the service's clock for one host.
func (w *world) stepClock(d dice) string {
	p := w.victim(d)
	if p == nil {
		return ""
	}
	by := d.duration("by", time.Second, 10*time.Minute)
	if d.chance("back", 0.5) {
		by = -by
	}
	w.setShift(p, by)
	w.later(d.duration("for", time.Minute, time.Hour), d.id+" ends", func() { w.setShift(p, 0) })
	return p.name
}

func (w *world) setShift(p *process, by time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.shift = by
}

func (w *world) breakSink(d dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sinkOut = time.Now().Add(d.duration("for", 10*time.Second, 5*time.Minute))
	return "all"
}

func (w *world) ranges() []cosmos.Range {
	ranges, err := w.admin.Container(database, "items").Ranges(context.Background())
	w.must(err)
	return ranges
}

func (w *world) split(d dice) string {
	ranges := w.ranges()
	if len(ranges) >= w.swarm.most {
		return ""
	}
	r := one(d, "range", ranges...)
	if _, err := w.account.Split(database, "items", r.ID); err != nil {
		return "" // another split or merge is in progress
	}
	w.figures.Splits++
	return "range " + r.ID
}

func (w *world) merge(d dice) string {
	ranges := w.ranges()
	if len(ranges) < 2 {
		return ""
	}
	i := d.pick("range", len(ranges)-1)
	ids := []string{ranges[i].ID, ranges[i+1].ID}
	if i+2 < len(ranges) && d.chance("three", 0.2) {
		ids = append(ids, ranges[i+2].ID)
	}
	if _, err := w.account.Merge(database, "items", ids...); err != nil {
		return ""
	}
	w.figures.Merges++
	return "ranges " + strings.Join(ids, "+")
}
