package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A replay with several calls at a time keeps the order of each key, stops a key at
// its first failure, and ends at its limit.
func TestReplayInParallelKeepsOrderOfKeys(t *testing.T) {
	for _, test := range []struct {
		options ReplayOptions
		want    Replayed
		took    time.Duration
	}{
		{ReplayOptions{}, Replayed{Handled: 18, Failed: 1, Waiting: 1}, 19 * time.Second},
		{ReplayOptions{Parallel: 64}, Replayed{Handled: 18, Failed: 1, Waiting: 1}, 5 * time.Second},
		{ReplayOptions{Parallel: 64, Limit: 4}, Replayed{Handled: 4}, time.Second},
		{ReplayOptions{Wanted: func(d DeadLetter) bool { return d.LSN > 15 }}, Replayed{Handled: 5}, 5 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, source := &memoryStore{}, DeadLetterSource{Function: "f", Container: "c"}
			for i := range 20 {
				d := DeadLetter{Version: DeadLetterVersion, Kind: RecordDead, ID: fmt.Sprint(i), Function: "f", Container: "c", Key: fmt.Sprintf(`["k%d"]`, i%4), LSN: int64(i + 1)}
				must(t, store.Put(t.Context(), d))
			}
			must(t, store.Put(t.Context(), DeadLetter{Version: DeadLetterVersion, Kind: RecordDead, ID: "other", DocumentID: "other", Function: "f", Container: "another", Key: `["k0"]`}))
			var mu sync.Mutex
			byKey := map[string][]int64{}
			var failed []string
			test.options.Failed = func(d DeadLetter, err error) { failed = append(failed, d.ID) }
			began := time.Now()
			got, err := Replay(t.Context(), store, source, func(_ context.Context, b Batch) error {
				time.Sleep(time.Second)
				mu.Lock()
				defer mu.Unlock()
				key := string(b.Changes[0].PartitionKey())
				byKey[key] = append(byKey[key], b.Changes[0].LSN)
				if b.Changes[0].LSN == 15 {
					return errors.New("still poison")
				}
				return nil
			}, &test.options)
			must(t, err)
			if got != test.want || time.Since(began) != test.took || len(failed) != test.want.Failed {
				t.Errorf("%+v: %+v after %v, failed %v", test.options, got, time.Since(began), failed)
			}
			for key, lsns := range byKey {
				if !slices.IsSorted(lsns) {
					t.Errorf("key %s: %v", key, lsns)
				}
			}
			if remaining := store.documentIDs(); !slices.Contains(remaining, "other") {
				t.Error("the dead letter of another container was replayed")
			}
		})
	}
}

// A damaged dead letter hides no other from a replay, which tells of it at its end.
func TestReplayPassesDamagedDeadLetters(t *testing.T) {
	store, source := &damagedStore{}, DeadLetterSource{Function: "f", Container: "c"}
	for i := range 2 * pageLimit {
		must(t, store.Put(t.Context(), DeadLetter{
			Version: DeadLetterVersion, Kind: RecordDead, ID: fmt.Sprint(i), Function: "f", Container: "c", Key: fmt.Sprintf(`["k%d"]`, i),
		}))
	}
	done, err := Replay(t.Context(), store, source, func(context.Context, Batch) error { return nil }, nil)
	if done != (Replayed{Handled: 2 * pageLimit}) || !errors.Is(err, ErrDamaged) || strings.Count(err.Error(), "blob x") != 1 {
		t.Errorf("replay %+v: %v", done, err)
	}
}
