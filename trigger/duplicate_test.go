package trigger

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// Two documents may name one range where leases are keyed by partitionKey,
// since .NET gave them random ones for a while.

func TestOneLeasePerToken(t *testing.T) {
	now := time.Now()
	doc := func(name, token, continuation, owner string, age time.Duration, epoch int64) *lease {
		return &lease{
			id: name, token: token, partitionKey: cosmos.NewPartitionKey(name), continuation: continuation,
			owner: owner, written: now.Add(-age), properties: map[string]string{epochProperty: strconv.FormatInt(epoch, 10)},
		}
	}
	tests := []struct {
		name   string
		leases []*lease
		want   string
	}{
		{"the one that is behind", []*lease{doc("x", "0", `"9"`, "", 0, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y] [x]"},
		{"no checkpoint is furthest behind", []*lease{doc("x", "0", `"9"`, "", 0, 0), doc("y", "0", "", "", 0, 0)}, "[y] [x]"},
		{"what is worked on stays", []*lease{doc("x", "0", `"9"`, "b", time.Second, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[x] [y]"},
		{"a dead owner does not count", []*lease{doc("x", "0", `"9"`, "b", 5*time.Minute, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y] [x]"},
		{"the one acquired last, whoever holds the other", []*lease{doc("x", "0", `"5"`, "b", time.Second, 3), doc("y", "0", `"9"`, "", 0, 4)}, "[y] [x]"},
		{"the same one for every host", []*lease{doc("y", "0", `"5"`, "", 0, 3), doc("x", "0", `"5"`, "", 0, 3)}, "[x] [y]"},
		{"other tokens stay", []*lease{doc("x", "1", `"9"`, "", 0, 0), doc("y", "0", `"5"`, "", 0, 0)}, "[y x] []"},
	}
	names := func(leases []*lease) string {
		ids := []string{}
		for _, l := range leases {
			ids = append(ids, l.id)
		}
		return fmt.Sprint(ids)
	}
	for _, test := range tests {
		used, ignored := onePerToken(test.leases, now, time.Minute)
		if got := names(used) + " " + names(ignored); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}

// TestTwoHostsWithALeaseOfTheirOwn: each holds one of two documents for a range.
// One of them leaves, in good order, and the range stays with the other.
func TestTwoHostsWithALeaseOfTheirOwn(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.recreate("leases", "/partitionKey")
		w.fill("a", 10)
		defer w.running(w.host("a", w.record("a")))()
		time.Sleep(time.Minute)

		second := w.leaseDocuments()["0"]
		raw, err := second.document(timestamp(time.Now()))
		must(t, err)
		var doc map[string]any
		must(t, json.Unmarshal(raw, &doc))
		doc["partitionKey"], doc["Owner"] = "second", nil
		doc["properties"] = map[string]string{epochProperty: strconv.FormatInt(second.epoch()+1, 10)}
		_, err = w.leases.Create(t.Context(), cosmos.NewPartitionKey("second"), doc)
		must(t, err)
		defer w.running(w.host("b", w.record("b")))()
		time.Sleep(2 * time.Minute)

		w.mu.Lock()
		var left []CloseReason
		for _, e := range w.events {
			if e.Kind == Released {
				left = append(left, e.Reason)
			}
		}
		w.delivered = nil
		w.mu.Unlock()
		if got := fmt.Sprint(left); got != "[handed over]" {
			t.Errorf("ranges were left: %s, want [handed over]", got)
		}
		w.fill("b", 10)
		time.Sleep(10 * time.Minute)
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, d := range w.delivered {
			if d.owner != "b" {
				t.Errorf("%s delivered %s; the range is b's", d.owner, d.doc.ID)
			}
		}
		if len(w.delivered) != 10 {
			t.Errorf("%d delivered, want 10", len(w.delivered))
		}
	})
}

// TestSecondLeaseOfDotNetIsLeftAlone: an owner of .NET does not understand the
// request, and would lose its next write to it.
func TestSecondLeaseOfDotNetIsLeftAlone(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		f := w.host("a", w.record("a")).functions[0]
		must(t, f.prepare(t.Context()))
		l := w.leaseDocuments()["0"]
		l.owner = "dotnet"
		must(t, f.store.replace(t.Context(), l))
		for _, test := range []struct {
			incarnation string
			asked       string
		}{{"b/1", ""}, {"dotnet/1", "a"}} {
			l = w.leaseDocuments()["0"].clone()
			l.properties[incarnationProperty] = test.incarnation
			must(t, f.store.replace(t.Context(), l))
			f.vacate(context.Background(), w.leaseDocuments()["0"])
			if by, _ := w.leaseDocuments()["0"].asked(f.store.now(), time.Minute); by != test.asked {
				t.Errorf("owner dotnet, incarnation %s: asked by %q, want %q", test.incarnation, by, test.asked)
			}
		}
	})
}
