package trigger

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// BenchmarkDrain measures the cost of leases, lanes, batches and checkpoints: the
// time to drain a function, from the creation of its leases to their release, as a
// multiple of the floor. The floor is the time to read the same pages of the same
// account in the same run without using them.
func BenchmarkDrain(b *testing.B) {
	const changes = 20_000
	for _, ranges := range []int{1, 8} {
		items, leases := benchAccount(b, ranges, changes)
		for _, lanes := range []int{1, 8} {
			b.Run(fmt.Sprintf("%d ranges, %d lanes", ranges, lanes), func(b *testing.B) {
				var floor, drained time.Duration
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					began := time.Now()
					readAll(b, items, changes)
					floor += time.Since(began)
					b.StartTimer()

					began = time.Now()
					var handled atomic.Int64
					h, err := New(leases, []Function{{
						FeedSource: FeedSource{Name: fmt.Sprintf("bench-%d-%d", lanes, i), Container: items, StartFrom: FromBeginning()}, BatchPolicy: BatchPolicy{Lanes: lanes},
						Handler: func(_ context.Context, batch Batch) error {
							handled.Add(int64(len(batch.Changes)))
							return nil
						},
					}}, nil)
					if err != nil {
						b.Fatal(err)
					}
					if _, err := h.Drain(b.Context()); err != nil || handled.Load() != changes {
						b.Fatalf("%d changes handled: %v", handled.Load(), err)
					}
					drained += time.Since(began)
				}
				b.ReportMetric(float64(drained.Nanoseconds())/float64(b.N*changes), "ns/change")
				b.ReportMetric(float64(drained)/float64(floor), "x-floor")
			})
		}
	}
}

// benchAccount makes an account with changes in a container of some ranges.
func benchAccount(b *testing.B, ranges, changes int) (items, leases *cosmos.Container) {
	account, err := emulator.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { account.Close() })
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := cosmos.NewClient(account.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		b.Fatal(err)
	}
	ctx := b.Context()
	if err := client.CreateDatabase(ctx, "db"); err != nil {
		b.Fatal(err)
	}
	for id, path := range map[string]string{"items": "/player", "leases": "/id"} {
		definition := cosmos.ContainerDefinition{ID: id, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{path}}, Throughput: ranges * 10_000}
		if err := client.CreateContainer(ctx, "db", definition); err != nil {
			b.Fatal(err)
		}
	}
	items = client.Container("db", "items")
	for i := range changes {
		id := fmt.Sprint("item", i)
		doc := map[string]any{"id": id, "player": id, "score": i, "text": strings.Repeat("x", 300)}
		if _, err := items.Upsert(ctx, cosmos.NewPartitionKey(id), doc); err != nil {
			b.Fatal(err)
		}
	}
	return items, client.Container("db", "leases")
}

// readAll is the floor: it reads the ranges page by page.
func readAll(b *testing.B, items *cosmos.Container, want int) {
	ranges, err := items.Ranges(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	read := 0
	for _, r := range ranges {
		for continuation := ""; ; {
			page, err := items.ReadFeed(b.Context(), cosmos.FeedRequest{Range: r, Continuation: continuation, MaxItems: 100})
			if err != nil {
				b.Fatal(err)
			}
			read += len(page.Items)
			continuation = page.Continuation
			done := page.NotModified
			page.Release()
			if done {
				break
			}
		}
	}
	if read != want {
		b.Fatalf("%d changes read, want %d", read, want)
	}
}
