package main

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

func TestGapsAndRepetitionsAreThoseOfTheMeasurement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &deliveries{seen: map[int]bool{}, last: map[string]time.Time{}}
		deliver := func(id string, numbers ...int) {
			b := trigger.Batch{Range: cosmos.Range{ID: id}}
			for _, n := range numbers {
				document, err := json.Marshal(map[string]int64{"n": int64(n), "sent": time.Now().Add(-20 * time.Millisecond).UnixNano()})
				if err != nil {
					t.Fatal(err)
				}
				b.Changes = append(b.Changes, trigger.Change{Document: document})
			}
			if err := d.handle(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		deliver("0", 1)
		time.Sleep(time.Minute) // before the measurement
		deliver("0", 2)
		if d.ranges() != 1 {
			t.Errorf("%d ranges", d.ranges())
		}
		d.measure(true)
		deliver("0", 2, 3)
		deliver("1", 4)
		time.Sleep(300 * time.Millisecond)
		deliver("1", 5)
		time.Sleep(time.Second)
		deliver("0", 6)
		d.measure(false)
		time.Sleep(time.Minute)
		deliver("0", 7)
		if len(d.delays) != 4 || d.delays[0] != 20 || d.gap != 1300 || d.repeated != 1 {
			t.Errorf("delays %v, gap %v ms, %d repeated", d.delays, d.gap, d.repeated)
		}
	})
}
