package feed

import (
	"context"
	"errors"
	"time"
)

// CountedChanges bounds the changes that [Source.Pending] counts if a person asks.
const CountedChanges = 100

// maxEmptyPages bounds the reads in a row that bring no change before the end of the feed,
// as azure-cosmos-dotnet-v3 #5114 has seen them. Each moves the position.
const maxEmptyPages = 10

// Why the number of pending changes is not known.
var (
	errEmptyPages = errors.New("the feed answers without changes again and again, before its end")
	errFailedOver = errors.New("the range has failed over since it was read")
	errNoLSNs     = errors.New("the LSNs of the feed do not tell how many changes follow")
)

// Pending is how far a position is behind the feed.
type Pending struct {
	// Changes is the number of changes if Exact, else an estimate: those that were counted,
	// and the transactions between them and the newest one.
	Changes int64
	Exact   bool
	// Transactions is the difference between the newest LSN of the session token and the
	// one before the first change, as ChangeFeedEstimatorIterator of azure-cosmos-dotnet-v3
	// computes it. The LSNs may be those of a partition in which other containers lie.
	Transactions int64
	Oldest       time.Time // of the first change; zero if there is none, or it is not known
	Unknown      error     // why Changes is only a lower bound, or nil
}

// Pending counts the changes behind a continuation by reading up to maxItems of them. If continues
// says that a page without changes does not continue the pages before it, there may be one.
func (s *Source) Pending(ctx context.Context, target Target, continuation string, maxItems int, continues func(*Page) bool) (Pending, error) {
	counting := *s
	counting.MaxItems = maxItems
	page, err := counting.readChanges(ctx, target, continuation)
	if errors.Is(err, errEmptyPages) {
		return Pending{Changes: 1, Transactions: 1, Unknown: err}, nil
	}
	if err != nil {
		return Pending{}, err
	}
	defer page.Release()
	if page.NotModified && !continues(page) {
		return Pending{Changes: 1, Transactions: 1, Unknown: errFailedOver}, nil
	}
	if page.NotModified {
		return Pending{Exact: true}, nil
	}
	transactions, unknown := transactionsFrom(page)
	p := Pending{Changes: transactions, Exact: unknown == nil && transactions == 1 && len(page.Items) == 1, Transactions: transactions, Unknown: unknown}
	if first := page.Items[0]; first.Timestamp > 0 {
		p.Oldest = time.Unix(first.Timestamp, 0)
	}
	if maxItems == 1 {
		return p, nil
	}
	counting.MaxItems = 1
	next, err := counting.readChanges(ctx, target, page.Continuation)
	if err != nil && !errors.Is(err, errEmptyPages) {
		return Pending{}, err
	}
	p.Changes, p.Exact, p.Unknown = int64(len(page.Items)), false, err
	if err == nil {
		defer next.Release()
		if p.Exact = next.NotModified; !p.Exact {
			transactions, p.Unknown = transactionsFrom(next)
			p.Changes += transactions
		}
	}
	return p, nil
}

// readChanges reads the page with the first change behind a continuation, or a page that is
// not modified.
func (s *Source) readChanges(ctx context.Context, target Target, continuation string) (*Page, error) {
	for range maxEmptyPages {
		page, err := s.ReadPage(ctx, target, continuation, nil)
		if err != nil || page.NotModified || len(page.Items) > 0 {
			return page, err
		}
		moved := page.Continuation != continuation
		continuation = page.Continuation
		page.Release()
		if !moved {
			break
		}
	}
	return nil, errEmptyPages
}

// transactionsFrom counts the transactions from the first change of a page to the newest one
// of the session token. The number is 1, and unknown says why, if the LSNs do not tell.
func transactionsFrom(page *Page) (transactions int64, unknown error) {
	first := page.Items[0].LSN
	transactions = page.SessionLSN - (first - 1)
	if page.SessionLSN <= 0 || first <= 0 || transactions <= 0 {
		return 1, errNoLSNs
	}
	return transactions, nil
}

// CountBetween counts the changes after one LSN, up to and including another one, by reading
// one page of up to maxItems. If the page ends before, exact is false, and the number has the
// LSNs that were not read.
func (s *Source) CountBetween(ctx context.Context, target Target, from, to int64, maxItems int) (changes int64, exact bool, err error) {
	counting := *s
	counting.MaxItems = maxItems
	page, err := counting.readChanges(ctx, target, QuotedLSN(from))
	if err != nil {
		return 0, false, err
	}
	defer page.Release()
	if page.NotModified {
		return 0, true, nil
	}
	if !NamesPositions(page, QuotedLSN(from)) {
		return to - from, false, nil
	}
	for _, item := range page.Items {
		if item.LSN > to {
			return changes, true, nil
		}
		changes++
	}
	end := LSNOf(page.Continuation)
	if end >= to {
		return changes, true, nil
	}
	counting.MaxItems = 1
	next, err := counting.readChanges(ctx, target, page.Continuation)
	if err != nil {
		return 0, false, err
	}
	defer next.Release()
	if next.NotModified || next.Items[0].LSN > to {
		return changes, true, nil
	}
	return changes + to - next.Items[0].LSN + 1, false, nil
}
