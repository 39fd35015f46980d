package operatorpage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/trigger"
)

// Bounds of a page of the list, over all functions: a search that needs more continues with the
// next page.
const (
	maxSearched = 50_000          // records that the stores read
	searchTime  = 5 * time.Second // after which no further store is asked
)

// storedSelection is the part of a selection that the stores evaluate: range and error, and a key
// that is given whole. isAll reports whether nothing is left to evaluate.
func storedSelection(wanted page.Selection) (pick operate.Selection, isAll bool) {
	pick = operate.Selection{Range: wanted.Range, Text: wanted.Error}
	if operate.IsJSONArray(wanted.Key) {
		pick.Key = wanted.Key
	}
	return pick, pick.Key == wanted.Key
}

// deadLetters is DeadLetters of [page.Source].
func (o *Operator) deadLetters(ctx context.Context, q page.LetterQuery) (found page.LetterPage, err error) {
	stores, failure := o.storesOf(q.Function)
	wanted := page.Selection{Range: q.Range, Key: q.Key, Error: q.Error}
	pager := &operate.LetterPager{Stores: stores, Limit: q.Limit, MaxSearched: maxSearched, MaxTime: searchTime}
	isAll := false
	if pager.Select, isAll = storedSelection(wanted); !isAll {
		pager.Wants = wanted.Wants
	}
	listed, err := pager.Page(ctx, q.After)
	if err != nil {
		return found, err
	}
	found = page.LetterPage{Next: listed.Next, Searched: listed.Searched, Dead: listed.Dead, Postponed: listed.Postponed, Stopped: listed.Stopped}
	if failure = errors.Join(append(listed.Failures, failure)...); failure != nil {
		found.Problem = failure.Error()
	}
	for _, l := range listed.Records {
		found.Records = append(found.Records, l.DeadLetter)
	}
	return found, nil
}

// storesOf returns the stores of the functions that keep dead letters, or that of the named one.
// The error is about those that are left out.
func (o *Operator) storesOf(function string) (stores []operate.Store, failed error) {
	for _, f := range o.settings.Functions {
		if !f.DeadLetters.Row().Keeps || function != "" && function != f.Name {
			continue
		}
		store, _, err := o.store(f.Name)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("dead letters of %s: %w", f.Name, err))
			continue
		}
		stores = append(stores, store)
	}
	return stores, failed
}

// find calls visit with the selected dead letters of all functions that keep them, until it
// returns false. An error is about one of them or about a store.
func (o *Operator) find(ctx context.Context, pick *operate.Selection, wanted page.Selection, visit func(operate.StoredLetter, error) bool) {
	stores, err := o.storesOf(wanted.Function)
	if err != nil && !visit(operate.StoredLetter{}, err) {
		return
	}
	for l, err := range pick.Find(ctx, stores) {
		if (err != nil || wanted.Wants(l.DeadLetter)) && !visit(l, err) {
			return
		}
	}
}

// FindDeadLetter returns the dead letter with an id, from any store of the app.
func (o *Operator) FindDeadLetter(ctx context.Context, id string) (d trigger.DeadLetter, err error) {
	err = fmt.Errorf("no dead letter %s is stored", id)
	o.find(ctx, &operate.Selection{IDs: []string{id}}, page.Selection{}, func(l operate.StoredLetter, failed error) bool {
		if failed == nil {
			d, err = l.DeadLetter, nil
		}
		return err != nil
	})
	return d, err
}
