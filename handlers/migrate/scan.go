package migrate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"halley/trigger/cosmos"
)

// scanPage is the number of documents that a scan reads at a time. Memory holds a page
// for each range that is being read.
const scanPage = 100

// span is a part of a container's key space that remains to be read.
type span struct {
	min, max     string // hashed keys
	continuation string
}

// scan calls each with all documents of a container, a page at a time, range by range,
// from several goroutines. It reads the feed from the beginning until nothing more comes;
// a document that is written meanwhile may come twice. The documents are valid until each
// returns.
func (m *Migration) scan(ctx context.Context, c *cosmos.Container, parallel int, each func(context.Context, []json.RawMessage) error) error {
	ranges, err := c.Ranges(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	slots := make(chan struct{}, parallel)
	var working sync.WaitGroup
	for _, r := range ranges {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			if err := m.scanSpan(ctx, c, span{min: r.Min, max: r.Max}, each); err != nil {
				cancel(err) // the first error ends the other ranges
			}
		})
	}
	working.Wait()
	return context.Cause(ctx)
}

// scanSpan reads a part of the key space to its end. If its range splits or merges, it
// continues in the ranges that follow: they have the positions of the one before.
func (m *Migration) scanSpan(ctx context.Context, c *cosmos.Container, s span, each func(context.Context, []json.RawMessage) error) error {
	ranges, err := c.Ranges(ctx)
	if err != nil {
		return err
	}
	for _, r := range ranges {
		part := s.within(r)
		if cosmos.CompareKeys(part.min, part.max) >= 0 {
			continue
		}
		gone, err := m.scanRange(ctx, c, r, &part, each)
		if gone {
			err = m.scanFollowers(ctx, c, part, each)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reshapePause is the wait before the ranges that follow a split or a merge are read.
const reshapePause = 100 * time.Millisecond

func (m *Migration) scanFollowers(ctx context.Context, c *cosmos.Container, s span, each func(context.Context, []json.RawMessage) error) error {
	select {
	case <-time.After(reshapePause):
		return m.scanSpan(ctx, c, s, each)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// within returns the part of the span that a range holds. Min and max are in the wrong
// order if there is none.
func (s span) within(r cosmos.Range) span {
	if cosmos.CompareKeys(r.Min, s.min) > 0 {
		s.min = r.Min
	}
	if cosmos.CompareKeys(r.Max, s.max) < 0 {
		s.max = r.Max
	}
	return s
}

// scanRange reads a part of one range to its end, and moves its continuation. gone
// reports that the range was split or merged.
func (m *Migration) scanRange(ctx context.Context, c *cosmos.Container, r cosmos.Range, s *span, each func(context.Context, []json.RawMessage) error) (gone bool, err error) {
	for {
		var page *cosmos.Page
		err := m.budget.send(ctx, func(ctx context.Context) (charge float64, err error) {
			page, err = c.ReadFeed(ctx, cosmos.FeedRequest{Range: r, Min: s.min, Max: s.max, Continuation: s.continuation, MaxItems: scanPage})
			if err != nil {
				return 0, err
			}
			return page.Charge, nil
		})
		if cosmos.Classify(err) == cosmos.OutcomeRangeGone {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		s.continuation = page.Continuation
		documents := make([]json.RawMessage, len(page.Items))
		for i, item := range page.Items {
			documents[i] = item.Document
		}
		if len(documents) > 0 {
			err = each(ctx, documents)
		}
		end := page.NotModified
		page.Release()
		if err != nil || end {
			return false, err
		}
	}
}
