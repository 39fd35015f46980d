// Package sample has dead letters for the tests of every store.
package sample

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// Monday is the time of samples.
var Monday = time.Date(2026, 3, 2, 12, 0, 0, 123456789, time.UTC)

// Letter returns a dead letter with every field of dead letters set.
func Letter(function, id string) trigger.DeadLetter {
	return trigger.DeadLetter{
		Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead,
		ID: id, Function: function, Account: "games", Database: "db", Container: "results", Range: "0", Epoch: 3, LSN: 17, Key: `["k"]`,
		Operation: cosmos.OperationUpsert, DocumentID: id, Document: json.RawMessage(`{"id":"` + id + `"}`), Written: Monday.Truncate(time.Second),
		Error: "cannot <take> it", Stack: "goroutine 1 [running]", Attempts: 10, Time: Monday, Order: 5,
	}
}

// Of is the source of the samples of a function.
func Of(function string) trigger.DeadLetterSource { return Letter(function, "").Source() }

// Must ends the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dead is the query of all dead letters of a function.
func Dead(function string) trigger.DeadLetterQuery {
	return trigger.DeadLetterQuery{Source: Of(function), Kind: trigger.RecordDead}
}

// List returns the dead letters of a function, as Of describes it.
func List(t testing.TB, s trigger.DeadLetters, function string) []trigger.DeadLetter {
	t.Helper()
	return ListOf(t, s, Of(function))
}

// ListOf returns the dead letters of a source, and ends the test on an error.
func ListOf(t testing.TB, s trigger.DeadLetters, source trigger.DeadLetterSource) []trigger.DeadLetter {
	t.Helper()
	var all []trigger.DeadLetter
	for d, err := range trigger.AllDeadLetters(t.Context(), s, trigger.DeadLetterQuery{Source: source, Kind: trigger.RecordDead}) {
		Must(t, err)
		all = append(all, d)
	}
	return all
}

// IDs returns the ids of dead letters.
func IDs(all []trigger.DeadLetter) []string {
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.ID)
	}
	return ids
}

// Same fails the test if got differs from want.
func Same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
