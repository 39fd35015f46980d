package deadletter

import (
	"cmp"
	"iter"
	"slices"
	"time"

	"halley/trigger"
)

// position is the sort order of a dead letter and its place in the store.
type position struct {
	time  time.Time
	token string // of the range
	lsn   int64
	at    string // name in the store
}

func positionOf(d trigger.DeadLetter, at string) position {
	return position{time: d.Time.UTC(), token: d.Range, lsn: d.LSN, at: at}
}

func (p position) compare(o position) int {
	return cmp.Or(p.time.Compare(o.time), cmp.Compare(p.token, o.token), cmp.Compare(p.lsn, o.lsn), cmp.Compare(p.at, o.at))
}

// timeLayout is a layout whose text sorts by time.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// defaultWindow is the default number of positions that List sorts in memory:
// about 2 MB.
const defaultWindow = 10_000

// oldestFirst sorts the positions that scan yields in any order. It keeps at
// most 2*window of them in memory; if there are more, it scans again from the
// time of the last position that it has yielded.
func oldestFirst(window int, scan func(from time.Time) iter.Seq2[position, error]) iter.Seq2[position, error] {
	return func(yield func(position, error) bool) {
		var last position
		for started := false; ; started = true {
			var oldest []position
			more := false
			for p, err := range scan(last.time) {
				if err != nil {
					yield(position{}, err)
					return
				}
				if started && p.compare(last) <= 0 {
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

func cut(p []position, n int) []position {
	slices.SortFunc(p, position.compare)
	return p[:min(n, len(p))]
}

// readInOrder reads the dead letters at positions. It leaves out those that
// were deleted meanwhile, and reports damage at the end, so that damage does
// not hide other dead letters.
func readInOrder(positions iter.Seq2[position, error], read func(position) (d trigger.DeadLetter, found bool, err error)) iter.Seq2[trigger.DeadLetter, error] {
	return func(yield func(trigger.DeadLetter, error) bool) {
		var damaged []error
		for p, err := range positions {
			if err != nil {
				yield(trigger.DeadLetter{}, err)
				return
			}
			d, found, err := read(p)
			switch {
			case isDamage(err):
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
