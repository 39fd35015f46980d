package delivery

import (
	"context"
	"fmt"

	"halley/trigger/internal/backoff"
	"halley/trigger/internal/feed"
)

// laneShared is what the lanes of a range share. Its parts have locks of their own.
type laneShared struct {
	config      Config
	calls       Calls
	deadLetters *Store // nil if the function has none
	progress    *progress
	retries     *retryRecords
	blockedKeys *blockedKeys
	breaker     *breaker
}

// takePage takes in a page and numbers its changes.
func (c *laneShared) takePage(page *feed.Page) []Item {
	items := c.progress.addPage(page)
	if c.config.Lanes > 1 || c.config.BlockKeys {
		for i := range items {
			items[i].Key = feed.PartitionKey(items[i].Item, c.config.KeyPaths)
		}
	}
	c.retries.matchPage(items)
	c.finishItems(nil) // a page without changes is finished at once
	return items
}

// finishItems counts changes as handled or dead-lettered.
func (c *laneShared) finishItems(items []*Item) {
	c.retries.forgetItems(items)
	for _, page := range c.progress.finishItems(items) {
		if len(page.Items) > 0 {
			c.calls.MadeProgress()
		}
		c.calls.ReleasePage(page)
	}
}

// abandonPages gives back the pages that are not finished, when the worker ends.
func (c *laneShared) abandonPages() {
	for _, page := range c.progress.abandonPages() {
		c.calls.ReleasePage(page)
	}
}

// untilStored repeats a request to the dead letter store until it succeeds.
// While it fails the lane waits, and says why.
func (c *laneShared) untilStored(ctx context.Context, lane int, request func() error) error {
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
		c.calls.ReportProblem(lane, fmt.Errorf("dead letter store fails, so the range waits: %w", err))
		if err := backoff.Sleep(ctx, backoff.Wait(failures, c.config.RetryMin, c.config.RetryMax, c.config.JitterKey...)); err != nil {
			return err
		}
	}
}
