// Azcosmos is a client of a benchmark: the official Go SDK. It reads the change feed
// as the SDK's documentation shows, polls idle ranges, or replaces a document like a
// lease. Its settings and its result are those of the benchmark's own client.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func main() {
	modes := map[string]func(context.Context, *azcosmos.DatabaseClient) (map[string]float64, error){
		"read": readFeed, "idle": idleRanges, "checkpoint": replaceLease,
	}
	found, err := func() (map[string]float64, error) {
		mode, ok := modes[os.Getenv("BENCH_MODE")]
		if !ok {
			return nil, fmt.Errorf("BENCH_MODE is %q: choose read, idle or checkpoint", os.Getenv("BENCH_MODE"))
		}
		credential, err := azcosmos.NewKeyCredential(os.Getenv("BENCH_KEY"))
		if err != nil {
			return nil, err
		}
		client, err := azcosmos.NewClientWithKey(os.Getenv("BENCH_ENDPOINT"), credential, nil)
		if err != nil {
			return nil, err
		}
		database, err := client.NewDatabase("bench")
		if err != nil {
			return nil, err
		}
		return mode(context.Background(), database)
	}()
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(found)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func number(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		log.Fatalf("%s: %v", name, err)
	}
	return n
}

func processorSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// perChange returns the costs of each of so many changes since the start.
func perChange(changes int, cpu float64, before *runtime.MemStats) map[string]float64 {
	used, n := processorSeconds()-cpu, float64(changes)
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	return map[string]float64{
		"changes": n, "cpuPerMillion": used / n * 1e6,
		"allocations": float64(after.Mallocs-before.Mallocs) / n, "bytes": float64(after.TotalAlloc-before.TotalAlloc) / n,
	}
}

// readFeed reads pages until there is nothing new.
func readFeed(ctx context.Context, database *azcosmos.DatabaseClient) (map[string]float64, error) {
	container, err := database.NewContainer("items")
	if err != nil {
		return nil, err
	}
	ranges, err := container.ReadFeedRanges(ctx, nil) // opens the connection
	if err != nil {
		return nil, err
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, changes := processorSeconds(), 0
	for _, r := range ranges {
		options := &azcosmos.ChangeFeedOptions{FeedRange: &r, MaxItemCount: int32(number("BENCH_PAGE"))}
		for {
			page, err := container.ReadChangeFeed(ctx, options)
			if err != nil {
				return nil, err
			}
			if page.RawResponse.StatusCode == http.StatusNotModified {
				break
			}
			changes += len(page.Items)
			options.Continuation = &page.ContinuationToken
		}
	}
	return perChange(changes, cpu, &before), nil
}

// idleRanges polls ranges that have no changes: in each period all of them, one after
// the other.
func idleRanges(ctx context.Context, database *azcosmos.DatabaseClient) (map[string]float64, error) {
	container, err := database.NewContainer("items")
	if err != nil {
		return nil, err
	}
	ranges, err := container.ReadFeedRanges(ctx, nil)
	if err != nil {
		return nil, err
	}
	poll, err := time.ParseDuration(os.Getenv("BENCH_POLL"))
	if err != nil {
		return nil, fmt.Errorf("BENCH_POLL: %w", err)
	}
	now, options := time.Now(), make([]*azcosmos.ChangeFeedOptions, len(ranges))
	for i := range ranges {
		options[i] = &azcosmos.ChangeFeedOptions{FeedRange: &ranges[i], StartFrom: &now}
	}
	periods := time.NewTicker(poll)
	defer periods.Stop()
	var shares []float64
	for period := range number("BENCH_WINDOWS") + 1 {
		began, cpu := time.Now(), processorSeconds()
		for _, o := range options {
			page, err := container.ReadChangeFeed(ctx, o)
			if err != nil {
				return nil, err
			}
			o.Continuation = &page.ContinuationToken
		}
		<-periods.C
		if period > 0 { // the first one opens the connection
			shares = append(shares, 100*(processorSeconds()-cpu)/time.Since(began).Seconds())
		}
	}
	slices.Sort(shares)
	return map[string]float64{"cpuPercent": shares[len(shares)/2], "rssMiB": residentMiB()}, nil
}

// residentMiB is the memory of this process, on Linux.
func residentMiB() float64 {
	status, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(status))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseFloat(fields[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20)
}

// replaceLease replaces a document like a lease again and again.
func replaceLease(ctx context.Context, database *azcosmos.DatabaseClient) (map[string]float64, error) {
	container, err := database.NewContainer("leases")
	if err != nil {
		return nil, err
	}
	const id = "azcosmos.localhost_AAAAAA==_AAAAAAAAAAA=..0"
	key := azcosmos.NewPartitionKeyString(id)
	body := func(position int) ([]byte, error) {
		return json.Marshal(map[string]any{
			"id": id, "version": 0, "LeaseToken": "0", "FeedRange": map[string]any{"Range": map[string]any{"min": "", "max": "FF"}},
			"Owner": "bench-AAAAAAAA", "ContinuationToken": strconv.Itoa(position), "Mode": "Incremental Feed", "timestamp": "2026-01-01T00:00:00.0000000Z",
			"properties": map[string]string{"halley.epoch": "1", "halley.incarnation": "bench-AAAAAAAA/AAAAAAAAAAAAA"},
		})
	}
	var etag azcore.ETag
	document, err := body(0)
	if err == nil {
		var written azcosmos.ItemResponse
		written, err = container.UpsertItem(ctx, key, document, nil)
		etag = written.ETag
	}
	if err != nil {
		return nil, err
	}
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, writes := processorSeconds(), number("BENCH_CHANGES")
	for i := range writes {
		if document, err = body(i); err != nil {
			return nil, err
		}
		written, err := container.ReplaceItem(ctx, key, id, document, &azcosmos.ItemOptions{IfMatchEtag: &etag})
		if err != nil {
			return nil, err
		}
		etag = written.ETag
	}
	return perChange(writes, cpu, &before), nil
}
