package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// session is the state of a run that its facts share. The facts run one after the other,
// on documents of one partition key, whose range is known.
type session struct {
	options Options
	client  *cosmos.Client
	meter   *Meter
	scratch *scratch

	run    string // id of the run: ids of its documents and its partition key begin with it
	items  *cosmos.Container
	leases *cosmos.Container
	key    string // property of the monitored partition key
	ranges []cosmos.Range
	home   cosmos.Range // of the run's partition key

	properties cosmos.ContainerProperties // of the monitored container
	readOnly   bool                       // the key may not write
	serial     int                        // of documents
	first      written                    // the first document
	newest     written                    // the last one that was created
	shared     trio
	marked     markedDocument
	versions   versionsSeen
	lease      leaseState
	ends       *endToEnd
}

// probeTime bounds the wait of a probe for something that takes a moment.
const probeTime = 10 * time.Second

func (s *session) pk() cosmos.PartitionKey { return cosmos.NewPartitionKey(s.run) }

// doc makes a document of the run's partition key.
func (s *session) doc() map[string]any {
	s.serial++
	return s.named(fmt.Sprintf("%s-%d", s.run, s.serial), s.run)
}

func (s *session) named(id, key string) map[string]any {
	doc := map[string]any{"id": id, s.key: key}
	if !s.options.Create && s.properties.DefaultTTL != nil { // else they are deleted
		doc["ttl"] = int(leftoverLife / time.Second)
	}
	return doc
}

// leftoverLife is after how long documents expire that a cut network leaves behind.
const leftoverLife = time.Hour

// create stores a new document.
func (s *session) create(ctx context.Context) (written, error) {
	return s.createDoc(ctx, s.doc())
}

func (s *session) createDoc(ctx context.Context, doc map[string]any) (written, error) {
	resp, err := s.items.Create(ctx, s.pk(), doc)
	w := s.writtenAs(doc["id"].(string), resp)
	if err == nil {
		s.newest = w
	}
	return w, err
}

// creates stores n new documents.
func (s *session) creates(ctx context.Context, n int) ([]written, error) {
	docs := make([]written, 0, n)
	for range n {
		w, err := s.create(ctx)
		if err != nil {
			return nil, err
		}
		docs = append(docs, w)
	}
	return docs, nil
}

func (s *session) writtenAs(id string, resp cosmos.Response) written {
	return written{id: id, lsn: s.meter.last().number("Lsn"), etag: string(resp.ETag), resp: resp}
}

// item is a change that the feed reported about a document of this run.
type item struct {
	id        string
	lsn       int64
	operation cosmos.Operation
	document  []byte
	key       string // of a delete
}

// page is one answer of the feed: the changes of this run, and how many others it had.
type page struct {
	items       []item
	others      int
	etag        string
	notModified bool
	newest      int64 // LSN of the range
	committed   int64 // LSN that all regions have
}

// reading is a read of the feed of the run's range.
type reading struct {
	mode     cosmos.Mode
	from     string // position; "" is start
	start    cosmos.Start
	maxItems int
}

// read reads one page.
func (s *session) read(ctx context.Context, r reading) (page, error) {
	p, err := s.items.ReadFeed(ctx, cosmos.FeedRequest{Mode: r.mode, Range: s.home, Continuation: r.from, Start: r.start, MaxItems: r.maxItems})
	if err != nil {
		return page{}, err
	}
	defer p.Release()
	result := page{etag: p.Continuation, notModified: p.NotModified, newest: p.LSN, committed: p.CommittedLSN}
	for _, change := range p.Items {
		one := item{lsn: change.LSN, operation: change.Operation, document: append([]byte(nil), change.Document...), key: string(change.PartitionKey)}
		if change.Document == nil {
			one.id = change.ID
		} else if err := json.Unmarshal(cosmos.Property(change.Document, "id"), &one.id); err != nil {
			return page{}, differs("the feed served a document without an id")
		}
		if !strings.HasPrefix(one.id, s.run) {
			result.others++
			continue
		}
		result.items = append(result.items, one)
	}
	return result, nil
}

// now returns the position at the end of the feed.
func (s *session) now(ctx context.Context, mode cosmos.Mode) (string, error) {
	p, err := s.read(ctx, reading{mode: mode, start: cosmos.StartNow})
	return p.etag, err
}

// rest reads to the end of the feed. It returns the pages that had changes.
func (s *session) rest(ctx context.Context, r reading) (pages []page, items []item, err error) {
	for range 50 {
		p, err := s.read(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		if p.notModified {
			return pages, items, nil
		}
		pages, items = append(pages, p), append(items, p.items...)
		r.from = p.etag
	}
	return nil, nil, differs("the feed did not end after 50 pages")
}

// wantItems returns a difference unless the feed has served exactly these documents, in
// this order and with the LSNs of their writes.
func wantItems(items []item, wanted ...written) error {
	if got, want := ids(items), writtenIDs(wanted); got != want {
		return differs("served %s, written %s", got, want)
	}
	return nil
}

// ids lists the numbers of documents, without the run's id.
func ids(items []item) string {
	var list []string
	for _, i := range items {
		list = append(list, number(i.id))
	}
	return orNone(list)
}

func writtenIDs(docs []written) string {
	var list []string
	for _, d := range docs {
		list = append(list, number(d.id))
	}
	return orNone(list)
}

func number(id string) string { return id[strings.LastIndex(id, "-")+1:] }

func orNone(list []string) string {
	if len(list) == 0 {
		return "no document"
	}
	return "documents " + strings.Join(list, ", ")
}

// position is the continuation that names an LSN.
func position(lsn int64) string { return fmt.Sprintf("%q", fmt.Sprint(lsn)) }

// etagLSN returns the LSN of a feed etag, and a difference if it is not a quoted number.
func etagLSN(etag string) (int64, error) {
	lsn, ok := cosmos.ContinuationLSN(etag)
	if !ok || position(lsn) != etag {
		return 0, differs("the etag is %s", etag)
	}
	return lsn, nil
}

// wait waits, or ends with ctx.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
