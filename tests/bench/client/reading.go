package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// function returns a function with a name of its own, so that each process begins
// with new leases.
func (s settings) function(items *cosmos.Container, handle trigger.Handler) trigger.Function {
	return trigger.Function{
		FeedSource: trigger.FeedSource{
			Name:      fmt.Sprintf("bench-%s-%d", s.Mode, os.Getpid()),
			Container: items,
			StartFrom: trigger.FromBeginning(),
		},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: s.Page, PageItems: s.Page, Lanes: s.Lanes}, ReuseBuffers: s.Reuse, RateLimits: trigger.RateLimits{FeedPollDelay: s.Poll}, Handler: handle,
	}
}

// readFeed reads and splits all pages, one range after the other.
func readFeed(ctx context.Context, s settings) (figures, error) {
	items, _, err := s.containers()
	if err != nil {
		return nil, err
	}
	ranges, err := items.Ranges(ctx) // opens the connection
	if err != nil {
		return nil, err
	}
	m, read := startMeter(), 0
	for _, r := range ranges {
		for request := (cosmos.FeedRequest{Range: r, MaxItems: s.Page}); ; {
			page, err := items.ReadFeed(ctx, request)
			if err != nil {
				return nil, err
			}
			read += len(page.Items)
			request.Continuation = page.Continuation
			done := page.NotModified
			page.Release()
			if done {
				break
			}
		}
	}
	return m.stop(read), nil
}

// handlerTimes are the begin of the first call of a handler and the end of the last.
type handlerTimes struct{ first, last atomic.Int64 }

func (t *handlerTimes) around(call func()) {
	t.first.CompareAndSwap(0, time.Now().UnixNano())
	call()
	t.last.Store(time.Now().UnixNano())
}

func (t *handlerTimes) seconds() float64 {
	return time.Duration(t.last.Load() - t.first.Load()).Seconds()
}

// drainFeed drains all ranges with the whole runtime: leases, lanes, batches,
// checkpoints.
func drainFeed(ctx context.Context, s settings) (figures, error) {
	return s.drain(ctx, func(context.Context, trigger.Batch) error {
		time.Sleep(s.Handler)
		return nil
	})
}

// drain drains all ranges with a handler that does not fail.
func (s settings) drain(ctx context.Context, handle trigger.Handler) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	if _, err := items.Ranges(ctx); err != nil { // opens the connection
		return nil, err
	}
	var times handlerTimes
	var handled atomic.Int64
	m := startMeter()
	functions := make([]trigger.Function, s.Functions)
	for i := range functions {
		functions[i] = s.function(items, func(ctx context.Context, b trigger.Batch) (err error) {
			times.around(func() { err = handle(ctx, b) })
			handled.Add(int64(len(b.Changes)))
			return err
		})
		functions[i].Name += fmt.Sprintf("-%d", i)
	}
	host, err := trigger.New(leases, functions, nil)
	if err != nil {
		return nil, err
	}
	summary, err := host.Drain(ctx)
	if err == nil && summary.Problem != "" {
		err = errors.New(summary.Problem)
	}
	if err != nil {
		return nil, err
	}
	if wanted := s.Changes * s.Functions; wanted > 0 && int(handled.Load()) != wanted {
		return nil, fmt.Errorf("%d of %d changes were handled: %+v", handled.Load(), wanted, summary)
	}
	found := m.stop(int(handled.Load()))
	found["handlerSeconds"] = times.seconds()
	return found, nil
}

// leaseID is the id of the document in place of a lease.
const leaseID = "bench.localhost_AAAAAA==_AAAAAAAAAAA=..0"

// leaseBody returns a document like a lease, at a position.
func leaseBody(position any) map[string]any {
	return map[string]any{
		"id": leaseID, "version": 0, "LeaseToken": "0", "FeedRange": map[string]any{"Range": map[string]any{"min": "", "max": "FF"}},
		"Owner": "bench-AAAAAAAA", "ContinuationToken": position, "Mode": "Incremental Feed", "timestamp": "2026-01-01T00:00:00.0000000Z",
		"properties": map[string]string{"halley.epoch": "1", "halley.incarnation": "bench-AAAAAAAA/AAAAAAAAAAAAA"},
	}
}

// newLease puts the document of leaseBody into the container, and returns its etag.
func newLease(ctx context.Context, leases *cosmos.Container) (azcore.ETag, error) {
	written, err := leases.Upsert(ctx, cosmos.NewPartitionKey(leaseID), leaseBody(""))
	return written.ETag, err
}

// checkpoint replaces the document under an etag.
func checkpoint(ctx context.Context, leases *cosmos.Container, position any, etag azcore.ETag) (azcore.ETag, error) {
	written, err := leases.Replace(ctx, leaseID, cosmos.NewPartitionKey(leaseID), leaseBody(position), etag)
	return written.ETag, err
}

// replaceLease replaces a document like a lease again and again.
func replaceLease(ctx context.Context, s settings) (figures, error) {
	_, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	etag, err := newLease(ctx, leases)
	if err != nil {
		return nil, err
	}
	m := startMeter()
	for i := range s.Changes {
		if etag, err = checkpoint(ctx, leases, i, etag); err != nil {
			return nil, err
		}
	}
	return m.stop(s.Changes), nil
}

// eachPage reads the feed of the first range to its end, and calls do after each page.
func eachPage(ctx context.Context, items *cosmos.Container, size int, do func(page *cosmos.Page) error) error {
	ranges, err := items.Ranges(ctx)
	if err != nil {
		return err
	}
	for request := (cosmos.FeedRequest{Range: ranges[0], MaxItems: size}); ; {
		page, err := items.ReadFeed(ctx, request)
		if err != nil || page.NotModified {
			return err
		}
		request.Continuation = page.Continuation
		err = do(page)
		page.Release()
		if err != nil {
			return err
		}
	}
}

// inTurn reads a page, handles it, writes the checkpoint and begins again, as simple
// processors do. It also measures how long the handler calls alone take.
func inTurn(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	etag, err := newLease(ctx, leases)
	if err != nil {
		return nil, err
	}
	pages, began := 0, time.Now()
	err = eachPage(ctx, items, s.Page, func(page *cosmos.Page) error {
		pages++
		time.Sleep(s.Handler)
		etag, err = checkpoint(ctx, leases, page.Continuation, etag)
		return err
	})
	took := time.Since(began)
	began = time.Now()
	for range pages {
		time.Sleep(s.Handler)
	}
	return figures{"handlerSeconds": took.Seconds(), "aloneSeconds": time.Since(began).Seconds(), "pages": float64(pages)}, err
}

// officialPattern has the requests of the .NET change feed processor: after each page
// it writes the checkpoint with the etag of its last read, although the write before
// has changed it, and gets 412; it reads the lease and writes again. See Azure/
// azure-cosmos-dotnet-v3, DocumentServiceLeaseUpdaterCosmos.
func officialPattern(ctx context.Context, s settings) (figures, error) {
	items, leases, err := s.containers()
	if err != nil {
		return nil, err
	}
	stale, err := newLease(ctx, leases)
	if err == nil {
		_, err = checkpoint(ctx, leases, "", stale)
	}
	if err != nil {
		return nil, err
	}
	changes := 0
	err = eachPage(ctx, items, s.Page, func(page *cosmos.Page) error {
		changes += len(page.Items)
		if _, err := checkpoint(ctx, leases, page.Continuation, stale); cosmos.Classify(err) != cosmos.OutcomeConflict {
			return fmt.Errorf("a stale etag was not refused: %w", err)
		}
		read, err := leases.Read(ctx, leaseID, cosmos.NewPartitionKey(leaseID))
		if err != nil {
			return err
		}
		stale = read.ETag
		_, err = checkpoint(ctx, leases, page.Continuation, stale)
		return err
	})
	return figures{"changes": float64(changes)}, err
}
