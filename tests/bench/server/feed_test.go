package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// read returns the documents of one page, the etag and the status.
func read(t *testing.T, f *fixedFeed, etag, items string) (documents []struct {
	ID  string
	LSN int `json:"_lsn"`
}, next string, status int) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/dbs/bench/colls/items/docs", nil)
	request.Header.Set("X-Ms-Max-Item-Count", items)
	if etag != "" {
		request.Header.Set("If-None-Match", etag)
	}
	recorder := httptest.NewRecorder()
	f.ServeHTTP(recorder, request)
	next, status = recorder.Header().Get("Etag"), recorder.Code
	if status == http.StatusNotModified {
		return nil, next, status
	}
	var page struct {
		Documents []struct {
			ID  string
			LSN int `json:"_lsn"`
		}
		Count int `json:"_count"`
	}
	if err := json.Unmarshal(recorder.Body.Bytes(), &page); err != nil || page.Count != len(page.Documents) {
		t.Fatalf("%d documents, _count %d: %v in %s", len(page.Documents), page.Count, err, recorder.Body)
	}
	return page.Documents, next, status
}

// Pages of every size are parts of one buffer: each document must arrive once, in
// order, as valid JSON.
func TestFixedFeedHasEachDocumentOnce(t *testing.T) {
	const changes = 1234
	f := newFixedFeed(changes)
	if len(f.documents) != changes*documentSize {
		t.Fatalf("%d bytes for %d documents", len(f.documents), changes)
	}
	for _, items := range []string{"1", "100", "1000"} {
		lsn, etag := firstLSN, ""
		for {
			documents, next, status := read(t, f, etag, items)
			if status == http.StatusNotModified {
				break
			}
			for _, document := range documents {
				if lsn++; document.LSN != lsn {
					t.Fatalf("document %q has the LSN %d instead of %d", document.ID, document.LSN, lsn)
				}
			}
			etag = next
		}
		if lsn != firstLSN+changes {
			t.Errorf("%s per page: the feed ends at %d", items, lsn)
		}
	}
	if _, _, status := read(t, f, "*", "100"); status != http.StatusNotModified {
		t.Errorf("a read from now has the status %d", status)
	}
}

func TestRequestsAreCountedByKind(t *testing.T) {
	for _, test := range []struct {
		method, path string
		header       map[string]string
		want         requestKind
	}{
		{"GET", "/dbs/bench/colls/items/docs", map[string]string{"A-Im": "Incremental Feed"}, feedRead},
		{"GET", "/dbs/bench/colls/items/pkranges", map[string]string{"A-Im": "Incremental Feed"}, other},
		{"PUT", "/dbs/bench/colls/leases/docs/a", nil, leaseWrite},
		{"GET", "/dbs/bench/colls/leases/docs/a", nil, leaseRead},
		{"POST", "/dbs/bench/colls/leases/docs", map[string]string{"Content-Type": "application/query+json"}, leaseRead},
		{"POST", "/dbs/bench/colls/leases/docs", nil, leaseWrite},
		{"POST", "/dbs/bench/colls/items/docs", nil, itemWrite},
	} {
		request := httptest.NewRequest(test.method, test.path, nil)
		for name, value := range test.header {
			request.Header.Set(name, value)
		}
		if got := kindOf(request); got != test.want {
			t.Errorf("%s %s is %q, want %q", test.method, test.path, got, test.want)
		}
	}
}
