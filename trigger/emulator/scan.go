package emulator

import (
	"context"
	"iter"
	"slices"
	"sort"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// chunk is how many documents a query that streams takes from a container at once.
const chunk = 256

// scan reads the documents that a query is about, in the order in which their
// items were created. The container is locked only while it takes a chunk.
type scan struct {
	span
	container *container
	rangeID   string // the range that the request names; "" = it names none
	env       sql.Env
	// ranges calls visit with the ranges that the query reads and their container locked.
	// It fails if a range is gone, or refuses the request.
	ranges func(visit func([]*partition)) error
	after  int64 // sequence number of the last item that was read
	size   int   // of a chunk; 0 = all at once
	read   []int64
	bytes  int // of the documents that were read
	err    error
}

// scan returns a scan of the documents that a query is about.
func (c *call) scan(q queryText, o *container) (*scan, error) {
	s := &scan{container: o, rangeID: c.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"), env: c.env()}
	s.ranges = func(visit func([]*partition)) error {
		_, err := c.locked(o, func() (*response, error) {
			partitions, err := s.partitions()
			if err != nil {
				return nil, err
			}
			for _, p := range partitions {
				if err := c.checkSession(p); err != nil {
					return nil, err
				}
				if err := p.budget.admit(c.now); err != nil {
					return nil, err
				}
			}
			visit(partitions)
			return nil, nil
		})
		return err
	}
	var err error
	s.span, err = c.querySpan(q, o)
	return s, err
}

// bound makes the scan one of bounds instead of the range that the request names, so that
// results which combine documents stay the same when that range splits between two pages. It
// returns false if another range continues after the bookmark.
func (s *scan) bound(from bookmark) (continues bool, err error) {
	err = s.ranges(func(partitions []*partition) {
		p := partitions[0]
		lowest, highest := max(s.min, p.Min), min(s.max, p.Max)
		if from.Count > 0 {
			lowest, highest = from.Min, from.Max
		}
		if continues = epk.Contains(p.Min, p.Max, lowest); continues {
			s.min, s.max, s.rangeID = lowest, highest, ""
		}
	})
	return continues, err
}

// snapshot is one document, and the sequence number of its item.
type snapshot struct {
	seq  int64
	body []byte
}

// begin seeks to a bookmark. taken is how many values of the first document there
// were returned before; 0 if that document is another one.
func (s *scan) begin(from bookmark) (taken int, err error) {
	s.size, s.after = 1, max(from.Item-1, 0)
	first, err := s.take()
	s.size = chunk
	if err == nil && len(first) > 0 && first[0].seq == from.Item {
		taken = from.Value
	}
	return taken, err
}

// resume takes all documents, and finds the position of a bookmark of an ordered
// query among them. Its Value is -1 if the bookmark's document is gone.
func (s *scan) resume(from bookmark) ([][]byte, sql.Position) {
	documents := slices.Collect(s.documents())
	i, found := slices.BinarySearch(s.read, from.Item)
	p := sql.Position{Document: i, Value: from.Value, Count: from.Count, Keys: from.Keys}
	if !found {
		p.Value = -1
	}
	return documents, p
}

// bookmark returns the position after a result; nil if the window of TOP or OFFSET
// LIMIT ends there.
func (s *scan) bookmark(position sql.Position, window sql.Limits) *bookmark {
	if window.Limit >= 0 && position.Count >= window.Offset+window.Limit {
		return nil
	}
	return &bookmark{Item: s.read[position.Document], Value: position.Value, Count: position.Count, Keys: position.Keys}
}

// documents yields the bodies after s.after. It sets s.err and stops if it cannot
// read on, for example when the range is gone.
func (s *scan) documents() iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			if s.err = context.Cause(s.env.Context); s.err != nil {
				return
			}
			taken, err := s.take()
			s.err = err
			for _, doc := range taken {
				s.after = doc.seq
				s.read = append(s.read, doc.seq)
				s.bytes += len(doc.body)
				if !yield(doc.body) {
					return
				}
			}
			if s.size == 0 || len(taken) < s.size {
				return
			}
		}
	}
}

// take reads the next chunk.
func (s *scan) take() ([]snapshot, error) {
	var taken []snapshot
	err := s.ranges(func(partitions []*partition) {
		for _, p := range partitions {
			taken = append(taken, s.takeFrom(p)...)
		}
	})
	// slices.SortFunc would be compiled for this type: 14 kB of an app with dev.
	sort.Slice(taken, func(i, j int) bool { return taken[i].seq < taken[j].seq })
	if s.size > 0 && len(taken) > s.size {
		taken = taken[:s.size]
	}
	return taken, err
}

func (s *scan) takeFrom(p *partition) (taken []snapshot) {
	for i := range p.items.after(s.after) {
		if s.size > 0 && len(taken) == s.size {
			break
		}
		if s.holds(i) {
			taken = append(taken, snapshot{i.position(), i.current.body})
		}
	}
	return taken
}

// partitions returns the ranges that the query reads: the one that the request
// names, or if it names none those that hold its keys.
func (s *scan) partitions() ([]*partition, error) {
	if s.rangeID != "" {
		p, err := s.container.partition(s.rangeID)
		return []*partition{p}, err
	}
	var found []*partition
	for _, p := range s.container.Partitions {
		if epk.Overlaps(s.min, s.max, p.Min, p.Max) {
			found = append(found, p)
		}
	}
	return found, nil
}
