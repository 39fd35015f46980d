package record

import (
	"cmp"
	"errors"
	"iter"
	"sort"
	"time"

	"halley/trigger"
)

// Position is the sort order of a dead letter and its place in the store.
type Position struct {
	Time  time.Time
	Token string // of the range
	LSN   int64
	At    string // name in the store
}

// PositionOf returns the position of a dead letter.
func PositionOf(d trigger.DeadLetter, at string) Position {
	return Position{Time: d.Time.UTC(), Token: d.Range, LSN: d.LSN, At: at}
}

// Compare orders by time, range, LSN and name.
func (p Position) Compare(o Position) int {
	return cmp.Or(p.Time.Compare(o.Time), cmp.Compare(p.Token, o.Token), cmp.Compare(p.LSN, o.LSN), cmp.Compare(p.At, o.At))
}

// TimeLayout is a layout whose text sorts by time.
const TimeLayout = "2006-01-02T15:04:05.000000000Z"

// DefaultWindow is the default number of positions that List sorts in memory:
// about 2 MB.
const DefaultWindow = 10_000

// OldestFirst sorts the positions that scan yields in any order. It keeps at
// most 2*window of them in memory; if there are more, it scans again from the
// time of the last Position that it has yielded.
func OldestFirst(window int, scan func(from time.Time) iter.Seq2[Position, error]) iter.Seq2[Position, error] {
	return func(yield func(Position, error) bool) {
		var last Position
		for started := false; ; started = true {
			var oldest []Position
			more := false
			for p, err := range scan(last.Time) {
				if err != nil {
					yield(Position{}, err)
					return
				}
				if started && p.Compare(last) <= 0 {
					continue
				}
				if oldest = append(oldest, p); len(oldest) == 2*window {
					oldest, more = cut(oldest, window), true
				}
			}
			more = more || len(oldest) > window
			for _, p := range cut(oldest, window) {
				if !yield(p, nil) {
					return
				}
				last = p
			}
			if !more {
				return
			}
		}
	}
}

func cut(p []Position, n int) []Position {
	// slices.SortFunc would be compiled for this type: 15 kB of every app.
	sort.Slice(p, func(i, j int) bool { return p[i].Compare(p[j]) < 0 })
	return p[:min(n, len(p))]
}

// ReadInOrder reads the dead letters at positions. It leaves out those that
// were deleted meanwhile, and reports damage at the end, so that damage does
// not hide other dead letters.
func ReadInOrder(positions iter.Seq2[Position, error], read func(Position) (d trigger.DeadLetter, found bool, err error)) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		var damaged []error
		for p, err := range positions {
			if err != nil {
				yield(trigger.DeadLetter{}, err)
				return
			}
			d, found, err := read(p)
			switch {
			case errors.Is(err, trigger.ErrDamaged):
				damaged = append(damaged, err)
			case err != nil:
				yield(trigger.DeadLetter{}, err)
				return
			case found:
				if !yield(d, nil) {
					return
				}
			}
		}
		for _, err := range damaged {
			if !yield(trigger.DeadLetter{}, err) {
				return
			}
		}
	}
}
