package main

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"halley/tests/bench/rows"
	"halley/trigger"
)

// A run counts the rows of other keys, those behind a poison document and the attempts, and a
// process with the record of an earlier one the rows that it gets again.
func TestPoisonRunCountsRows(t *testing.T) {
	s := settings{Changes: 2000, Poison: true, Record: filepath.Join(t.TempDir(), "handled")}
	all := rows.Generate(s.Changes)
	deliver := func(r *poisonRun, n int) error {
		return r.handle(t.Context(), trigger.NewBatch(trigger.Change{Document: rows.Document(n, all[n])}))
	}
	first, err := newPoisonRun(s)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for n, row := range all {
		for range 10 {
			if err := deliver(first, n); (err != nil) != row.IsPoison {
				t.Fatalf("row %d: %v", n, err)
			}
			if !row.IsPoison {
				break
			}
		}
	}
	found := first.figures(began)
	if found["left"] != 0 || first.openKeys != 0 || found["leastAttempts"] != 10 || found["mostAttempts"] != 10 || found["repeated"] != 0 {
		t.Errorf("%v, %d keys are open", found, first.openKeys)
	}
	for name, channel := range map[string]chan struct{}{"others": first.others, "all": first.all} {
		select {
		case <-channel:
		default:
			t.Error(name + " are handled, and the run does not end")
		}
	}

	second, err := newPoisonRun(s)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 50 {
		for range 2 {
			_ = deliver(second, n)
		}
	}
	poison := 0
	for _, row := range all[:50] {
		if row.IsPoison {
			poison++
		}
	}
	if got := second.figures(began)["repeated"]; got != float64(50-poison) {
		t.Error(fmt.Sprint(got, " rows are repeated"))
	}
}
