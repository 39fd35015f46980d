package simulation

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// act is what the world does to itself, by class. Each tells whom it met, ""
// where there was nothing to meet.
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

// plan puts all that is planned into the queue.
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

// victim is a host that runs.
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

// stop asks a host to end in good order.
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

// isolateAll has the lease container fail for everybody.
func (w *world) isolateAll(d dice) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slowDown = time.Now().Add(d.duration("for", 5*time.Second, 5*time.Minute))
	return "all"
}

// stepClock moves the service's clock as one host sees it.
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
		return "" // another one goes on
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

// lease is one of the lease documents as they now are.
func (w *world) lease(d dice) (leaseDocument, bool) {
	ids := slices.Sorted(maps.Keys(w.leases))
	if len(ids) == 0 {
		return leaseDocument{}, false
	}
	return w.leases[one(d, "lease", ids...)], true
}

func (w *world) leaseContainer() *cosmos.Container { return w.admin.Container(database, "leases") }

func (w *world) tampered(op history.Op, l leaseDocument) string {
	w.record(history.Event{
		Kind: history.Tamper, Op: op, Range: l.token, ID: l.twin, Min: l.min, Max: l.max,
		Owner: l.owner, Epoch: l.epoch, Position: l.position(),
	})
	return l.token
}

func (w *world) deleteLease(d dice) string {
	l, ok := w.lease(d)
	if !ok {
		return ""
	}
	return w.remove(l)
}

func (w *world) remove(l leaseDocument) string {
	_, err := w.leaseContainer().Delete(context.Background(), l.id, l.partitionKey(), "")
	w.must(err)
	w.changed()
	w.drop(l.key())
	w.mu.Lock()
	delete(w.broken, l.key())
	w.mu.Unlock()
	return w.tampered(history.Deleted, l)
}

// corruptLease replaces a lease by what is none.
func (w *world) corruptLease(d dice) string {
	l, ok := w.lease(d)
	if !ok {
		return ""
	}
	doc := map[string]any{}
	w.must(json.Unmarshal(l.body, &doc))
	switch d.pick("how", 5) {
	case 0:
		doc["version"] = 7
	case 1:
		doc["FeedRange"] = map[string]any{"Range": map[string]any{"min": "FF", "max": ""}}
	case 2:
		doc["LeaseToken"] = "another"
	case 3:
		doc["properties"] = map[string]any{"halley.epoch": "many"}
	case 4:
		doc["Owner"] = 7
	}
	body, err := json.Marshal(doc)
	w.must(err)
	w.put(l, body)
	w.mu.Lock()
	w.broken[l.key()] = true
	w.mu.Unlock()
	return w.tampered(history.Corrupted, l)
}

func (w *world) put(l leaseDocument, body []byte) {
	_, err := w.leaseContainer().Upsert(context.Background(), l.partitionKey(), body)
	w.must(err)
	w.changed()
}

// restoreLease puts back an older copy, of a lease that is there or was.
func (w *world) restoreLease(d dice) string {
	if len(w.copies) == 0 {
		return ""
	}
	return w.restore(one(d, "copy", w.copies...))
}

func (w *world) restore(l leaseDocument) string {
	w.put(l, l.body)
	w.keep(l)
	w.mu.Lock()
	delete(w.broken, l.key())
	w.mu.Unlock()
	return w.tampered(history.Restored, l)
}

func (l leaseDocument) partitionKey() cosmos.PartitionKey {
	return cosmos.NewPartitionKey(cmp.Or(l.twin, l.id))
}

// duplicateLease puts an older copy beside a lease, under a partition key of its
// own, as releases of the .NET processor gave leases random ones.
func (w *world) duplicateLease(d dice) string {
	if w.swarm.leaseKey != "/partitionKey" || len(w.copies) == 0 {
		return ""
	}
	l := one(d, "copy", w.copies...)
	if _, there := w.leases[l.id]; !there || l.twin != "" {
		return ""
	}
	l.twin = "twin" + strconv.FormatUint(d.roll("twin")%1000, 10)
	doc := map[string]any{}
	w.must(json.Unmarshal(l.body, &doc))
	doc["partitionKey"] = l.twin
	body, err := json.Marshal(doc)
	w.must(err)
	l.body = body
	w.put(l, body)
	w.mu.Lock()
	w.leases[l.key()] = l
	w.mu.Unlock()
	return w.tampered(history.Duplicated, l)
}

// repair is what an operator does about leases that the hosts report: deletes
// them, or brings back the newest copy that was good. Of two leases for one
// range the one that has seen more goes.
func (w *world) repair() {
	behind := map[string]leaseDocument{} // by document id
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		l := w.leases[key]
		other, two := behind[l.id]
		if two && other.position() <= l.position() {
			w.remove(l)
			continue
		}
		if two {
			w.remove(other)
		}
		behind[l.id] = l
	}
	for _, id := range slices.Sorted(maps.Keys(w.broken)) {
		l, there := w.leases[id]
		if !there {
			continue // one of two, and already gone
		}
		if w.swarm.dice("repair/"+id).chance("delete", 0.5) {
			w.remove(l)
		} else {
			w.restore(l)
		}
	}
}
