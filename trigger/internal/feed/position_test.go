package feed

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// Pages whose continuation says something else than their LSNs name no position inside.
func TestPositionsNeedLSNsThatAgree(t *testing.T) {
	for _, test := range []struct {
		start, continuation string
		lsns                []int64
		want                bool
	}{
		{"", `"3"`, []int64{1, 2, 3}, true},
		{`"4"`, `"7"`, []int64{5, 7}, true},
		{`"4"`, `"6"`, []int64{5, 5, 6}, true},
		{`"4"`, `"5"`, []int64{5}, true},
		{`"4"`, `"90"`, []int64{5, 7}, true}, // ahead
		{`"4"`, `"90"`, nil, true},
		{`"4"`, `"6"`, []int64{5, 7}, false},  // behind
		{`"4"`, `"90"`, []int64{7, 5}, false}, // falling
		{`"4"`, `"90"`, []int64{5, 7, 6, 8}, false},
		{`"4"`, `"90"`, []int64{0, 0}, false}, // missing
		{`"4"`, `"90"`, []int64{5, 0}, false},
		{"", `"90"`, []int64{0}, false},
		{`"4"`, `"90"`, []int64{4, 5}, false}, // of another sequence
		{`"80"`, `"90"`, []int64{5, 7}, false},
		{`"4"`, `"00000000-0000-0000-b857-fd9e73fb01d9"`, []int64{5, 7}, false},
	} {
		page := &Page{Continuation: test.continuation}
		for _, lsn := range test.lsns {
			page.Items = append(page.Items, Item{LSN: lsn})
		}
		if got := NamesPositions(page, test.start); got != test.want {
			t.Errorf("page %v up to %s after %q: %v, want %v", test.lsns, test.continuation, test.start, got, test.want)
		}
	}
}

// Whatever the account does with etags, and whichever items were deleted, written again or
// written in one transaction: a read after each inner position of a page brings the changes
// behind it, and all that a read after the page brings.
func TestInnerPositionsLeaveNothingOut(t *testing.T) {
	for seed := range uint64(40) {
		d := rand.New(rand.NewPCG(seed, 1))
		flip := func() bool { return d.IntN(2) == 0 }
		manners := emulator.Manners{CutBelowNext: flip(), FullAsCut: flip(), IdleKeepsETag: flip(), OwnLSNs: flip(), EmptyPages: flip()}
		served, err := emulator.New(&emulator.Options{Manners: manners, BulkSeed: seed + 1})
		must(t, err)
		a := &account{Account: served, t: t}
		admin := a.client(served)
		must(t, admin.CreateDatabase(t.Context(), "db"))
		must(t, admin.CreateContainer(t.Context(), "db", cosmos.ContainerDefinition{
			ID: "items", PartitionKey: cosmos.PartitionKeyDefinition{Paths: []string{"/id"}}, Throughput: 400,
		}))
		a.container = admin.Container("db", "items")
		ranges, err := a.container.Ranges(t.Context())
		must(t, err)
		a.target = Target{Physical: ranges[0], Min: ranges[0].Min, Max: ranges[0].Max}
		for range 40 {
			id := fmt.Sprint("d", d.IntN(25))
			switch d.IntN(4) {
			case 0:
				_, err := a.container.Delete(t.Context(), id, cosmos.NewPartitionKey(id), "")
				if err != nil && !cosmos.IsDocumentNotFound(err) {
					t.Fatal(err)
				}
			case 1:
				a.writeBulk(d.IntN(4) + 2)
			default:
				a.write(a.container, id)
			}
		}
		a.judgePositions(d.IntN(7)+1, fmt.Sprintf("seed %d, %+v", seed, manners))
		served.Close()
	}
}

// judgePositions reads the feed in pages of so many items, and after each inner position.
func (a *account) judgePositions(items int, name string) {
	a.t.Helper()
	all := a.readAll("", items)
	position, read := "", 0
	for {
		page := a.readFrom(position, items)
		if page.NotModified {
			break
		}
		if !NamesPositions(page, position) {
			a.t.Fatalf("%s: page up to %s after %q names no positions", name, page.Continuation, position)
		}
		for i := range page.Items[:max(len(page.Items)-1, 0)] {
			if page.Items[i].LSN == page.Items[i+1].LSN {
				continue
			}
			if got, want := a.readAll(QuotedLSN(page.Items[i].LSN), items), all[read+i+1:]; strings.Join(got, " ") != strings.Join(want, " ") {
				a.t.Errorf("%s: after %d: %v\nwant %v", name, page.Items[i].LSN, got, want)
			}
		}
		read += len(page.Items)
		position = page.Continuation
		page.Release()
	}
	if read != len(all) {
		a.t.Errorf("%s: %d changes, want %d", name, read, len(all))
	}
}

// readFrom reads one page.
func (a *account) readFrom(position string, items int) *Page {
	a.t.Helper()
	page, err := (&Source{Container: a.container, Start: Start{Kind: StartBeginning}, MaxItems: items}).ReadPage(a.t.Context(), a.target, position, nil)
	must(a.t, err)
	return page
}

// readAll reads all changes after a position.
func (a *account) readAll(position string, items int) (documents []string) {
	a.t.Helper()
	for {
		page := a.readFrom(position, items)
		for _, item := range page.Items {
			documents = append(documents, string(item.Document))
		}
		if position = page.Continuation; page.NotModified {
			return documents
		}
		page.Release()
	}
}

// writeBulk writes some documents with one request, whose operations have one LSN or several.
func (a *account) writeBulk(n int) {
	a.t.Helper()
	var operations []string
	for i := range n {
		operations = append(operations, fmt.Sprintf(`{"operationType":"Upsert","id":"b%[1]d","partitionKey":"[\"b%[1]d\"]","resourceBody":{"id":"b%[1]d"}}`, i))
	}
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodPost, a.Endpoint()+"dbs/db/colls/items/docs", strings.NewReader("["+strings.Join(operations, ",")+"]"))
	must(a.t, err)
	r.Header.Set("Authorization", emulatorToken())
	r.Header.Set("X-Ms-Cosmos-Is-Batch-Request", "true")
	r.Header.Set("X-Ms-Cosmos-Batch-Atomic", "false")
	r.Header.Set("X-Ms-Documentdb-Partitionkeyrangeid", "0")
	answer, err := a.Account.Do(r)
	must(a.t, err)
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		a.t.Fatalf("bulk: %s", answer.Status)
	}
}

// emulatorToken is an Entra ID token that the account accepts: its signature is the key.
func emulatorToken() string {
	part := base64.RawURLEncoding.EncodeToString
	return url.QueryEscape("type=aad&ver=1.0&sig=" + part([]byte(`{"alg":"RS256"}`)) + "." + part([]byte(`{}`)) + "." + part([]byte(emulator.Key)))
}

// A function whose lease asks for small pages does not get the page of another one.
func TestSmallPagesAreNotShared(t *testing.T) {
	withAccount(t, func(t *testing.T, a *account) {
		a.write(a.writer, "a", "b", "c")
		readers, shared := a.readers(NewBudget(1<<20), 2, true)
		readers[0].expect("", "a", "b")
		readers[1].source = readers[1].source.WithPages(1)
		readers[1].expect("", "a")
		a.expectReads(2)
		for _, items := range []int{0, 2, 3} {
			if source := readers[0].source; source.WithPages(items) != source {
				t.Errorf("pages of %d differ from those of %d", items, source.MaxItems)
			}
		}
		a.closeAll(shared, readers...)
	})
}
