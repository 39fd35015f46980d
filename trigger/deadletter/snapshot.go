package deadletter

import (
	"context"
	"iter"
	"os"

	"halley/trigger"
	"halley/trigger/deadletter/internal/record"
)

// scan yields the positions of the records that a query may select.
func (j *journal) scan(q trigger.DeadLetterQuery) func(*record.Position) iter.Seq2[record.Position, error] {
	key := record.Digest(q.Key)
	return func(*record.Position) iter.Seq2[record.Position, error] {
		return func(yield func(record.Position, error) bool) {
			for _, e := range j.entries {
				if e.isSelected(q, key) && !yield(e.Position, nil) {
					return
				}
			}
		}
	}
}

// snapshot has some records of the file at one point in time. One goroutine uses it, without
// the lock.
type snapshot struct {
	file   *os.File
	size   int64
	places map[string]span // by ID
	damage []error
}

// snapshot opens the file a second time, so that it can be read without the
// lock, even if it is replaced or renamed meanwhile.
func (j *journal) snapshot(positions []record.Position) (*snapshot, error) {
	s := &snapshot{size: j.scanned, places: map[string]span{}}
	for _, p := range positions {
		if e, found := j.entries[p.At]; found {
			s.places[p.At] = e.in
		}
	}
	for _, d := range j.damage {
		s.damage = append(s.damage, damageIn(j.path, d, errNoWholeFrame))
	}
	if j.file == nil {
		return s, nil
	}
	var err error
	s.file, err = openFile(j.path, os.O_RDONLY, 0)
	return s, err
}

func (s *snapshot) close() {
	if s.file != nil {
		_ = s.file.Close() // opened for reading only
	}
}

// read reads a record; found is false if it was deleted before the snapshot.
func (s *snapshot) read(ctx context.Context, id string) (l trigger.DeadLetter, found bool, err error) {
	if ctx.Err() != nil {
		return l, false, context.Cause(ctx)
	}
	place, found := s.places[id]
	if !found {
		return l, false, nil
	}
	f, err := readFrame(s.file, place.at, s.size)
	if err == nil {
		l, err = record.Decode(f.payload)
	}
	if err != nil {
		return trigger.DeadLetter{}, true, damageIn(s.file.Name(), place, err)
	}
	return l, true, nil
}
