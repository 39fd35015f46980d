package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger/internal/backoff"
)

// ErrBeyondEnd is the error of a position that the feed has not reached yet.
var ErrBeyondEnd = errors.New("beyond the end of the feed")

// A replica that lags may answer from before a position that is good, so a position counts as
// beyond the end only if several reads agree.
const (
	endReads = 3
	endPause = 500 * time.Millisecond
)

// CheckPosition returns an error if a range cannot be read after a continuation: the service
// refuses it, or it is beyond the end of the feed, so that changes would be skipped until the
// feed has reached it. Positions of a merged range are of several sequences, and only tried.
func (s *Source) CheckPosition(ctx context.Context, target Target, continuation string, merged bool) error {
	for read := 1; ; read++ {
		page, err := s.ReadPage(ctx, target, continuation, nil)
		if err != nil {
			return fmt.Errorf("the feed cannot be read after the position %s: %w", continuation, err)
		}
		end := QuotedLSN(page.SessionLSN)
		isBeyond := !merged && page.SessionLSN > 0 && IsLess(end, continuation)
		page.Release()
		switch {
		case !isBeyond:
			return nil
		case read == endReads:
			return fmt.Errorf("the position %s is %w, which is at %s", continuation, ErrBeyondEnd, end)
		}
		if err := backoff.Sleep(ctx, endPause); err != nil {
			return err
		}
	}
}
