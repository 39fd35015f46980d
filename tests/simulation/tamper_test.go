package simulation

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"

	"halley/tests/history"
	"halley/trigger/cosmos"
)

// lease returns one of the current lease documents.
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
		Owner: l.owner, Epoch: l.epoch, Position: l.position(), Retired: l.tombstone,
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

// deleteLeases deletes all leases at once, as an operator may by mistake.
func (w *world) deleteLeases(dice) string {
	met := ""
	for _, key := range slices.Sorted(maps.Keys(w.leases)) {
		met = w.remove(w.leases[key])
	}
	return met
}

func (w *world) remove(l leaseDocument) string {
	_, err := w.leaseContainer().Delete(context.Background(), l.id, l.partitionKey(), "")
	w.must(err)
	w.changed(false)
	w.drop(l.key())
	w.mu.Lock()
	delete(w.broken, l.key())
	w.mu.Unlock()
	return w.tampered(history.Deleted, l)
}

// corruptLease replaces a lease by an invalid document.
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
	w.changed(false)
}

// restoreLease writes an older copy of a lease, even if the lease was deleted.
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

// duplicateLease writes an older copy next to a lease, with another partition key;
// some releases of the .NET processor gave leases random ones.
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

// repair acts as an operator when hosts report a lease: it deletes the lease or
// restores the newest valid copy. If a range has two leases, it deletes the one
// that is further ahead, or keeps both.
func (w *world) repair() {
	if w.swarm.dice("repair").chance("one of two", 0.5) {
		w.removeSeconds()
	}
	for _, id := range slices.Sorted(maps.Keys(w.broken)) {
		l, there := w.leases[id]
		if !there {
			continue // one of two, already deleted
		}
		if w.swarm.dice("repair/"+id).chance("delete", 0.5) {
			w.remove(l)
		} else {
			w.restore(l)
		}
	}
}

func (w *world) removeSeconds() {
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
}
