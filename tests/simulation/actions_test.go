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
	feedSlow:    (*world).throttleFeed,
	slowWrites:  (*world).slowLeaseWrites,
	clockStep:   (*world).stepClock,
	sinkDown:    (*world).breakSink,
	leaseDelete: (*world).deleteLease,
	allDeleted:  (*world).deleteLeases,
	leaseBroken: (*world).corruptLease,
	leaseOld:    (*world).restoreLease,
	leaseTwice:  (*world).duplicateLease,
	poisonBurst: (*world).burstPoison,
	foreign:     (*world).beginForeign,
	seeking:     func(w *world, d dice) string { return w.operate(seeking, d) },
	pausing:     func(w *world, d dice) string { return w.operate(pausing, d) },
	resuming:    func(w *world, d dice) string { return w.operate(resuming, d) },
	releasing:   func(w *world, d dice) string { return w.operate(releasing, d) },
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
	w.fault = history.Event{Kind: history.Fault, Op: history.Op(c)}
	met := act[c](w, d)
	if met == "" {
		return
	}
	w.mu.Lock()
	w.swarm.happened(c, id)
	w.figures.Faults[string(c)]++
	w.mu.Unlock()
	w.log.add(time.Since(w.began), string(c), met)
	if !slices.Contains([]class{kill, stop, scale, leaseDelete, allDeleted, leaseBroken, leaseOld, leaseTwice, seeking, pausing, resuming, releasing, poisonBurst, foreign}, c) { // these record themselves
		w.fault.Host = met
		w.record(w.fault)
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
	w.record(history.Event{Kind: history.Host, Op: history.Stopping, Host: p.name, Owner: p.owner})
	p.end()
}

// stopSoon lets chance stop a host that has just started.
func (w *world) stopSoon(p *process) {
	d := w.swarm.dice(string(stopSoon) + "/" + p.name)
	if w.recovering || !d.chance("is", w.swarm.rates[stopSoon]) || !w.swarm.allows(stopSoon, p.name) {
		return
	}
	w.later(d.duration("after", 100*time.Millisecond, 2*time.Minute), d.id, func() {
		if w.alive[p.name] == nil || p.stopping || w.recovering {
			return
		}
		w.mu.Lock()
		w.swarm.happened(stopSoon, p.name)
		w.figures.Faults[string(stopSoon)]++
		w.mu.Unlock()
		w.stop(p)
		w.restart(p)
	})
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
	w.fault.Until = p.frozen
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
		w.fault.Until = p.unheard[c]
	}
	return p.name
}

// isolateAll makes the lease container fail for all hosts.
func (w *world) isolateAll(d dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowDown = time.Now().Add(d.duration("for", 5*time.Second, 5*time.Minute))
	w.fault.Until = w.slowDown
	return "all"
}

// throttleFeed makes the monitored container refuse feed reads of all hosts.
func (w *world) throttleFeed(d dice) string {
	w.refuseFeed(d.id, d.duration("for", 5*time.Second, 10*time.Minute), fate{
		class: feedSlow, status: one(d, "status", status{code: 429, sub: 3200, wait: true}, status{code: 503, wait: true}),
		retryAfter: d.duration("retry after", 50*time.Millisecond, 10*time.Second),
		before:     one(d, "answered after", 0, 0, 0, 7*time.Second),
	})
	w.fault.Until, w.fault.Wait = w.feedSlow, w.feedRefusal.retryAfter+w.feedRefusal.before
	return "all"
}

// refuseFeed answers all feed reads in the same way for a while.
func (w *world) refuseFeed(id string, length time.Duration, with fate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.feedSlow, w.feedRefusal = time.Now().Add(length), with
	w.items = append(w.items, item{id + " ends", w.feedSlow.Add(1), w.expectReads})
}

// expectReads has the next feed read of each owner recorded.
func (w *world) expectReads() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.leases {
		for _, p := range w.alive {
			if p.owner == l.owner {
				p.unread[l.token] = leaseSpan{l.min, l.max}
			}
		}
	}
}

// slowLeaseWrites makes all writes of leases slow.
func (w *world) slowLeaseWrites(d dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowWrites = time.Now().Add(d.duration("for", 10*time.Second, 10*time.Minute))
	w.fault.Until = w.slowWrites.Add(slowestWrite)
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
	length := d.duration("for", time.Minute, time.Hour)
	w.fault.Until = time.Now().Add(length)
	w.later(length, d.id+" ends", func() { w.setShift(p, 0) })
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
	w.fault.Until = w.sinkOut
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
	w.fault.Until = time.Now().Add(w.swarm.splitting + time.Minute)
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
	w.fault.Until = time.Now().Add(w.swarm.splitting + time.Minute)
	return "ranges " + strings.Join(ids, "+")
}
