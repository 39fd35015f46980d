package cosmos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sort"
	"strings"
	"sync/atomic"
)

// Range is a physical range of a container: [Min, Max) of hashed partition
// keys, in upper-case hex. The first range of a container begins at "", the
// last one ends at "FF".
type Range struct {
	ID       string
	Min, Max string
	Parents  []string // ranges that it was split or merged from, with their own parents
}

// CompareKeys compares two bounds of ranges: -1, 0 or 1. Trailing zero bytes
// are ignored, as in azcosmos.
func CompareKeys(a, b string) int { return strings.Compare(TrimKey(a), TrimKey(b)) }

// TrimKey returns a bound or an effective key without its trailing zero bytes: texts of this
// form compare by their bytes as [CompareKeys] does.
func TrimKey(key string) string {
	for len(key) >= 2 && key[len(key)-2:] == "00" {
		key = key[:len(key)-2]
	}
	return key
}

// rangeMap caches the ranges of a container.
type rangeMap struct {
	lock    chan struct{} // holds a token while a reader owns etag and known
	invalid atomic.Bool   // set by Forget: read all ranges again

	etag  string
	known map[string]Range // by id, with ancestors
}

// Ranges returns the current ranges in order of Min, without ancestors.
// Together they cover every key exactly once. Each call asks the service, which
// is cheap if nothing has changed since the last call.
func (c *Container) Ranges(ctx context.Context) ([]Range, error) {
	m := &c.ranges
	select {
	case m.lock <- struct{}{}:
		defer func() { <-m.lock }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if m.invalid.Swap(false) {
		m.etag = ""
	}
	incremental := m.etag != ""
	current, err := c.readRanges(ctx, m)
	if errors.Is(err, errCoverage) && incremental {
		m.etag = ""
		current, err = c.readRanges(ctx, m)
	}
	if err == nil {
		c.placements.setRanges(current)
	}
	return current, err
}

// maxRangePages bounds the pages of one read, as azcosmos does.
const maxRangePages = 1000

// readRanges reads the changes since m.etag, page by page.
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
	return nil, fmt.Errorf("read ranges %s: not complete after %d pages", c.link, maxRangePages)
}

func (c *Container) readRangePage(ctx context.Context, since string) (changed []Range, next string, err error) {
	op := &operation{
		name: "read ranges", kind: "pkranges", parent: c.link, link: c.link, container: c,
		method: http.MethodGet, path: c.path + "/pkranges", header: newHeader(),
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

var errCoverage = errors.New("ranges do not cover every key exactly once")

// currentRanges drops ancestors and checks that the remaining ranges cover
// every key exactly once.
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
	// slices.SortFunc would be compiled for this type: 15 kB of every app.
	sort.Slice(current, func(i, j int) bool { return CompareKeys(current[i].Min, current[j].Min) < 0 })
	next := ""
	for _, r := range current {
		if CompareKeys(r.Min, next) != 0 {
			return nil, fmt.Errorf("%w: range %s begins at %q instead of %q", errCoverage, r.ID, r.Min, next)
		}
		next = r.Max
	}
	if next != "FF" {
		return nil, fmt.Errorf("%w: the last one ends at %q instead of \"FF\"", errCoverage, next)
	}
	return current, nil
}
