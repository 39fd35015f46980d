package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// versionsPage is the page size of both readers of all versions.
const versionsPage = 10

// allVersions compares the versions that a host delivers with those that a plain reader gets
// from the same positions, after the same writes. Whether the feed itself has all versions
// is not the question.
func allVersions(ctx context.Context, a *account) (string, error) {
	items, err := a.container(ctx, cosmos.ContainerDefinition{ID: "versions", PartitionKey: keyed("/key"), Throughput: throughput, Retention: 10 * time.Minute})
	if err != nil {
		return "", err
	}
	var mu sync.Mutex // guards delivered
	var delivered []string
	f := trigger.Function{
		FeedSource:  trigger.FeedSource{Name: items.Name(), Container: items, ChangeFeedMode: cosmos.ModeAllVersions},
		BatchPolicy: trigger.BatchPolicy{PageItems: versionsPage},
		Handler: func(_ context.Context, b trigger.Batch) error {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range b.Changes {
				delivered = append(delivered, versionName(c.Operation, c.Document, c.ID()))
			}
			return nil
		},
	}
	if err := a.drain(ctx, f); err != nil { // its leases begin now
		return "", err
	}
	starts, err := positionsNow(ctx, items)
	if err != nil {
		return "", err
	}
	const writes = 200
	if err := newLedger(items).write(ctx, writes); err != nil {
		return "", err
	}
	read, err := readVersions(ctx, items, starts)
	if err := errors.Join(err, a.drain(ctx, f)); err != nil {
		return "", err
	}
	slices.Sort(read)
	slices.Sort(delivered)
	if !slices.Equal(read, delivered) || len(read) == 0 {
		return "", fmt.Errorf("the host delivered %d versions, the reader got %d", len(delivered), len(read))
	}
	return fmt.Sprintf("both get %d of %d", len(read), writes), nil
}

// versionName names a version, or a delete.
func versionName(operation cosmos.Operation, document json.RawMessage, id string) string {
	return fmt.Sprint(operation, " ", id, " ", string(cosmos.Property(document, "sequence")))
}

// position is a place in the feed of a range.
type position struct {
	in    cosmos.Range
	token string
}

func positionsNow(ctx context.Context, items *cosmos.Container) ([]position, error) {
	ranges, err := items.Ranges(ctx)
	if err != nil {
		return nil, err
	}
	positions := make([]position, 0, len(ranges))
	for _, r := range ranges {
		page, err := items.ReadFeed(ctx, cosmos.FeedRequest{Mode: cosmos.ModeAllVersions, Range: r, Start: cosmos.StartNow})
		if err != nil {
			return nil, err
		}
		positions = append(positions, position{r, page.Continuation})
	}
	return positions, nil
}

// readVersions reads the feed after the positions to its end.
func readVersions(ctx context.Context, items *cosmos.Container, positions []position) (read []string, err error) {
	for _, p := range positions {
		for {
			page, err := items.ReadFeed(ctx, cosmos.FeedRequest{Mode: cosmos.ModeAllVersions, Range: p.in, Continuation: p.token, MaxItems: versionsPage})
			if err != nil {
				return nil, err
			}
			if page.NotModified {
				break
			}
			for _, one := range page.Items {
				id := one.ID
				if one.Document != nil {
					id = documentID(one.Document)
				}
				read = append(read, versionName(one.Operation, one.Document, id))
			}
			p.token = page.Continuation
		}
	}
	return read, nil
}

func documentID(document json.RawMessage) (id string) {
	_ = json.Unmarshal(cosmos.Property(document, "id"), &id)
	return id
}
