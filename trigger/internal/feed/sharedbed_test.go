package feed

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// account is an embedded account with a container of one range, whose feed reads are
// counted. It is the transport of the readers' client.
type account struct {
	*emulator.Account
	t         *testing.T
	container *cosmos.Container
	writer    *cosmos.Container // of another client
	target    Target

	mu     sync.Mutex
	reads  int
	answer func(*http.Request) (*http.Response, error) // of feed reads, in place of the account; or nil
}

// withAccount runs a test in a bubble.
func withAccount(t *testing.T, test func(t *testing.T, a *account)) {
	synctest.Test(t, func(t *testing.T) {
		served, err := emulator.New(nil)
		must(t, err)
		defer served.Close()
		a := &account{Account: served, t: t}
		admin := a.client(served)
		must(t, admin.CreateDatabase(t.Context(), "db"))
		must(t, admin.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}, Throughput: 400,
		}))
		a.writer, a.container = admin.Container("db", "items"), a.client(a).Container("db", "items")
		ranges, err := a.container.Ranges(t.Context())
		must(t, err)
		a.target = Target{Physical: ranges[0], Min: ranges[0].Min, Max: ranges[0].Max}
		test(t, a)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (a *account) client(transport interface {
	Do(*http.Request) (*http.Response, error)
}) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	must(a.t, err)
	client, err := cosmos.NewClient(a.Endpoint(), cred, &cosmos.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: transport}})
	must(a.t, err)
	return client
}

func (a *account) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("A-IM") == "" || !strings.HasSuffix(r.URL.Path, "/docs") {
		return a.Account.Do(r)
	}
	a.mu.Lock()
	a.reads++
	answer := a.answer
	a.mu.Unlock()
	if answer != nil {
		return answer(r)
	}
	return a.Account.Do(r)
}

// setAnswer sets the answer of later feed reads; nil is the account's.
func (a *account) setAnswer(answer func(*http.Request) (*http.Response, error)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = answer
}

// expectReads fails the test unless so many feed reads were sent since the last call.
func (a *account) expectReads(want int) {
	a.t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.reads != want {
		a.t.Errorf("%d feed reads, want %d", a.reads, want)
	}
	a.reads = 0
}

func (a *account) write(container *cosmos.Container, ids ...string) {
	a.t.Helper()
	for _, id := range ids {
		_, err := container.Upsert(a.t.Context(), cosmos.NewPartitionKey(id), map[string]string{"id": id})
		must(a.t, err)
	}
}

// functionReader is the range of one function.
type functionReader struct {
	account  *account
	source   *Source
	budget   *Budget
	reserved *ReservedBytes
	pages    []*Page
}

// readers returns the ranges of some functions that share their reads.
func (a *account) readers(b *Budget, functions int, draining bool) (readers []*functionReader, shared *SharedReads) {
	shared = NewSharedReads(b, functions, draining)
	for range functions {
		readers = append(readers, &functionReader{
			account: a, budget: b, reserved: b.Join(),
			source: &Source{Container: a.container, Start: Start{Kind: StartBeginning}, MaxItems: 2, Shared: shared, MaxAge: 5 * time.Second},
		})
	}
	return readers, shared
}

// read reads the page after a continuation and keeps it.
func (f *functionReader) read(ctx context.Context, continuation string) (*Page, *Reading, error) {
	reading, err := f.budget.ReserveRead(ctx, f.reserved, f.source.MaxItems)
	must(f.account.t, err)
	page, err := f.source.ReadPage(ctx, f.account.target, continuation, reading)
	if err != nil {
		reading.Cancel()
		return nil, reading, err
	}
	reading.Keep(page)
	f.pages = append(f.pages, page)
	return page, reading, nil
}

// expect reads a page, which is not changed or has the documents.
func (f *functionReader) expect(continuation string, ids ...string) *Page {
	t := f.account.t
	t.Helper()
	page, _, err := f.read(t.Context(), continuation)
	must(t, err)
	if len(page.Items) != len(ids) || page.NotModified != (len(ids) == 0) {
		t.Fatalf("page of %d changes, want %v", len(page.Items), ids)
	}
	for i, id := range ids {
		if !bytes.Contains(page.Items[i].Document, []byte(`"`+id+`"`)) {
			t.Errorf("document %s, want %s", page.Items[i].Document, id)
		}
	}
	return page
}

// close releases all pages.
func (f *functionReader) close() {
	for _, page := range f.pages {
		f.budget.ReleasePage(page, f.reserved)
	}
	f.budget.Leave(f.reserved)
}

// closeAll ends the readers, and fails the test if bytes stay reserved.
func (a *account) closeAll(shared *SharedReads, readers ...*functionReader) {
	a.t.Helper()
	for _, f := range readers {
		f.close()
	}
	shared.Close()
	if used := shared.budget.UsedBytes(); used != 0 || len(shared.readers) != 0 || len(shared.answers) != 0 {
		a.t.Errorf("%d bytes, %d ranges and %d answers are left", used, len(shared.readers), len(shared.answers))
	}
}

// reader returns a reader whose reads may take a time, and whose problems fail the test.
func (f *functionReader) reader(timeout time.Duration) *Reader {
	return &Reader{
		Source: f.source, LeaseToken: "0", ReadTimeout: timeout, PollMin: time.Hour, PollDelay: time.Hour, Budget: f.budget, Reserved: f.reserved,
		FirstPosition: func(context.Context) (string, error) { return "", nil }, SnapshotEnd: func() string { return "" },
		Locate:         func(context.Context) (Target, error) { return f.account.target, nil },
		IsFinal:        func(error) bool { return false },
		Verify:         func(context.Context, *Page, string) error { return nil },
		VerifyPosition: func(context.Context, string) error { return nil },
		PayRead:        func(context.Context) (func(float64), error) { return func(float64) {}, nil },
		UntilPoll:      func() time.Duration { return time.Hour },
		ObservePage:    func(*Page) {},
		PageSent:       func() {},
		ReportProblem:  func(err error, failures int) { f.account.t.Errorf("%d failures: %v", failures, err) },
	}
}
