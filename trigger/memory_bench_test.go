//go:build unix

package trigger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// endlessAccount is an embedded account whose feeds have as many changes as a test
// wants: each page has as many documents as the request asks for, cut from one text that
// all pages share. It needs no memory of its own for them.
type endlessAccount struct {
	policy.Transporter
	document []byte
	changes  int // in each range
}

func (a *endlessAccount) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, "/docs") || req.Header.Get("A-IM") == "" {
		return a.Transporter.Do(req)
	}
	position, _ := strconv.Atoi(strings.Trim(req.Header.Get("If-None-Match"), `"`))
	items, _ := strconv.Atoi(req.Header.Get("x-ms-max-item-count"))
	items = min(items, a.changes-position)
	lsn := strconv.Itoa(position + items)
	parts := []io.Reader{strings.NewReader(`{"_rid":"GWMAAN8ZQ5E=","Documents":[`)}
	length := int64(len(`{"_rid":"GWMAAN8ZQ5E=","Documents":[` + `]}`))
	for i := range items {
		head := fmt.Sprintf(`{"_lsn":%d,`, position+i+1)
		if i > 0 {
			head = "," + head
		}
		parts = append(parts, strings.NewReader(head), bytes.NewReader(a.document))
		length += int64(len(head) + len(a.document))
	}
	parts = append(parts, strings.NewReader(`]}`))
	status := http.StatusOK
	if items == 0 {
		status, length, parts = http.StatusNotModified, 0, nil
	}
	return &http.Response{
		StatusCode: status, ContentLength: length, Body: io.NopCloser(io.MultiReader(parts...)), Request: req,
		Header: http.Header{"Etag": {`"` + lsn + `"`}, "Lsn": {lsn}, "Date": {time.Now().UTC().Format(http.TimeFormat)}},
	}, nil
}

// newEndlessAccount makes an account with documents of one size.
func newEndlessAccount(b *testing.B, ranges, documentBytes, changes int) (items, leases *cosmos.Container) {
	b.Helper()
	embedded, err := emulator.New(nil)
	if err == nil {
		err = embedded.CreateContainer("db", "items", "/player", ranges)
	}
	if err == nil {
		err = embedded.CreateContainer("db", "leases", "/id", 1)
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { embedded.Close() })
	account := &endlessAccount{embedded, fmt.Appendf(nil, `"id":"a","player":"p","_ts":1700000000,"text":"%s"}`, strings.Repeat("x", documentBytes)), changes}
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := cosmos.NewClient(embedded.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		b.Fatal(err)
	}
	return client.Container("db", "items"), client.Container("db", "leases")
}

// BenchmarkMemory measures the memory of a host with 256 busy ranges, pages of 1 MB and
// slow handlers: the heap that was live at a garbage collection, without what was live
// before, and the resident memory of the process, both at their peak.
func BenchmarkMemory(b *testing.B) {
	const ranges, budget = 256, 64 << 20
	for _, reuse := range []bool{false, true} {
		b.Run(fmt.Sprintf("ReuseBuffers=%v", reuse), func(b *testing.B) {
			items, leases := newEndlessAccount(b, ranges, 10<<10, math.MaxInt)
			debug.FreeOSMemory()
			base := liveBytes()
			var mu sync.Mutex
			calls := map[string]int{}
			all := make(chan struct{})
			var once sync.Once
			f := Function{
				FeedSource: FeedSource{Name: "slow", Container: items, StartFrom: FromBeginning()}, ReuseBuffers: reuse,
				Handler: func(ctx context.Context, batch Batch) error {
					select {
					case <-time.After(250 * time.Millisecond):
					case <-ctx.Done():
						return ctx.Err()
					}
					mu.Lock()
					defer mu.Unlock()
					if calls[batch.Range.ID]++; calls[batch.Range.ID] >= 4*b.N {
						calls["ranges that are done"]++
					}
					if calls["ranges that are done"] >= 4*ranges {
						once.Do(func() { close(all) })
					}
					return nil
				},
			}
			h, err := New(leases, []Function{f}, &Options{Logger: slog.New(slog.DiscardHandler), ReadAhead: budget})
			if err != nil {
				b.Fatal(err)
			}
			ctx, stop := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- h.Run(ctx) }()
			sample := time.NewTicker(20 * time.Millisecond)
			defer sample.Stop()
			var live, resident, used float64
			for done := false; !done; {
				select {
				case <-sample.C:
				case <-all:
					done = true
				}
				live, resident = max(live, liveBytes()-base), max(resident, residentMiB(b))
				used = max(used, float64(h.host.pageBudget.UsedBytes()))
			}
			stop()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(live/budget, "live-x-budget")
			b.ReportMetric(used/budget, "reserved-x-budget")
			b.ReportMetric(resident, "MiB-resident")
		})
	}
}

// BenchmarkDrainMemory measures the resident memory of a process that drains 64 ranges
// with pages of 1 MB and slow handlers, under a memory limit of 100 MiB, at its peak.
func BenchmarkDrainMemory(b *testing.B) {
	const ranges, changes = 64, 500
	items, leases := newEndlessAccount(b, ranges, 10<<10, changes)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	debug.FreeOSMemory()
	var resident float64
	for i := range b.N {
		f := Function{FeedSource: FeedSource{Name: fmt.Sprint("drain", i), Container: items, StartFrom: FromBeginning()}, Handler: func(ctx context.Context, _ Batch) error {
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
			}
			return ctx.Err()
		}}
		h, err := New(leases, []Function{f}, &Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			b.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			s, err := h.Drain(b.Context())
			if s.Changes != ranges*changes {
				err = fmt.Errorf("%d changes, %w", s.Changes, err)
			}
			ended <- err
		}()
		sample := time.NewTicker(5 * time.Millisecond)
		for done := false; !done; {
			select {
			case <-sample.C:
				resident = max(resident, residentMiB(b))
			case err := <-ended:
				if done = true; err != nil {
					b.Fatal(err)
				}
			}
		}
		sample.Stop()
	}
	b.ReportMetric(resident, "MiB-resident")
}

// liveBytes returns the bytes that were live at the last garbage collection.
func liveBytes() float64 {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	return float64(live[0].Value.Uint64())
}
