package verify

import (
	"context"
	"net/http"

	"halley/trigger/cosmos"
)

// feedFacts are those of the feed of latest versions.
func feedFacts() []fact {
	const positions = "positions in leases"
	return []fact{
		{
			name: "feed: end", relies: "waiting at the end of a range", expected: `304 with an etag "LSN"`,
			meaning: "hosts cannot wait at the end of the feed", grave: true,
			cost: price{fixed: costRead}, probe: probeEnd,
		}, {
			name: "feed: etag of a 304", relies: "positions of idle ranges", expected: "the etag of the request, or a later one",
			meaning: "an idle range would go back and repeat changes", grave: true,
			cost: price{fixed: 2 * costRead}, probe: probeIdleEtag,
		}, {
			name: "feed: LSN of a change", relies: positions + ", lag", expected: "_lsn is the LSN of the write",
			meaning: "positions name other changes than those that were handled", grave: true, needs: needWrites,
			cost: price{fixed: trioCost + 3*costRead}, probe: probeLSN,
		}, {
			name: "feed: etag of the last page", relies: positions, expected: "the LSN of the last document, or a later one that is not above the range's",
			meaning: "reading on at the etag would lose or repeat changes", grave: true, needs: needWrites,
			cost: price{fixed: 4 * costRead}, probe: probeLastEtag,
		}, {
			name: "feed: etag of a cut page", relies: "reading page by page", expected: "at or after the last document of the page and before the next one",
			meaning: "reading page by page would lose or repeat changes", grave: true, needs: needWrites,
			cost: price{fixed: 4 * costRead}, probe: probeCutPage,
		}, {
			name: "feed: position of an inner change", relies: "all checkpoints", expected: `If-None-Match "LSN" serves the changes after that LSN, and no others`,
			meaning: "a checkpoint within a page would lose or repeat changes", grave: true, needs: needWrites,
			cost: price{fixed: 3 * costRead}, probe: probeInner,
		}, {
			name: "feed: new writes", relies: positions, expected: "above every LSN that was read",
			meaning: "a change could be stored before a position that was saved, and would be lost", grave: true, needs: needWrites,
			cost: price{fixed: costCreate + 3*costRead}, probe: probeNewWrites,
		}, {
			name: "feed: rewritten document", relies: "the latest version of each document", expected: "served once, at its last write",
			meaning: "handlers would get old versions, or a document twice", needs: needWrites,
			cost: price{fixed: costReplace + 5*costRead}, probe: probeRewritten,
		}, {
			name: "feed: etag ahead of the last document", relies: "positions in pages after deletes and expiries", expected: "not below the deleted document's write, and nothing after it is lost",
			meaning: "changes after a delete would be lost", grave: true, needs: needWrites,
			cost: price{fixed: costCreate + costDelete + 5*costRead}, probe: probeEtagAhead,
		}, {
			name: "feed: transaction", relies: "positions between transactions", expected: "never cut by the size of a page, one LSN",
			meaning: "a checkpoint could fall into a transaction, whose rest would be lost", grave: true, needs: needWrites,
			cost: price{fixed: 2*costCreate + 3*costRead}, probe: probeTransaction,
		}, {
			name: "feed: bulk", relies: "positions between the operations of a bulk request", expected: "LSNs that do not go back; operations of one LSN on one page",
			meaning: "a checkpoint could fall between changes with one LSN, and the later one would be lost", grave: true, needs: needWrites,
			cost: price{fixed: 2*costCreate + 4*costRead}, probe: probeBulk,
		}, {
			name: "feed: If-Modified-Since", relies: "StartFrom with a time, and seeks", expected: "all changes since that second, also without earlier ones",
			meaning: "a start at a time would leave out changes", needs: needWrites,
			cost: price{fixed: costCreate + 2*costRead}, probe: probeModifiedSince,
		}, {
			name: "feed: neighbours", relies: "positions and lag if containers share their throughput", expected: "writes to another container do not change the order, and none is served",
			meaning: "writes to the lease container would move or disturb positions", grave: true, needs: needWrites,
			cost: price{fixed: 2*costCreate + costDelete + 4*costRead}, probe: probeNeighbours,
		}, {
			name: "feed: position of the future", relies: "positions after an unplanned failover", expected: "nothing new, or a refusal",
			meaning: "a position that a failover has made larger than the feed would not be noticed",
			cost:    price{fixed: 2 * costRead}, probe: probeFuture,
		}, {
			name: "feed: what all regions have", relies: "positions after an unplanned failover", expected: "each answer tells it, and not more than its own region has",
			meaning: "after a failover a range waits for an operator, or for LOST_POSITION=seek",
			cost:    price{fixed: costRead}, probe: probeCommitted,
		}, {
			name: "feed: soft delete", relies: "SoftDeleteProperty", expected: "a document that is marked and will expire is served",
			meaning: "soft deletes would not reach handlers", needs: needWrites | needTTL,
			cost: price{fixed: costCreate + 3*costRead}, probe: probeSoftDelete,
		}, {
			name: "feed: expired document", relies: "positions behind expired documents", expected: "not served and not read, and later changes are served",
			meaning: "handlers would get documents that do not exist any more", needs: needWrites | needTTL,
			cost: price{fixed: costCreate + 3*costRead}, probe: probeExpired,
		},
	}
}

func probeEnd(ctx context.Context, s *session) (string, error) {
	p, err := s.read(ctx, reading{start: cosmos.StartNow})
	if err != nil {
		return "", err
	}
	if !p.notModified {
		return "", differs("%d changes although the read began now", len(p.items)+p.others)
	}
	_, err = etagLSN(p.etag)
	return "304, etag " + p.etag, err
}

func probeFuture(ctx context.Context, s *session) (string, error) {
	etag, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	lsn, err := etagLSN(etag)
	if err != nil {
		return "", err
	}
	p, err := s.read(ctx, reading{from: position(lsn + 1_000_000)})
	switch status, _ := cosmos.Status(err); {
	case status == http.StatusBadRequest:
		return "a refusal (400)", nil
	case err != nil:
		return "", err
	case !p.notModified:
		return "", differs("%d changes after a position that the feed has not reached", len(p.items)+p.others)
	}
	return "nothing new, etag " + p.etag, nil
}

func probeCommitted(ctx context.Context, s *session) (string, error) {
	p, err := s.read(ctx, reading{start: cosmos.StartNow})
	switch {
	case err != nil:
		return "", err
	case p.committed == 0:
		return "", differs("the answer does not have x-ms-global-committed-lsn")
	case p.committed > p.newest:
		return "", differs("all regions have LSN %d, and this one only %d", p.committed, p.newest)
	}
	return "told", nil
}

func probeIdleEtag(ctx context.Context, s *session) (string, error) {
	etag, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	first, err := etagLSN(etag)
	if err != nil {
		return "", err
	}
	p, err := s.read(ctx, reading{from: etag})
	if err != nil {
		return "", err
	}
	second, err := etagLSN(p.etag)
	switch {
	case err != nil:
		return "", err
	case second < first:
		return "", differs("the etag went back from %d to %d", first, second)
	case second > first:
		return "a later one", nil
	}
	return "the same", nil
}

const trioCost = 3*costCreate + costRead

// threeDocs returns the trio. The first fact that needs it writes it.
func (s *session) threeDocs(ctx context.Context) (trio, error) {
	if s.shared.docs != nil {
		return s.shared, nil
	}
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return trio{}, err
	}
	docs, err := s.creates(ctx, 3)
	if err == nil {
		s.shared = trio{start, docs}
	}
	return s.shared, err
}

func probeLSN(ctx context.Context, s *session) (string, error) {
	three, err := s.threeDocs(ctx)
	if err != nil {
		return "", err
	}
	p, err := s.read(ctx, reading{from: three.start})
	if err == nil {
		err = wantItems(p.items, three.docs...)
	}
	if err != nil {
		return "", err
	}
	for i, one := range p.items {
		if one.lsn != three.docs[i].lsn {
			return "", differs("_lsn %d, the write had %d", one.lsn, three.docs[i].lsn)
		}
	}
	return "_lsn is the LSN of the write", nil
}

func probeLastEtag(ctx context.Context, s *session) (string, error) {
	three, err := s.threeDocs(ctx)
	if err != nil {
		return "", err
	}
	pages, items, err := s.rest(ctx, reading{from: three.start})
	if err != nil {
		return "", err
	}
	if len(items) == 0 {
		return "", differs("served no document")
	}
	last, end := items[len(items)-1], pages[len(pages)-1]
	lsn, err := etagLSN(end.etag)
	switch {
	case err != nil:
		return "", err
	case lsn < last.lsn:
		return "", differs("etag %d, the last document has %d", lsn, last.lsn)
	case end.newest > 0 && lsn > end.newest:
		return "", differs("etag %d, the range is at %d", lsn, end.newest)
	case lsn > last.lsn:
		return "later than the last document", nil
	}
	return "the LSN of the last document", nil
}

func probeCutPage(ctx context.Context, s *session) (string, error) {
	three, err := s.threeDocs(ctx)
	if err != nil {
		return "", err
	}
	pages, items, err := s.rest(ctx, reading{from: three.start, maxItems: 1})
	if err == nil {
		err = wantItems(items, three.docs...)
	}
	if err != nil {
		return "", err
	}
	if len(pages) < len(three.docs) {
		return "", unverified("the service did not cut the page: %d pages for %d documents", len(pages), len(three.docs))
	}
	return s.cutEtags(pages, items)
}

// cutEtags compares the etags of cut pages with the documents of the pages around them.
func (s *session) cutEtags(pages []page, items []item) (string, error) {
	seen, served := "the LSN of the last document of the page", 0
	for _, p := range pages {
		served += len(p.items)
		if served == 0 || served == len(items) {
			continue
		}
		lsn, err := etagLSN(p.etag)
		last, next := items[served-1].lsn, items[served].lsn
		switch {
		case err != nil:
			return "", err
		case lsn < last || lsn >= next && next > last:
			return "", differs("etag %d between documents with %d and %d", lsn, last, next)
		case lsn > last:
			seen = "later than the last document of the page"
		}
	}
	return seen, nil
}

// probeEtagAhead deletes the newest document, whose write the feed then does not show.
func probeEtagAhead(ctx context.Context, s *session) (string, error) {
	start, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	docs, err := s.creates(ctx, 1)
	if err != nil {
		return "", err
	}
	gone := s.first.id
	if _, err := s.items.Delete(ctx, gone, s.pk(), ""); err != nil {
		return "", err
	}
	deleted := s.meter.last().number("Lsn")
	p, err := s.read(ctx, reading{from: start})
	if err == nil {
		err = wantItems(p.items, docs[0])
	}
	if err != nil {
		return "", err
	}
	lsn, err := etagLSN(p.etag)
	switch {
	case err != nil:
		return "", err
	case lsn < docs[0].lsn || p.newest > 0 && lsn > p.newest:
		return "", differs("etag %d, the document has %d and the range is at %d", lsn, docs[0].lsn, p.newest)
	case lsn >= deleted:
		return "the etag is ahead of the last document", nil
	}
	return "the etag is that of the last document", nil
}

// probeInner reads at the LSN of the first of three documents.
func probeInner(ctx context.Context, s *session) (string, error) {
	three, err := s.threeDocs(ctx)
	if err != nil {
		return "", err
	}
	_, items, err := s.rest(ctx, reading{from: position(three.docs[0].lsn)})
	if err == nil {
		err = wantItems(items, three.docs[1:]...)
	}
	return "the changes after it", err
}

func probeNewWrites(ctx context.Context, s *session) (string, error) {
	etag, err := s.now(ctx, cosmos.ModeLatestVersion)
	if err != nil {
		return "", err
	}
	read, err := etagLSN(etag)
	if err != nil {
		return "", err
	}
	next, err := s.create(ctx)
	if err != nil {
		return "", err
	}
	if next.lsn <= read {
		return "", differs("the write has LSN %d, the feed was read to %d", next.lsn, read)
	}
	p, err := s.read(ctx, reading{from: etag})
	if err == nil {
		err = wantItems(p.items, next)
	}
	return "above", err
}
