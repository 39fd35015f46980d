package trigger

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// pagedAccount is an account whose feed consists of fixed pages: they are made once,
// so that a benchmark measures the client and the runtime. Everything else, such as
// leases, is the embedded account's.
type pagedAccount struct {
	policy.Transporter
	pages   [][]byte // by the LSN before their first change, divided by perPage
	perPage int
}

// newPagedAccount makes an account with changes of about 1 KB in one range.
func newPagedAccount(b *testing.B, changes, perPage int) (account *pagedAccount, items, leases *cosmos.Container) {
	embedded, err := emulator.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { embedded.Close() })
	account = &pagedAccount{Transporter: embedded, perPage: perPage}
	for lsn := 1; lsn < changes; lsn += perPage {
		var page bytes.Buffer
		page.WriteString(`{"_rid":"GWMAAN8ZQ5E=","Documents":[`)
		for i := range perPage {
			if i > 0 {
				page.WriteByte(',')
			}
			fmt.Fprintf(&page, `{"id":"document-%d","player":"player-%d","score":%d,"tags":["a","b","c"],"address":{"city":"Zürich","zip":"8001","lines":["one","two"]},"text":"%s","_rid":"GWMAAN8ZQ5EBAAAAAAAAAA==","_self":"dbs/GWMAAA==/colls/GWMAAN8ZQ5E=/docs/GWMAAN8ZQ5EBAAAAAAAAAA==/","_etag":"\"00000000-0000-0000-8b3c-0a2b1c3d4e5f\"","_attachments":"attachments/","_ts":1700000000,"_lsn":%d}`,
				lsn+i, lsn+i, i, strings.Repeat("lorem ipsum ", 50), lsn+i)
		}
		fmt.Fprintf(&page, `],"_count":%d}`, perPage)
		account.pages = append(account.pages, page.Bytes())
	}
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := cosmos.NewClient(embedded.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: account}})
	if err != nil {
		b.Fatal(err)
	}
	if err := client.CreateDatabase(b.Context(), "db"); err != nil {
		b.Fatal(err)
	}
	for id, path := range map[string]string{"items": "/player", "leases": "/id"} {
		definition := cosmos.ContainerDefinition{ID: id, PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{path}}}
		if err := client.CreateContainer(b.Context(), "db", definition); err != nil {
			b.Fatal(err)
		}
	}
	return account, client.Container("db", "items"), client.Container("db", "leases")
}

// Do answers reads of the feed with pages, and with 304 after the last one.
func (a *pagedAccount) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || !strings.HasSuffix(req.URL.Path, "/docs") || req.Header.Get("A-IM") == "" {
		return a.Transporter.Do(req)
	}
	position, _ := strconv.Atoi(strings.Trim(req.Header.Get("If-None-Match"), `"`))
	page := position / a.perPage
	resp := &http.Response{StatusCode: http.StatusNotModified, Header: http.Header{}, Body: http.NoBody, Request: req}
	if page < len(a.pages) {
		position += a.perPage
		resp.StatusCode, resp.ContentLength, resp.Body = http.StatusOK, int64(len(a.pages[page])), io.NopCloser(bytes.NewReader(a.pages[page]))
	}
	lsn := strconv.Itoa(position)
	resp.Header = http.Header{
		"Etag": {`"` + lsn + `"`}, "Lsn": {lsn}, "X-Ms-Session-Token": {"0:-1#" + lsn}, "X-Ms-Request-Charge": {"2.5"},
		"Date": {time.Now().UTC().Format(http.TimeFormat)}, "X-Ms-Activity-Id": {"5d6ef1a0-0000-0000-0000-000000000000"}, "Content-Type": {"application/json"},
	}
	return resp, nil
}

// BenchmarkPages measures what the runtime adds to reading and splitting pages: CPU,
// allocations and allocated bytes of each change, without a network. "read" is the
// runtime's own client in a loop.
func BenchmarkPages(b *testing.B) {
	const changes = 20_000
	for _, perPage := range []int{100, 1000} {
		account, items, leases := newPagedAccount(b, changes, perPage)
		pageBytes := float64(len(account.pages[0])) / float64(perPage)
		b.Run(fmt.Sprintf("read/%d", perPage), func(b *testing.B) {
			measureChanges(b, changes, pageBytes, func() { readFixedPages(b, items, perPage, changes) })
		})
		for _, variant := range []struct {
			name string
			set  func(*Function)
		}{
			{"drain", func(*Function) {}},
			{"reuse", func(f *Function) { f.ReuseBuffers = true }},
			{"lanes=4", func(f *Function) { f.Lanes = 4 }},
			{"lanes=16", func(f *Function) { f.Lanes = 16 }},
		} {
			run := 0
			b.Run(fmt.Sprintf("%s/%d", variant.name, perPage), func(b *testing.B) {
				measureChanges(b, changes, pageBytes, func() {
					run++
					f := Function{
						FeedSource: FeedSource{
							Name:      fmt.Sprintf("%s-%d", strings.ReplaceAll(variant.name, "=", ""), run),
							Container: items,
							StartFrom: FromBeginning(),
						}, BatchPolicy: BatchPolicy{MaxItemsPerInvocation: perPage, PageItems: perPage},
					}
					variant.set(&f)
					drainPages(b, leases, f, changes)
				})
			})
		}
	}
}

// measureChanges runs a pass over all changes and reports its cost for each change.
func measureChanges(b *testing.B, changes int, pageBytes float64, pass func()) {
	pass() // pools and caches are filled
	b.ReportAllocs()
	start := processorTime()
	for b.Loop() {
		pass()
	}
	b.ReportMetric(float64(processorTime()-start)/float64(b.N*changes), "cpu-ns/change")
	b.ReportMetric(pageBytes, "page-B/change")
}

// processorTime is the time that this process has used on processors.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// readFixedPages reads and splits all pages.
func readFixedPages(b *testing.B, items *cosmos.Container, perPage, want int) {
	ranges, err := items.Ranges(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	read := 0
	for continuation, done := "", false; !done; {
		page, err := items.ReadFeed(b.Context(), cosmos.FeedRequest{Range: ranges[0], Continuation: continuation, MaxItems: perPage})
		if err != nil {
			b.Fatal(err)
		}
		read += len(page.Items)
		continuation, done = page.Continuation, page.NotModified
		page.Release()
	}
	if read != want {
		b.Fatalf("%d changes read, want %d", read, want)
	}
}

// drainPages drains a function that counts its changes.
func drainPages(b *testing.B, leases *cosmos.Container, f Function, want int) {
	var handled atomic.Int64
	f.Handler = func(_ context.Context, batch Batch) error {
		handled.Add(int64(len(batch.Changes)))
		return nil
	}
	h, err := New(leases, []Function{f}, nil)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := h.Drain(b.Context()); err != nil || handled.Load() != int64(want) {
		b.Fatalf("%d changes handled: %v", handled.Load(), err)
	}
}
