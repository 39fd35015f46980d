package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"halley/trigger"
	"halley/trigger/cosmos"
)

const database = "keda"

// ruPerRange is the throughput for which a new container has one range.
const ruPerRange = 10000

// feed is a container, and the leases of Halley when it reads the container.
type feed struct {
	endpoint, connection string
	items, leases        *cosmos.Container
	written              int
}

func newFeed(ctx context.Context, endpoint, key string, ranges int) (*feed, error) {
	credential, err := cosmos.KeyCredential(key)
	if err != nil {
		return nil, err
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		return nil, err
	}
	of := func(name, path string, ranges int) cosmos.ContainerDefinition {
		return cosmos.ContainerDefinition{ID: name, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{path}}, Throughput: ranges * ruPerRange}
	}
	err = errors.Join(
		client.CreateDatabase(ctx, database),
		client.CreateContainer(ctx, database, of("items", "/key", ranges)),
		client.CreateContainer(ctx, database, of("leases", "/id", 1)))
	return &feed{
		endpoint:   endpoint,
		connection: "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";",
		items:      client.Container(database, "items"),
		leases:     client.Container(database, "leases"),
	}, err
}

// write creates items, each with a key of its own.
func (f *feed) write(ctx context.Context, count int) error {
	for range count {
		id := fmt.Sprint("item-", f.written)
		if _, err := f.items.Create(ctx, cosmos.NewPartitionKey(id), map[string]string{"id": id, "key": id}); err != nil {
			return err
		}
		f.written++
	}
	return nil
}

// rewrite writes the first items again and deletes every third of them. If an item
// is deleted, the feed no longer shows its writes.
func (f *feed) rewrite(ctx context.Context, count int) error {
	for i := range count {
		id := fmt.Sprint("item-", i)
		if _, err := f.items.Upsert(ctx, cosmos.NewPartitionKey(id), map[string]any{"id": id, "key": id, "again": true}); err != nil {
			return err
		}
		if i%3 != 0 {
			continue
		}
		if _, err := f.items.Delete(ctx, id, cosmos.NewPartitionKey(id), ""); err != nil {
			return err
		}
	}
	return nil
}

// drain lets Halley read one range after the other. It ends when all ranges are
// caught up, or when the handler has accepted the given number of batches of 5
// items.
func (f *feed) drain(ctx context.Context, batches int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var accepted atomic.Int64
	enough := errors.New("enough")
	host, err := trigger.New(f.leases, []trigger.Function{{
		FeedSource: trigger.FeedSource{
			Name:      processor,
			Container: f.items,
			StartFrom: trigger.FromBeginning(),
		},
		BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 5, PageItems: 5},
		Handler: func(context.Context, trigger.Batch) error {
			if accepted.Add(1) > batches {
				cancel()
				return enough
			}
			return nil
		},
	}}, &trigger.Options{Parallel: 1})
	if err != nil {
		return err
	}
	_, err = host.Drain(ctx)
	if ctx.Err() != nil && accepted.Load() > batches {
		return nil
	}
	return err
}

func (f *feed) split(ctx context.Context, id string) error {
	return f.reshape(ctx, "split", map[string]any{"range": id})
}

func (f *feed) merge(ctx context.Context, ids ...string) error {
	return f.reshape(ctx, "merge", map[string]any{"ranges": ids})
}

// reshape makes the account split or merge ranges of the container.
func (f *feed) reshape(ctx context.Context, how string, body map[string]any) error {
	body["database"], body["container"] = database, f.items.Name()
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(f.endpoint, "/")+"/_emulator/"+how, bytes.NewReader(text))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, err = io.ReadAll(resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %v: %s: %s", how, body, resp.Status, text)
	}
	return nil
}
