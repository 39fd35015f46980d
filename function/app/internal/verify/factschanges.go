package verify

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"halley/trigger/cosmos"
)

func probeRewritten(ctx context.Context, s *session) (string, error) {
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	resp, err := s.items.Replace(ctx, s.first.id, s.pk(), s.named(s.first.id, s.run), "")
	if err != nil {
		return "", err
	}
	rewritten := s.writtenAs(s.first.id, resp)
	_, items, err := s.rest(ctx, reading{from: position(s.first.lsn - 1)})
	if err != nil {
		return "", err
	}
	var lsns []int64
	for _, one := range items {
		if one.id == s.first.id {
			lsns = append(lsns, one.lsn)
		}
	}
	if len(lsns) != 1 || lsns[0] != rewritten.lsn {
		return "", differs("served at %v, the last write has LSN %d", lsns, rewritten.lsn)
	}
	_, items, err = s.rest(ctx, reading{from: start})
	if err == nil {
		err = wantItems(items, rewritten)
	}
	return "once, at its last write", err
}

func probeTransaction(ctx context.Context, s *session) (string, error) {
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	var t cosmos.Transaction
	var wanted []written
	for range 2 {
		doc := s.doc()
		t.Create(doc)
		wanted = append(wanted, written{id: doc["id"].(string)})
	}
	if _, err := s.items.Commit(ctx, s.pk(), &t); err != nil {
		return "", err
	}
	pages, items, err := s.rest(ctx, reading{from: start, maxItems: 1})
	if err == nil {
		err = wantItems(items, wanted...)
	}
	if err != nil {
		return "", err
	}
	for _, p := range pages { // those of other writers may be between
		if n := len(p.items); n != 0 && n != len(items) {
			return "", differs("a page with %d of %d changes of one transaction", n, len(items))
		}
	}
	for _, one := range items {
		if one.lsn != items[0].lsn {
			return "", differs("LSNs %d and %d in one transaction", items[0].lsn, one.lsn)
		}
	}
	return "one page, one LSN", nil
}

func probeModifiedSince(ctx context.Context, s *session) (string, error) {
	if err := wait(ctx, 2*time.Second); err != nil {
		return "", err
	}
	late, err := s.create(ctx)
	if err != nil {
		return "", err
	}
	date := late.resp.Date
	if date.IsZero() {
		return "", differs("the answer to a write has no Date")
	}
	_, items, err := s.rest(ctx, reading{start: cosmos.StartAt(date)})
	if err != nil {
		return "", err
	}
	var sawLate, sawEarly bool
	for _, one := range items {
		sawLate = sawLate || one.id == late.id
		sawEarly = sawEarly || one.id != late.id
	}
	switch {
	case !sawLate:
		return "", differs("a change of that second was left out")
	case sawEarly:
		return "also changes of some seconds before", nil
	}
	return "the changes since that second", nil
}

func probeNeighbours(ctx context.Context, s *session) (string, error) {
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	startLSN, err := etagLSN(start)
	if err != nil {
		return "", err
	}
	neighbour := s.run + "-neighbour"
	if _, err := s.leases.Create(ctx, cosmos.NewPartitionKey(neighbour), map[string]any{"id": neighbour, "partitionKey": neighbour}); err != nil {
		return "", err
	}
	neighbourLSN := s.meter.last().number("Lsn")
	quiet, err := s.read(ctx, reading{from: start})
	if err == nil {
		err = wantItems(quiet.items)
	}
	if err != nil {
		return "", err
	}
	next, err := s.create(ctx)
	if err != nil {
		return "", err
	}
	if next.lsn <= startLSN {
		return "", differs("LSN %d after %d", next.lsn, startLSN)
	}
	_, items, err := s.rest(ctx, reading{from: quiet.etag})
	if err == nil {
		err = wantItems(items, next)
	}
	if err == nil {
		_, err = s.leases.Delete(ctx, neighbour, cosmos.NewPartitionKey(neighbour), "")
	}
	if err != nil {
		return "", err
	}
	if next.lsn == startLSN+1 || neighbourLSN <= startLSN || neighbourLSN >= next.lsn {
		return "each container has LSNs of its own", nil
	}
	if lsn, _ := etagLSN(quiet.etag); lsn >= neighbourLSN {
		return "one sequence of LSNs, and the etag of a 304 passes the neighbour's", nil
	}
	return "one sequence of LSNs, and the etag of a 304 does not pass the neighbour's", nil
}

// markedDoc returns the document. The first fact that needs it writes it.
func (s *session) markedDoc(ctx context.Context) (markedDocument, error) {
	if s.marked.id != "" {
		return s.marked, nil
	}
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return markedDocument{}, err
	}
	doc := s.doc()
	doc["deleted"], doc["ttl"] = true, int(markedLife/time.Second)
	w, err := s.createDoc(ctx, doc)
	if err == nil {
		s.marked = markedDocument{w, start}
	}
	return s.marked, err
}

// markedLife is the time to live of a marked document.
const markedLife = 5 * time.Second

func probeSoftDelete(ctx context.Context, s *session) (string, error) {
	doc, err := s.markedDoc(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{from: doc.start})
	if err == nil {
		err = wantItems(items, doc.written)
	}
	if err == nil && string(cosmos.Property(items[0].document, "deleted")) != "true" {
		err = differs("the document was served without its mark")
	}
	return "served", err
}

func probeExpired(ctx context.Context, s *session) (string, error) {
	expired, err := s.markedDoc(ctx)
	if err != nil {
		return "", err
	}
	if err := wait(ctx, markedLife+2*time.Second); err != nil {
		return "", err
	}
	if _, err := s.items.Read(ctx, expired.id, s.pk()); err == nil {
		return "", differs("read 2 s after its time to live")
	} else if !cosmos.IsDocumentNotFound(err) {
		return "", wantStatus("the read of an expired document", err)
	}
	next, err := s.create(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{from: expired.start})
	if err == nil {
		err = wantItems(items, next)
	}
	return "gone from reads and from the feed", err
}

// probeBulk sends operations that are not atomic, as the bulk mode of the SDKs does, and
// reads them one by one.
func probeBulk(ctx context.Context, s *session) (string, error) {
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	key, err := json.Marshal([]string{s.run})
	if err != nil {
		return "", err
	}
	type operation struct {
		Type string         `json:"operationType"`
		Key  string         `json:"partitionKey"`
		Body map[string]any `json:"resourceBody"`
	}
	var operations []operation
	var wanted []written
	for range 2 {
		doc := s.doc()
		operations = append(operations, operation{"Create", string(key), doc})
		wanted = append(wanted, written{id: doc["id"].(string)})
	}
	body, err := json.Marshal(operations)
	if err != nil {
		return "", err
	}
	bulk := with(ctx, http.MethodPost, map[string]string{
		"X-Ms-Documentdb-Partitionkey": "", "X-Ms-Documentdb-Partitionkeyrangeid": s.home.ID,
		"X-Ms-Cosmos-Is-Batch-Request": "True", "X-Ms-Cosmos-Batch-Atomic": "False", "X-Ms-Cosmos-Batch-Continue-On-Error": "True",
	}, body)
	if _, err := s.items.Create(bulk, s.pk(), operations[0].Body); err != nil {
		return "", err
	}
	pages, items, err := s.rest(ctx, reading{from: start, maxItems: 1})
	if err == nil {
		err = wantSame(items, wanted)
	}
	if err != nil {
		return "", err
	}
	for i := 1; i < len(items); i++ {
		if items[i].lsn < items[i-1].lsn {
			return "", differs("LSN %d after %d", items[i].lsn, items[i-1].lsn)
		}
	}
	for i := 1; i < len(pages); i++ {
		oldItems, newItems := pages[i-1].items, pages[i].items
		if len(oldItems) > 0 && len(newItems) > 0 && oldItems[len(oldItems)-1].lsn == newItems[0].lsn {
			return "", differs("a page ends between two changes with LSN %d", newItems[0].lsn)
		}
	}
	if items[0].lsn == items[len(items)-1].lsn {
		return "one LSN for all operations", nil
	}
	return "operations have LSNs of their own", nil
}

// wantSame returns a difference unless the feed has served these documents, in any order.
func wantSame(items []item, wanted []written) error {
	missing := map[string]bool{}
	for _, w := range wanted {
		missing[w.id] = true
	}
	for _, i := range items {
		if !missing[i.id] {
			return differs("served %s, written %s", ids(items), writtenIDs(wanted))
		}
		delete(missing, i.id)
	}
	if len(missing) > 0 {
		return differs("served %s, written %s", ids(items), writtenIDs(wanted))
	}
	return nil
}
