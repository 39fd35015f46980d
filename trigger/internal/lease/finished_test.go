package lease

import (
	"encoding/json"
	"testing"

	"halley/trigger/internal/finished"
)

// withFinished gives a lease a position, an epoch and a value that belongs to both.
func withFinished(l *Lease) *Lease {
	l.continuation = `"7"`
	l.properties[epochProperty] = "6"
	l.properties[finished.Property] = finished.Value{Binding: finished.Binding{Continuation: `"7"`, Epoch: 6}, Reached: 9, Marks: map[uint64]int64{1: 8}}.Encode()
	return l
}

// A child over a part of its range is a lease by keys, and holds no value; a whole one
// holds that of its parent, also after its epoch was raised above other leases.
func TestChildrenOverPartsHoldNoFinishedChanges(t *testing.T) {
	parent := withFinished(newDocument("p", "0", Span{"", "20"}, false))
	lower := newDocument("p", "1", Span{"", "10"}, false)
	children := []*Lease{inherit(lower, parent), newChildOver(parent, Span{"10", "20"}, "p")}
	setEpoch(children, 9)
	for _, c := range children {
		v, ok := finished.Parse(c.Finished())
		if ok == c.byKeys || ok && (v.Epoch != 9 || v.Continuation != c.continuation) || c.Epoch() != 9 {
			t.Errorf("child %s in epoch %d holds %q", c.token, c.Epoch(), c.properties[finished.Property])
		}
	}
}

// A deleted lease comes back at its position without a value: a host that found no lease may
// have delivered changes meanwhile.
func TestRestoredLeaseHoldsNoFinishedChanges(t *testing.T) {
	lost := withFinished(newDocument("p", "0", Span{"", "20"}, false))
	restored := lost.revive(newDocument("p", "0", Span{"", "20"}, false), 0)
	if restored.HoldsFinished() || restored.continuation != lost.continuation || restored.Epoch() != 7 {
		t.Errorf("restored at %s in epoch %d with %v", restored.continuation, restored.Epoch(), restored.properties)
	}
}

// Each write of an owner notes its time next to the value, and nothing without a value: so a
// lease does not grow while nothing fails.
func TestWritesConfirmFinishedChanges(t *testing.T) {
	l := withFinished(newDocument("p", "0", Span{"", "20"}, false))
	first := l.clone()
	first.confirmFinished(json.RawMessage(`"first"`))
	second := first.clone()
	second.confirmFinished(json.RawMessage(`"second"`))
	for name, version := range map[string]*Lease{"first": first, "second": second} {
		if version.properties[finishedTimestampProperty] != name || version.Finished() == "" {
			t.Errorf("%s: properties %v", name, version.properties)
		}
	}
	other := second.clone()
	other.timestamp = json.RawMessage(`"third"`)
	if value := other.Finished(); value != "" {
		t.Errorf("after a write of another library: %s", value)
	}
	second.dropFinished()
	if second.confirmFinished(json.RawMessage(`"third"`)); second.properties[finishedTimestampProperty] != "" {
		t.Errorf("without a value: %v", second.properties)
	}
}
