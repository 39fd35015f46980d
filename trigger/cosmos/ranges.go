package cosmos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
)

// Range is a physical range of a container: [Min, Max) of hashed partition
// keys, in upper hex. The first one of a container begins at "", the last one
// ends at "FF".
type Range struct {
	ID       string
	Min, Max string
	Parents  []string // the ranges it was split or merged from, ancestors included
}

// CompareKeys orders two bounds of ranges by the keys they stand for: -1, 0 or
// 1. Zero bytes at the end make no difference, as in azcosmos.
func CompareKeys(a, b string) int { return strings.Compare(trimZeros(a), trimZeros(b)) }

func trimZeros(key string) string {
	for len(key) >= 2 && key[len(key)-2:] == "00" {
		key = key[:len(key)-2]
	}
	return key
}

// rangeMap is what is known of a container's ranges.
type rangeMap struct {
	turn      chan struct{} // one reader at a time; it owns etag and known
	forgotten atomic.Bool   // read everything anew

	etag  string
	known map[string]Range // ancestors included
}

// Ranges returns the current ranges in order of Min; ancestors are left out and
// the ranges together cover every key once. It always asks the service, which
// answers at little cost when nothing changed since the last call.
func (c *Container) Ranges(ctx context.Context) ([]Range, error) {
	m := &c.ranges
	select {
	case m.turn <- struct{}{}:
		defer func() { <-m.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.forgotten.Swap(false) {
		m.etag = ""
	}
	incremental := m.etag != ""
	current, err := c.readRanges(ctx, m)
	if errors.Is(err, errCoverage) && incremental {
		m.etag = ""
		current, err = c.readRanges(ctx, m)
	}
	return current, err
}

// maxRangePages bounds one incremental read, as azcosmos does.
const maxRangePages = 1000

// readRanges reads what changed since m.etag, until the service has no more.
func (c *Container) readRanges(ctx context.Context, m *rangeMap) ([]Range, error) {
	etag, known := m.etag, map[string]Range{}
	if etag != "" {
		maps.Copy(known, m.known)
	}
	for range maxRangePages {
		changed, next, err := c.readRangePage(ctx, etag)
		if err != nil {
			return nil, err
		}
		for _, r := range changed {
			known[r.ID] = r
		}
		if len(changed) == 0 || next == etag {
			current, err := currentRanges(known)
			if err != nil {
				return nil, fmt.Errorf("read ranges %s: %w", c.link, err)
			}
			m.etag, m.known = next, known
			return current, nil
		}
		etag = next
	}
	return nil, fmt.Errorf("read ranges %s: no end after %d answers", c.link, maxRangePages)
}

func (c *Container) readRangePage(ctx context.Context, since string) (changed []Range, next string, err error) {
	op := &operation{
		name: "read ranges", kind: "pkranges", parent: c.link, link: c.link, container: c,
		method: http.MethodGet, path: c.path + "/pkranges", header: http.Header{},
	}
	op.header.Set(headerFeedMode, incrementalFeed)
	op.header.Set(headerMaxItems, "-1")
	if since != "" {
		op.header.Set("If-None-Match", since)
	}
	resp, err := c.client.do(ctx, op)
	if err != nil {
		return nil, "", err
	}
	if next = resp.Header.Get("Etag"); next == "" {
		next = since
	}
	if resp.StatusCode == http.StatusNotModified {
		return nil, next, nil
	}
	var body struct {
		PartitionKeyRanges []struct {
			ID           string   `json:"id"`
			MinInclusive string   `json:"minInclusive"`
			MaxExclusive string   `json:"maxExclusive"`
			Parents      []string `json:"parents"`
		}
	}
	if err := op.decode(&body); err != nil {
		return nil, "", err
	}
	for _, r := range body.PartitionKeyRanges {
		if r.ID == "" {
			return nil, "", fmt.Errorf("%s: a range without an id", op)
		}
		changed = append(changed, Range{r.ID, r.MinInclusive, r.MaxExclusive, r.Parents})
	}
	return changed, next, nil
}

var errCoverage = errors.New("ranges do not cover every key once")

// currentRanges drops ancestors and checks that the rest is whole.
func currentRanges(known map[string]Range) ([]Range, error) {
	gone := map[string]bool{}
	for _, r := range known {
		for _, parent := range r.Parents {
			gone[parent] = true
		}
	}
	var current []Range
	for id, r := range known {
		if !gone[id] {
			current = append(current, r)
		}
	}
	slices.SortFunc(current, func(a, b Range) int { return CompareKeys(a.Min, b.Min) })
	next := ""
	for _, r := range current {
		if CompareKeys(r.Min, next) != 0 {
			return nil, fmt.Errorf("%w: range %s begins at %q where %q is due", errCoverage, r.ID, r.Min, next)
		}
		next = r.Max
	}
	if next != "FF" {
		return nil, fmt.Errorf("%w: they end at %q, not at \"FF\"", errCoverage, next)
	}
	return current, nil
}
