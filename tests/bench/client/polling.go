package main

import (
	"context"
	"errors"

	"halley/trigger/cosmos"
)

// pollFeed reads a range that has no changes, again and again.
func pollFeed(ctx context.Context, s settings) (figures, error) {
	items, _, err := s.containers()
	if err != nil {
		return nil, err
	}
	ranges, err := items.Ranges(ctx)
	if err != nil {
		return nil, err
	}
	request := cosmos.FeedRequest{Range: ranges[0], Start: cosmos.StartNow, MaxItems: s.Page}
	poll := func() error {
		page, err := items.ReadFeed(ctx, request)
		if err != nil {
			return err
		}
		if !page.NotModified {
			return errChanges
		}
		request.Continuation = page.Continuation
		page.Release()
		return nil
	}
	if err := poll(); err != nil { // the first one opens the connection
		return nil, err
	}
	m := startMeter()
	for range s.Changes {
		if err := poll(); err != nil {
			return nil, err
		}
	}
	return m.stop(s.Changes), nil
}

// errChanges means that a feed without changes has some.
var errChanges = errors.New("a poll of a range without changes has found some")
