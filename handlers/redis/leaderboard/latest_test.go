package leaderboard

import (
	"encoding/json"
	"fmt"
	"testing"

	"halley/trigger"
)

// turn returns a batch of one player's scores, from a position on.
func turn(epoch, position int64, scores ...float64) trigger.Batch {
	b := trigger.Batch{Epoch: epoch}
	for i, score := range scores {
		b.Changes = append(b.Changes, trigger.Change{
			Document: json.RawMessage(fmt.Sprintf(`{"id":"%d","game":"chess","player":"ada","score":%v}`, i, score)),
			LSN:      position + int64(i),
		})
	}
	return b
}

func latest(t *testing.T, b *Boards) float64 {
	t.Helper()
	score, ok, err := b.Latest(t.Context(), "chess", "ada")
	if err != nil || !ok {
		t.Fatalf("latest: %v, %v", ok, err)
	}
	return score
}

// TestPausedOwnerCannotOverwrite: host A reads a batch and pauses for longer than
// the lease expiration; host B handles the batch and later ones; then A continues
// and handles its batch.
func TestPausedOwnerCannotOverwrite(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		handle := b.Handler()
		paused := turn(7, 100, 10)
		for _, batch := range []trigger.Batch{turn(8, 100, 10), turn(8, 101, 20, 30)} {
			if err := handle(t.Context(), batch); err != nil {
				t.Fatal(err)
			}
		}
		if err := handle(t.Context(), paused); err != nil {
			t.Fatalf("a late writer is told off silently, its host has lost the range anyway: %v", err)
		}
		if got := latest(t, b); got != 30 {
			t.Errorf("latest score is %v, want the next owner's 30", got)
		}
	})
}

func TestLatestFollowsTheFeed(t *testing.T) {
	tests := []struct {
		name    string
		batches []trigger.Batch
		want    float64
	}{
		{"in order", []trigger.Batch{turn(1, 1, 5), turn(1, 2, 3)}, 3},
		{"within a batch the last counts", []trigger.Batch{turn(1, 1, 5, 9, 2)}, 2},
		{"delivered twice", []trigger.Batch{turn(1, 1, 5, 6), turn(1, 1, 5, 6)}, 6},
		{"a new owner repeats from an earlier point", []trigger.Batch{turn(1, 1, 5, 6, 7), turn(2, 2, 6), turn(2, 3, 7)}, 7},
		{"after a split epochs go on", []trigger.Batch{turn(4, 50, 5), turn(6, 51, 1)}, 1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			eachRedis(t, func(t *testing.T, b *Boards) {
				for _, batch := range test.batches {
					if err := b.Handler()(t.Context(), batch); err != nil {
						t.Fatal(err)
					}
				}
				if got := latest(t, b); got != test.want {
					t.Errorf("latest score %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestLatestOfUnknownPlayer(t *testing.T) {
	eachRedis(t, func(t *testing.T, b *Boards) {
		if _, ok, err := b.Latest(t.Context(), "chess", "nobody"); ok || err != nil {
			t.Errorf("latest of nobody: %v, %v", ok, err)
		}
	})
}
