package trigger

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// BenchmarkFilter measures the cost of filtering all changes, with three patterns on
// documents of 1 KB, as a multiple of the floor: of reading the same pages in the same
// run and splitting them into documents. "https" reads as from the service, on the
// loopback interface; "memory" reads without any network, which no application can. Both
// read recorded answers of an account, so that the floor holds nothing of its work.
func BenchmarkFilter(b *testing.B) {
	const changes = 1000
	passes, err := Filter{
		`{"status": ["paid", "sent"], "total": [{"numeric": [">", 500]}]}`,
		`{"address": {"country": [{"anything-but": ["US", "CA"]}]}}`,
		`{"tags": ["urgent", "gift"], "customer": [{"prefix": "customer-"}]}`,
	}.compile()
	if err != nil {
		b.Fatal(err)
	}
	answers := recordAnswers(b, changes)
	server := httptest.NewTLSServer(answers)
	b.Cleanup(server.Close)
	for name, transport := range map[string]policy.Transporter{"https": server.Client(), "memory": answers} {
		b.Run(name, func(b *testing.B) {
			items := benchClient(b, server.URL, transport).Container("db", "items")
			readPages(b, items, changes, func(*cosmos.Item) {}) // opens connections
			var floor, filtered time.Duration
			b.ReportAllocs()
			for b.Loop() {
				floor += readPages(b, items, changes, func(*cosmos.Item) {})
				filtered += readPages(b, items, changes, func(item *cosmos.Item) {
					if passes(item.Document, item.Previous) {
						b.Fatalf("%s passes", item.Document)
					}
				})
			}
			b.ReportMetric(float64((filtered-floor).Nanoseconds())/float64(b.N*changes), "ns/change")
			b.ReportMetric(float64(filtered)/float64(floor), "x-floor")
		})
	}
}

// readPages reads all pages of the only range, and returns how long that took.
func readPages(b *testing.B, items *cosmos.Container, changes int, each func(*cosmos.Item)) time.Duration {
	ranges, err := items.Ranges(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	began, read := time.Now(), 0
	for continuation := ""; read < changes; {
		page, err := items.ReadFeed(b.Context(), cosmos.FeedRequest{Range: ranges[0], Continuation: continuation, MaxItems: 100})
		if err != nil {
			b.Fatal(err)
		}
		for i := range page.Items {
			each(&page.Items[i])
		}
		read += len(page.Items)
		continuation = page.Continuation
		page.Release()
	}
	return time.Since(began)
}

// recordedAnswers are the answers of an account to the reads of its feed. It records an
// answer when it is first asked for.
type recordedAnswers struct {
	account  *emulator.Account
	byStart  map[string]*http.Response // by the continuation in the request
	contents map[string][]byte
}

// Do implements [policy.Transporter].
func (a *recordedAnswers) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("A-IM") == "" || !strings.HasSuffix(r.URL.Path, "/docs") {
		return a.account.Do(r)
	}
	start := r.Header.Get("If-None-Match")
	if a.byStart[start] == nil {
		answer, err := a.account.Do(r)
		if err != nil {
			return nil, err
		}
		defer answer.Body.Close()
		if a.contents[start], err = io.ReadAll(answer.Body); err != nil {
			return nil, err
		}
		answer.ContentLength = int64(len(a.contents[start]))
		a.byStart[start] = answer
	}
	answer := *a.byStart[start]
	answer.Body = io.NopCloser(bytes.NewReader(a.contents[start]))
	return &answer, nil
}

// ServeHTTP serves the answers.
func (a *recordedAnswers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := a.Do(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(answer.ContentLength))
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// recordAnswers makes an account with documents of 1 KB, and records its feed.
func recordAnswers(b *testing.B, changes int) *recordedAnswers {
	account, err := emulator.New(nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { account.Close() })
	answers := &recordedAnswers{account, map[string]*http.Response{}, map[string][]byte{}}
	client := benchClient(b, account.Endpoint(), answers)
	if err := client.CreateDatabase(b.Context(), "db"); err != nil {
		b.Fatal(err)
	}
	definition := cosmos.ContainerDefinition{ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/customer"}}}
	if err := client.CreateContainer(b.Context(), "db", definition); err != nil {
		b.Fatal(err)
	}
	items := client.Container("db", "items")
	for i := range changes {
		customer := fmt.Sprint("customer-", i%100)
		if _, err := items.Upsert(b.Context(), cosmos.NewPartitionKey(customer), benchOrder(i, customer)); err != nil {
			b.Fatal(err)
		}
	}
	bytes := 0
	readPages(b, items, changes, func(item *cosmos.Item) { bytes += len(item.Document) })
	if size := bytes / changes; size < 1000 || size > 1100 {
		b.Fatalf("documents have %d bytes", size)
	}
	return answers
}

// benchOrder returns a document of 1 KB, with the properties that the service adds.
func benchOrder(i int, customer string) map[string]any {
	line := func(sku string, count int) map[string]any {
		return map[string]any{"sku": sku, "count": count, "price": 12.5, "text": "a thing that is sold"}
	}
	return map[string]any{
		"id": fmt.Sprint("order-", i), "customer": customer, "status": "open", "total": 100 + i%300, "currency": "EUR",
		"created": "2026-03-01T12:00:00Z", "paid": false, "tags": []string{"web", "returning"},
		"lines":   []any{line("pen-1", 3), line("ink-7", 12), line("pad-3", 1)},
		"address": map[string]any{"street": "1 Long Street", "city": "Springfield", "zip": "12345", "country": "US"},
		"note":    strings.Repeat("Please ring twice. ", 17),
	}
}

func benchClient(b *testing.B, endpoint string, transport policy.Transporter) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		b.Fatal(err)
	}
	client, err := cosmos.NewClient(endpoint, cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	if err != nil {
		b.Fatal(err)
	}
	return client
}
