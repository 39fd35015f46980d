package emulator

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"halley/trigger/emulator/epk"
	"halley/trigger/emulator/sql"
)

// Charges of a page of a query, which agree with recorded answers of a hosted account,
// October 2026, within ten percent. An index finds the documents, so that a count costs
// the same for 500 and for 2,500 of them.
const (
	queryUnits  = 2.25
	filterUnits = 0.57  // of a condition, an aggregate or a partition key
	resultUnits = 0.015 // of each result, and of each kilobyte
)

// maxContinuation bounds the continuation of a query, which holds values of ORDER BY:
// clients send it back in a header, see maxHeader.
const maxContinuation = 32 << 10

// chunk is how many documents a query that streams takes from a container at once.
const chunk = 256

// noIndexes is the answer to a request for index metrics: nothing is indexed here.
const noIndexes = `{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`

// scan reads the documents that a query is about, in the order in which their
// items were created. The container is locked only while it takes a chunk.
type scan struct {
	span
	call      *call
	container *container
	after     int64 // sequence number of the last item that was read
	size      int   // of a chunk; 0 = all at once
	read      []int64
	bytes     int // of the documents that were read
	err       error
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
			if s.err = context.Cause(s.call.ctx); s.err != nil {
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
	_, err := s.call.locked(s.container, func() (*response, error) {
		partitions, err := s.partitions()
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			if err := s.call.checkSession(p); err != nil {
				return nil, err
			}
			if err := p.budget.admit(s.call.now); err != nil {
				return nil, err
			}
			taken = append(taken, s.takeFrom(p)...)
		}
		return nil, nil
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
	if id := s.call.header.Get("X-Ms-Documentdb-Partitionkeyrangeid"); id != "" {
		p, err := s.container.partition(id)
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

// finish makes a page the answer.
func (s *scan) finish(found results, properties sql.Properties) (*response, error) {
	r := reply(http.StatusOK, envelope(s.container.rid, "Documents", found.values))
	r.set("x-ms-item-count", strconv.Itoa(len(found.values)))
	units := queryUnits + resultUnits*float64(len(found.values)+found.size/1024)
	if !properties.Constant && (properties.Filtered || properties.Aggregates != nil || s.prefix) {
		units += filterUnits
	}
	_, err := s.call.locked(s.container, func() (*response, error) {
		partitions, err := s.partitions()
		if err != nil {
			return nil, err
		}
		sessions := make([]string, len(partitions))
		for i, p := range partitions {
			p.budget.spend(units / float64(len(partitions)))
			sessions[i] = p.session()
		}
		r.stamp(partitions[0].replica(), false)
		r.set("x-ms-session-token", strings.Join(sessions, ","))
		return nil, nil
	})
	r.charge(units)
	s.container.name(r)
	if found.next != nil {
		token := escapeASCII(encode(found.next))
		if len(token) > maxContinuation {
			return nil, badRequest("The query cannot be continued: its ORDER BY values make a continuation of %d bytes, at most %d are allowed.", len(token), maxContinuation)
		}
		r.set("x-ms-continuation", string(token))
	}
	if strings.EqualFold(s.call.header.Get("X-Ms-Documentdb-Populatequerymetrics"), "true") {
		r.set("x-ms-documentdb-query-metrics", s.metrics(found))
	}
	if strings.EqualFold(s.call.header.Get("X-Ms-Cosmos-Populateindexmetrics"), "true") {
		r.set("x-ms-cosmos-index-utilization", base64.StdEncoding.EncodeToString([]byte(noIndexes)))
	}
	return r, err
}

// escapeASCII escapes the characters of JSON text that are not ASCII: Node.js and
// others read headers as Latin-1.
func escapeASCII(text []byte) []byte {
	escaped := make([]byte, 0, len(text))
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			escaped = append(escaped, byte(r))
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	return escaped
}
