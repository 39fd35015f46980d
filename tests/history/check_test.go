package history

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(seq int64, id string) Event { return Event{Kind: Write, Key: "k", Seq: seq, ID: id} }

// by is a delivery by a host in an epoch of range "0".
func by(host string, epoch, seq int64, id string) Event {
	return Event{Kind: Delivery, Key: "k", Seq: seq, ID: id, Host: host, Range: "0", Epoch: epoch, Attempt: 1}
}

func retry(e Event) Event {
	e.Attempt++
	return e
}

func TestCheckOfWritesAndDeliveries(t *testing.T) {
	abc := []Event{write(1, "a"), write(2, "b"), write(3, "c")}
	for _, test := range []struct {
		name   string
		writes []Event
		rest   []Event
		want   []Rule
	}{
		{"in order", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b"), by("x", 1, 3, "c")}, nil},
		{"nothing delivered", abc, nil, []Rule{NoLoss, NoLoss, NoLoss}},
		{"last one lost", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b")}, []Rule{NoLoss}},
		{"first one lost", abc, []Event{by("x", 1, 2, "b"), by("x", 1, 3, "c")}, []Rule{NoGap, NoLoss}},
		{"swapped", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 3, "c"), by("x", 1, 2, "b")}, []Rule{NoGap, Order, Order}},
		{"takeover repeats", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b"), by("y", 2, 1, "a"), by("y", 2, 2, "b"), by("y", 2, 3, "c")}, nil},
		{"takeover repeats with a gap", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b"), by("y", 2, 1, "a"), by("y", 2, 3, "c")}, []Rule{NoGap}},
		{"takeover skips", abc, []Event{by("x", 1, 1, "a"), by("y", 2, 3, "c"), by("z", 3, 2, "b"), by("z", 3, 3, "c")}, []Rule{NoGap, Order}},
		{"retry", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b"), retry(by("x", 1, 1, "a")), retry(by("x", 1, 2, "b")), by("x", 1, 3, "c")}, nil},
		{"back without a retry", abc, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b"), by("x", 1, 1, "a"), by("x", 1, 2, "b"), by("x", 1, 3, "c")}, []Rule{Order}},
		{"two owners of one epoch", abc, []Event{by("x", 1, 1, "a"), by("y", 1, 2, "b"), by("y", 1, 3, "c")}, []Rule{Ownership}},
		{"never written", abc[:1], []Event{by("x", 1, 1, "a"), by("x", 1, 2, "b")}, []Rule{NoPhantom}},
		{"superseded version unseen", []Event{write(1, "a"), write(2, "b"), write(3, "a")}, []Event{by("x", 1, 2, "b"), by("x", 1, 3, "a")}, nil},
		{"superseded version seen", []Event{write(1, "a"), write(2, "a")}, []Event{by("x", 1, 1, "a"), by("x", 1, 2, "a")}, nil},
		{"last version lost", []Event{write(1, "a"), write(2, "a")}, []Event{by("x", 1, 1, "a")}, []Rule{NoLoss}},
		{"write acknowledged twice", append(abc[:1:1], abc[0]), []Event{by("x", 1, 1, "a")}, nil},
	} {
		r := Check(slices.Concat(test.writes, test.rest))
		var got []Rule
		for _, v := range r.Violations {
			got = append(got, v.Rule)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s%v", test.name, diff, r.Violations)
		}
	}
}

func TestReportCountsDeliveries(t *testing.T) {
	r := Check([]Event{write(1, "a"), write(2, "a"), write(3, "b"), write(4, "c"),
		by("x", 1, 2, "a"), by("y", 2, 2, "a"), by("y", 2, 3, "b")})
	want := Report{Written: 4, Delivered: 2, Redelivered: 1, Superseded: 1, Lost: 1, Hosts: 2,
		Violations: []Violation{{Rule: NoLoss, Key: "k", Text: `4 "c" was never delivered`}}}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
}

func TestReadSkipsUnfinishedLastLine(t *testing.T) {
	var b bytes.Buffer
	events := []Event{write(1, "a"), by("x", 1, 1, "a")}
	if err := Append(&b, events...); err != nil {
		t.Fatal(err)
	}
	b.WriteString(`{"kind":"del`) // killed while writing
	got, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(events, got); diff != "" {
		t.Error(diff)
	}
	if _, err := Read(strings.NewReader("{}\nnot JSON\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("garbled history: %v, want the line", err)
	}
}
