package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// foreignRates are those of foreign owners, an hour.
var foreignRates = []float64{0.5, 2, 6}

// foreignOwner is a .NET change feed processor that has a lease for a while: it takes the
// lease, reads from its continuation, hands each page to a handler that succeeds, moves the
// continuation, and frees the lease or dies. It copies properties that it does not know.
// The scheduler's goroutine owns it.
type foreignOwner struct {
	w     *world
	name  string
	d     dice
	key   string // of the lease
	steps int    // pages to read
	first string // the continuation that it began with
}

// beginForeign lets a foreign owner take one of the leases that have a continuation.
func (w *world) beginForeign(d dice) string {
	var keys []string
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		if l := w.leases[key]; l.continuation != "" && l.paused == "" && !l.tombstone && l.twin == "" && !w.isBroken(key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return ""
	}
	f := &foreignOwner{w: w, name: "net" + d.id[len(foreign)+1:], d: d, key: one(d, "lease", keys...), steps: d.between("steps", 0, 5)}
	f.first = w.leases[f.key].continuation
	if !f.write(history.ForeignTake, func(doc map[string]any) { doc["Owner"] = f.name }) {
		return ""
	}
	f.continueLater()
	return f.name + " takes " + w.leases[f.key].token
}

func (w *world) isBroken(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken[key]
}

func (f *foreignOwner) continueLater() {
	step := strconv.Itoa(f.steps)
	f.w.later(f.d.duration("wait "+step, 100*time.Millisecond, 20*time.Second), f.name+"/"+step, f.step)
}

// holds reports whether the lease still belongs to this owner.
func (f *foreignOwner) holds() bool {
	return f.w.leases[f.key].owner == f.name && !f.w.isBroken(f.key)
}

// step delivers a page, or ends the work.
func (f *foreignOwner) step() {
	if !f.holds() {
		return
	}
	if f.steps > 0 && !f.w.recovering {
		f.steps--
		if f.deliver() {
			f.continueLater()
			return
		}
	}
	if f.d.chance("back", 0.3) { // an operator restores the position
		f.write(history.ForeignMove, func(doc map[string]any) { doc["ContinuationToken"] = f.first })
	}
	if f.w.recovering || !f.d.chance("dies", 0.3) {
		f.write(history.ForeignRelease, func(doc map[string]any) { doc["Owner"] = nil })
	}
}

// deliver reads a page and hands it to the handler. It returns false if the range cannot be
// read with the lease, or has no more changes.
func (f *foreignOwner) deliver() bool {
	w, l := f.w, f.w.leases[f.key]
	ranges := w.ranges()
	i := slices.IndexFunc(ranges, func(r cosmos.Range) bool {
		return cosmos.CompareKeys(r.Min, l.min) <= 0 && cosmos.CompareKeys(l.max, r.Max) <= 0
	})
	if i < 0 || l.max == "" {
		return false
	}
	request := cosmos.FeedRequest{Range: ranges[i], Continuation: l.continuation, MaxItems: f.d.between("items "+strconv.Itoa(f.steps), 1, 40)}
	if l.min != ranges[i].Min || l.max != ranges[i].Max {
		request.Min, request.Max = l.min, l.max
	}
	page, err := w.admin.Container(database, "items").ReadFeed(context.Background(), request)
	if err != nil || page.NotModified {
		return false
	}
	defer page.Release()
	call := int64(f.d.roll("call "+strconv.Itoa(f.steps)) >> 1)
	delivered := 0
	for _, item := range page.Items {
		var doc document
		w.must(json.Unmarshal(item.Document, &doc))
		if doc.Noise {
			continue
		}
		delivered++
		w.record(history.Event{
			Kind: history.Delivery, Key: doc.Key, Seq: doc.Seq, ID: doc.ID, LSN: item.LSN, Host: f.name, Range: l.token, Epoch: l.epoch, Attempt: 1, Call: call,
		})
	}
	if delivered > 0 {
		w.record(history.Event{Kind: history.End, Verdict: history.Handled, Call: call, Host: f.name, Range: l.token, Epoch: l.epoch})
		w.used("foreign deliveries", delivered)
	}
	return f.write(history.ForeignMove, func(doc map[string]any) { doc["ContinuationToken"] = page.Continuation })
}

// write replaces the lease under its etag. It returns false if another writer was first, so
// that this owner has lost the lease.
func (f *foreignOwner) write(op history.Op, change func(doc map[string]any)) bool {
	w, l := f.w, f.w.leases[f.key]
	read, err := w.leaseContainer().Read(context.Background(), l.id, l.partitionKey())
	if err != nil {
		return false
	}
	doc := map[string]any{}
	w.must(json.Unmarshal(read.Body, &doc))
	change(doc)
	for name := range doc {
		if name != "_etag" && name[0] == '_' {
			delete(doc, name)
		}
	}
	doc["timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.0000000Z")
	body, err := json.Marshal(doc)
	w.must(err)
	if _, err := w.leaseContainer().Replace(context.Background(), l.id, l.partitionKey(), body, azcore.ETag(read.ETag)); err != nil {
		return false
	}
	w.changed(false)
	next := parseLeaseDocument(body)
	w.keep(next)
	w.record(history.Event{
		Kind: history.Lease, Op: op, Host: f.name, Range: next.token, Min: next.min, Max: next.max, Owner: next.owner,
		Epoch: next.epoch, Position: next.position(), Sent: time.Now(),
	})
	return true
}
