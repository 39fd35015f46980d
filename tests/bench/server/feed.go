package main

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// documentSize is the size of a document in the prebuilt feed, with its comma.
const documentSize = 1024

// firstLSN is below the LSN of every document of the prebuilt feed: all LSNs have the
// same number of digits, and so all documents the same size.
const firstLSN = 1_000_000_000

// fixedFeed is a feed of documents that are built once. Documents of equal size stand
// one after the other, so that each page, of whatever number of documents, is a part
// of one buffer. All ranges have the same documents.
type fixedFeed struct{ documents []byte }

func newFixedFeed(changes int) *fixedFeed {
	f := &fixedFeed{make([]byte, 0, changes*documentSize)}
	for i := range changes {
		f.documents = appendDocument(f.documents, i)
	}
	return f
}

// appendDocument appends document i, an order of six lines, and a comma.
func appendDocument(b []byte, i int) []byte {
	end := len(b) + documentSize
	b = fmt.Appendf(b, `{"id":"order-%d","pk":"customer-%d","total":%d.25,"paid":%t,"placed":"2026-11-22T09:30:00Z","lines":[`, i, i%1000, i%900, i%2 == 0)
	for line := range 6 {
		b = fmt.Appendf(b, `{"sku":"A-%d%d","name":"part %d","count":%d,"price":%d.5},`, i%97, line, line, line+1, i%50)
	}
	b = append(b[:len(b)-1], `],"ship":{"name":"Ada Lovelace","street":"12 Long \"Row\"","city":"Zürich","x":47.37,"y":8.54},"note":"`...)
	system := fmt.Sprintf(`","_rid":"Sl8fALN4sw4CAAAAAAAAAA==","_self":"dbs/Sl8fAA==/colls/Sl8fALN4sw4=/docs/Sl8fALN4sw4CAAAAAAAAAA==/",`+
		`"_etag":"\"ec0e06fe-0000-0700-0000-5e4d9f6c0000\"","_attachments":"attachments/","_ts":%d,"_lsn":%d},`, 1_750_000_000+i/100, firstLSN+i+1)
	b = append(b, strings.Repeat("a line of text. ", documentSize/16)[:end-len(b)-len(system)]...)
	return append(b, system...)
}

func (f *fixedFeed) count() int { return len(f.documents) / documentSize }

// ServeHTTP answers a read of the feed of any range.
func (f *fixedFeed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, err := f.position(r.Header.Get("If-None-Match"))
	if err != nil {
		http.Error(w, `{"code":"BadRequest","message":"invalid continuation"}`, http.StatusBadRequest)
		return
	}
	items, err := strconv.Atoi(r.Header.Get("X-Ms-Max-Item-Count"))
	if err != nil || items < 1 {
		items = 100
	}
	to := min(from+items, f.count())
	lsn := strconv.Itoa(firstLSN + to)
	h := w.Header()
	h.Set("Etag", `"`+lsn+`"`)
	h.Set("Lsn", lsn)
	h.Set("X-Ms-Session-Token", r.Header.Get("X-Ms-Documentdb-Partitionkeyrangeid")+":-1#"+strconv.Itoa(firstLSN+f.count()))
	h.Set("X-Ms-Item-Count", strconv.Itoa(to-from))
	h[chargeHeader] = []string{"1"}
	h.Set("X-Ms-Activity-Id", "11111111-2222-3333-4444-555555555555")
	if from == to {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	head, tail := `{"_rid":"Sl8fALN4sw4=","Documents":[`, `],"_count":`+strconv.Itoa(to-from)+`}`
	documents := bytes.TrimSuffix(f.documents[from*documentSize:to*documentSize], []byte(","))
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(head)+len(documents)+len(tail)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(head)) // a client that has gone does not want the rest
	_, _ = w.Write(documents)
	_, _ = w.Write([]byte(tail))
}

// position returns the number of documents before a continuation.
func (f *fixedFeed) position(etag string) (int, error) {
	switch etag {
	case "":
		return 0, nil
	case "*":
		return f.count(), nil
	}
	lsn, err := strconv.Atoi(strings.Trim(etag, `"`))
	if err != nil || lsn < firstLSN || lsn > firstLSN+f.count() {
		return 0, fmt.Errorf("no document has the continuation %s", etag)
	}
	return lsn - firstLSN, nil
}
