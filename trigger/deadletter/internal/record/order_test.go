package record

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"halley/trigger"
	"halley/trigger/deadletter/internal/contract"
)

// Every window gives the same order in the fewest scans, and each scan begins
// at the end of the last window.
func TestOldestFirstSortsWithAnyWindow(t *testing.T) {
	for _, n := range []int{0, 1, 4, 5, 6, 19, 20, 100} {
		var want []Position
		for i := range n {
			want = append(want, Position{contract.Monday.Add(time.Duration(i / 7)), fmt.Sprint(i % 7 / 3), int64(i % 3), fmt.Sprint(i)})
		}
		slices.SortFunc(want, Position.Compare)
		for _, window := range []int{1, 2, 5, 20, 1000} {
			shuffled := slices.Clone(want)
			rand.New(rand.NewPCG(uint64(n), uint64(window))).Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			scans := 0
			var got []Position
			for p, err := range OldestFirst(window, func(from time.Time) iter.Seq2[Position, error] {
				if len(got) > 0 && !from.Equal(got[len(got)-1].Time) {
					t.Errorf("scan from %s after %s", from, got[len(got)-1].Time)
				}
				scans++
				return func(yield func(Position, error) bool) {
					for _, p := range shuffled {
						if !p.Time.Before(from) && !yield(p, nil) {
							return
						}
					}
				}
			}) {
				contract.Must(t, err)
				got = append(got, p)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d in windows of %d: %v", n, window, got)
			}
			if most := n/window + 1; scans > most {
				t.Errorf("%d in windows of %d took %d scans, want at most %d", n, window, scans, most)
			}
		}
	}
}

func TestErrorEndsList(t *testing.T) {
	broken := errors.New("broken")
	at := func(names ...string) iter.Seq2[Position, error] {
		return func(yield func(Position, error) bool) {
			for _, n := range names {
				var err error
				if n == "" {
					err = broken
				}
				if !yield(Position{At: n}, err) {
					return
				}
			}
		}
	}
	read := func(p Position) (trigger.DeadLetter, bool, error) {
		switch p.At {
		case "damaged":
			return trigger.DeadLetter{}, false, fmt.Errorf("read: %w", trigger.ErrDamaged)
		case "unreadable":
			return trigger.DeadLetter{}, false, broken
		}
		return trigger.DeadLetter{ID: p.At}, p.At != "gone", nil
	}
	for want, from := range map[string]iter.Seq2[Position, error]{
		"a b ":                       at("a", "gone", "b"),
		"a read: damage ":            at("damaged", "a"),
		"a broken ":                  at("a", "", "b"),
		"a c broken ":                at("a", "damaged", "c", "unreadable", "b"),
		"read: damage read: damage ": at("damaged", "damaged"),
	} {
		got := ""
		for d, err := range ReadInOrder(from, read) {
			if err != nil {
				got += fmt.Sprintf("%.12s ", err)
				continue
			}
			got += d.ID + " "
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for range ReadInOrder(at("damaged", "damaged"), read) {
		break // a consumer may stop at damage too
	}
	for _, err := range OldestFirst(3, func(time.Time) iter.Seq2[Position, error] { return at("a", "") }) {
		if !errors.Is(err, broken) {
			t.Errorf("order of a broken scan: %v", err)
		}
	}
}
