package feed

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// ErrCaughtUp ends a [Reader] that reads only until it has caught up.
var ErrCaughtUp = errors.New("caught up with the feed")

// errNotAdvancing is the error of a page that would be read forever.
var errNotAdvancing = errors.New("the feed answered with changes but the same continuation")

// maxReadFailures is the number of failed reads in a row after which a range is
// given up: another host may have the connection that this one lacks. The client
// has already retried within each.
const maxReadFailures = 5

// Reader reads the pages of one leased range in one goroutine, which its worker
// starts and waits for. All fields but First are required.
type Reader struct {
	Source        *Source
	LeaseToken    string // of the lease, for errors
	FirstPage     *Page  // read before the lease was acquired, or nil
	UntilCaughtUp bool   // end with ErrCaughtUp instead of polling
	PollDelay     time.Duration
	ReadTimeout   time.Duration // of one read, with the client's retries
	JitterKey     []any
	Budget        *Budget
	Reserved      *ReservedBytes

	// FirstPosition returns the continuation to read first. It is called again if it fails.
	FirstPosition func(ctx context.Context) (string, error)
	// Locate returns the range that holds the lease's changes now.
	Locate func(ctx context.Context) (Target, error)
	// Relocate is called after the service said that the range is gone. Its error
	// ends the reader.
	Relocate func(ctx context.Context) error
	// IsFinal reports whether an error of Begin or Locate ends the reader.
	IsFinal func(error) bool
	// UntilPoll is the wait of a range that has nothing new.
	UntilPoll func() time.Duration
	// ObservePage is told each page before it is sent on.
	ObservePage func(*Page)
	// ReportProblem is told each failure, with the number of failures in a row.
	ReportProblem func(err error, failures int)
}

// Run reads pages and sends them, until ctx ends, the feed keeps failing or it has
// caught up. It sends each page before it requests the next one.
func (r *Reader) Run(ctx context.Context, pages chan<- *Page) error {
	continuation, err := r.findStart(ctx)
	if err != nil {
		return err
	}
	if r.FirstPage != nil {
		continuation = r.FirstPage.Continuation
		if err := r.sendPage(ctx, pages, r.FirstPage); err != nil {
			return err
		}
	}
	for failures := 0; ; {
		page, err := r.readPage(ctx, continuation)
		if err != nil {
			failures++
			if err := r.afterFailure(ctx, err, failures); err != nil {
				return err
			}
			continue
		}
		failures = 0
		r.ObservePage(page)
		idle, moved := page.NotModified, page.Continuation != continuation
		continuation = page.Continuation
		if !idle || moved {
			if err := r.sendPage(ctx, pages, page); err != nil {
				return err
			}
		}
		if idle && r.UntilCaughtUp {
			return ErrCaughtUp
		}
		if idle {
			if err := backoff.Sleep(ctx, r.UntilPoll()); err != nil {
				return err
			}
		}
	}
}

func (r *Reader) findStart(ctx context.Context) (string, error) {
	for failures := 1; ; failures++ {
		continuation, err := r.FirstPosition(ctx)
		if err == nil {
			return continuation, nil
		}
		if err := r.afterFailure(ctx, err, failures); err != nil {
			return "", err
		}
	}
}

// readPage reads the page after the continuation.
func (r *Reader) readPage(ctx context.Context, continuation string) (*Page, error) {
	at, err := r.Locate(ctx)
	if err != nil {
		return nil, err
	}
	limited, cancel := context.WithTimeout(ctx, r.ReadTimeout)
	defer cancel()
	page, err := r.Source.ReadPage(limited, at, continuation)
	if err != nil {
		return nil, err
	}
	if !page.NotModified && page.Continuation == continuation {
		page.Release()
		return nil, errNotAdvancing
	}
	return page, nil
}

// sendPage passes a page on as soon as the budget has room for it.
func (r *Reader) sendPage(ctx context.Context, pages chan<- *Page, page *Page) error {
	if err := r.Budget.ReservePage(ctx, page, r.Reserved); err != nil {
		page.Release()
		return err
	}
	select {
	case pages <- page:
		return nil
	case <-ctx.Done():
		r.Budget.ReleasePage(page, r.Reserved)
		return context.Cause(ctx)
	}
}

// afterFailure waits until the read can be repeated, or returns the error that
// ends the reader.
func (r *Reader) afterFailure(ctx context.Context, err error, failures int) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if r.IsFinal(err) {
		return err
	}
	switch cosmos.Classify(err) {
	case cosmos.RangeGone:
		if err := r.Relocate(ctx); err != nil {
			return err
		}
		failures = min(failures, maxReadFailures-1) // a split takes its time
	case cosmos.ContainerGone, cosmos.NotFound, cosmos.Denied, cosmos.Invalid:
		return fmt.Errorf("read feed of range %q: %w", r.LeaseToken, err)
	}
	r.ReportProblem(err, failures)
	if failures >= maxReadFailures {
		return fmt.Errorf("read feed of range %q: %d failures in a row: %w", r.LeaseToken, failures, err)
	}
	return backoff.Sleep(ctx, backoff.Wait(failures, backoff.Min, r.PollDelay, r.JitterKey...))
}
