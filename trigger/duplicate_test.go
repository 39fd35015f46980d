package trigger

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

// Two documents may name one range where leases are keyed by partitionKey,
// since .NET gave them random ones for a while.

// TestTwoHostsWithALeaseOfTheirOwn: each holds one of two documents for a range.
// One of them leaves, in good order, and the range stays with the other.
func TestTwoHostsWithALeaseOfTheirOwn(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		w.recreate("leases", "/partitionKey")
		w.fill("a", 10)
		defer w.running(w.host("a", w.record("a")))()
		time.Sleep(time.Minute)

		second := w.leaseDocuments()["0"]
		doc := second.encode()
		doc["partitionKey"], doc["Owner"] = "second", nil
		doc["properties"] = map[string]string{epochProperty: strconv.FormatInt(second.epoch()+1, 10)}
		_, err := w.leases.Create(t.Context(), cosmos.NewPartitionKey("second"), doc)
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
