package feed

import (
	"context"
	"errors"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/units"
)

// Page is one page of the feed. Its bytes are valid until it is released.
type Page = cosmos.Page

// Item is one change of a page, as the service sent it.
type Item = cosmos.Item

// Target is the part of a physical range that a lease covers.
type Target struct {
	Physical cosmos.Range
	Min, Max string
}

// Source is the change feed of one container as one function reads it. It is
// immutable and safe for concurrent use.
type Source struct {
	Container   *cosmos.Container
	Mode        cosmos.Mode
	Start       Start  // of ranges without a continuation
	MaxItems    int    // changes in a page
	MostItems   int    // in one of a range that is behind; MaxItems if it is less
	Opaque      bool   // positions inside pages have no names, so that pages do not grow: a large one could not be taken in by parts
	KeyProperty string // of documents, to be found when a page is read; or ""
	ResourceID  string // of the container: a container created again under its name has another

	Shared *SharedReads  // with other functions, or nil
	MaxAge time.Duration // of an answer without changes to another function; required with Shared
	Place  int           // of the function among those that share reads, from 0
	Meter  *units.Meter  // counts the reads; may be nil
}

// AsOpaque returns the source as a range reads it in which positions inside pages have no names.
func (s *Source) AsOpaque() *Source {
	if s.Opaque {
		return s
	}
	opaque := *s
	opaque.Opaque = true
	return &opaque
}

// pageSizes returns how many changes a page has.
func (s *Source) pageSizes() pageSizes {
	if s.Opaque {
		return pageSizes{s.MaxItems, s.MaxItems}
	}
	return pageSizes{s.MaxItems, max(s.MaxItems, s.MostItems)}
}

// WithPages returns the source with pages of so many changes at most, which it does not share
// with other functions: theirs would be larger. It is the source itself if that is its own
// page size, or more, or 0.
func (s *Source) WithPages(items int) *Source {
	if items <= 0 || items >= s.MaxItems {
		return s
	}
	smaller := *s
	smaller.MaxItems, smaller.Shared = items, nil
	return &smaller
}

// ForSnapshot returns the source of a snapshot: latest versions from the beginning. It shares
// no reads.
func (s *Source) ForSnapshot() *Source {
	latest := *s
	latest.Mode, latest.Start, latest.Shared = cosmos.ModeLatestVersion, Start{Kind: StartBeginning}, nil
	return &latest
}

// ReadPage reads the page after the continuation, or the first page if it is empty, as
// far as the reservation permits: otherwise its error wraps [cosmos.ErrNotAdmitted]. A
// nil reservation permits a page of MaxItems.
// The start time goes only with the first page, as in azure-cosmos-dotnet-v3: in
// a merged range the service would otherwise leave out the changes between the
// continuation and the start time.
func (s *Source) ReadPage(ctx context.Context, target Target, continuation string, reading *Reading) (*Page, error) {
	if continuation == "" && s.Start.Kind == StartContinuation {
		continuation = s.Start.Continuation
	}
	request := cosmos.FeedRequest{
		Mode: s.Mode, Range: target.Physical, Min: target.Min, Max: target.Max, Continuation: continuation, MaxItems: s.MaxItems,
		ResourceID: s.ResourceID, KeyProperty: s.KeyProperty,
	}
	if reading != nil {
		request.MaxItems, request.Admit = reading.Items, reading.Admit
	}
	if continuation == "" {
		request.Start = s.Start.feedStart()
	}
	if s.Shared != nil && reading != nil {
		return s.Shared.readPage(ctx, sharedRequest{request, s.Container, s.MaxAge, s.Opaque, s.Meter}, reading)
	}
	return readFeed(ctx, s.Container, request, s.Meter)
}

// readFeed sends a request and tells the meter.
func readFeed(ctx context.Context, c *cosmos.Container, request cosmos.FeedRequest, meter *units.Meter) (*Page, error) {
	page, err := c.ReadFeed(ctx, request)
	switch {
	case err != nil:
		meter.Add(units.Pages, cosmos.ChargeOf(err))
	case page.NotModified:
		meter.Add(units.Polls, page.Charge)
	default:
		meter.Add(units.Pages, page.Charge)
	}
	return page, err
}

// ResolveStart returns the continuation with which a new lease on the range begins.
// It is "" for the beginning, for a time, which only the first read resolves, and for a snapshot.
func (s *Source) ResolveStart(ctx context.Context, start Start, target Target) (string, error) {
	switch start.Kind {
	case StartContinuation:
		return start.Continuation, nil
	case StartBeginning, StartTime, StartSnapshot:
		return "", nil
	}
	page, err := readFeed(ctx, s.Container, cosmos.FeedRequest{
		Mode: s.Mode, Range: target.Physical, Min: target.Min, Max: target.Max, Start: cosmos.StartNow, MaxItems: 1,
	}, s.Meter)
	if err != nil {
		return "", err
	}
	defer page.Release()
	return page.Continuation, nil
}

// PositionAt returns the position before the first change of a range, not merged, that was
// written after a time, as precise as a [StartTime]. It fails if that position has no name.
func (s *Source) PositionAt(ctx context.Context, t time.Time, target Target) (string, error) {
	since := *s
	since.Start, since.Shared = Start{Kind: StartTime, Time: t}, nil
	page, err := since.ReadPage(ctx, target, "", nil)
	if err != nil {
		return "", err
	}
	defer page.Release()
	position := PositionBefore(page, false)
	if position == "" {
		return "", errors.New("the LSNs of the range do not name positions")
	}
	return position, nil
}
