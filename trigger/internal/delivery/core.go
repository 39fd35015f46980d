package delivery

import (
	"context"
	"fmt"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
)

// core is what the lanes of a range share. Its parts have locks of their own.
type core struct {
	config   Config
	calls    Calls
	store    *Store // nil if the function has none
	progress *progress
	retries  *retries
	blocked  *blockedKeys
	breaker  *breaker
}

// open takes in a page and numbers its changes.
func (c *core) open(page *feed.Page) []Item {
	items := c.progress.open(page)
	if c.config.Lanes > 1 || c.config.BlockKeys {
		for i := range items {
			items[i].Key = feed.PartitionKey(items[i].Item, c.config.KeyPaths)
		}
	}
	c.retries.match(items)
	c.finish(nil) // a page without changes is finished at once
	return items
}

// finish counts changes as handled or dead-lettered.
func (c *core) finish(items []*Item) {
	c.retries.forget(items)
	for _, page := range c.progress.finish(items) {
		if len(page.Items) > 0 {
			c.calls.MadeProgress()
		}
		c.calls.Released(page)
	}
}

// abandon gives back the pages that are not finished, when the worker ends.
func (c *core) abandon() {
	for _, page := range c.progress.abandon() {
		c.calls.Released(page)
	}
}

// untilStored repeats a request to the dead letter store until it succeeds.
// While it fails the lane waits, and says why.
func (c *core) untilStored(ctx context.Context, lane int, request func() error) error {
	for failures := 1; ; failures++ {
		if err := c.calls.WaitTrusted(ctx); err != nil {
			return err
		}
		err := request()
		if err == nil {
			return nil
		}
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		c.calls.Problem(lane, fmt.Errorf("dead letter store fails, so the range waits: %w", err))
		if err := backoff.Sleep(ctx, backoff.Wait(failures, c.config.RetryMin, c.config.RetryMax, c.config.JitterKey...)); err != nil {
			return err
		}
	}
}
