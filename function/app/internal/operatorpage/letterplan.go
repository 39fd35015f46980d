package operatorpage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"sort"
	"strconv"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/page"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/redact"
)

// boundLetters are the dead letters of a plan: those that were there when it was made.
type boundLetters struct {
	function string
	ids      []string
	notes    []string // about dead letters that cannot be read, or are left for a further plan

	keys           map[string]bool
	oldest, newest time.Time
	errors         map[string]int // records by the first line of their error
}

// maxPlanned bounds the dead letters of a plan.
const maxPlanned = 10_000

func (b *boundLetters) add(d trigger.DeadLetter) {
	if b.ids = append(b.ids, d.ID); len(b.ids) == 1 || d.Time.Before(b.oldest) {
		b.oldest = d.Time
	}
	if d.Time.After(b.newest) {
		b.newest = d.Time
	}
	b.keys[d.Key] = true
	b.errors[text.Cell(redact.Text(d.Error))]++
}

// summary describes the dead letters of a plan, so that the viewer can tell whether these are
// the ones that are meant.
func (b *boundLetters) summary() string {
	var names []string
	for name := range b.errors {
		names = append(names, name)
	}
	// (slices.SortFunc would be compiled for this type.)
	sort.Slice(names, func(i, j int) bool {
		return cmp.Or(cmp.Compare(b.errors[names[j]], b.errors[names[i]]), cmp.Compare(names[i], names[j])) < 0
	})
	line := fmt.Sprintf("They are of %s, given up between %s and %s.", text.Count(len(b.keys), "key"), b.oldest.UTC().Format(time.RFC3339), b.newest.UTC().Format(time.RFC3339))
	for _, name := range names[:min(len(names), 3)] {
		line += fmt.Sprintf(" %d: %s.", b.errors[name], name)
	}
	if len(names) > 3 {
		line += fmt.Sprintf(" And %s more.", text.Count(len(names)-3, "error"))
	}
	return line
}

// bindLetters finds the dead letters of a request.
func (o *Operator) bindLetters(ctx context.Context, r page.Request) (*boundLetters, error) {
	b := &boundLetters{function: r.Select.Function, keys: map[string]bool{}, errors: map[string]int{}}
	if b.function == "" {
		return nil, errors.New("name the function of the dead letters")
	}
	if _, err := o.function(b.function); err != nil {
		return nil, err
	}
	var failed error
	pick, _ := storedSelection(r.Select)
	pick.DeadOnly = true // its function delivers a postponed change, unless the viewer names it
	if r.Select.Letter != "" {
		pick.IDs = []string{r.Select.Letter}
	} else if len(r.Select.IDs) > 0 {
		pick.IDs = r.Select.IDs
	}
	isCut := false
	o.find(ctx, &pick, r.Select, func(l operate.StoredLetter, err error) bool {
		if isCut = err == nil && len(b.ids) == maxPlanned; isCut {
			return false
		}
		if err == nil {
			b.add(l.DeadLetter)
		}
		failed = errors.Join(failed, err)
		return true
	})
	if len(b.ids) == 0 {
		return nil, errors.Join(fmt.Errorf("no dead letter is selected by %s", r.Select), failed)
	}
	if failed != nil {
		b.notes = []string{"not all dead letters can be read: " + text.OfError(failed)}
	}
	if isCut {
		b.notes = append(b.notes, fmt.Sprintf("more are selected: this plan has the oldest %d, ask for another one after it", maxPlanned))
	}
	return b, nil
}

// stored iterates over the dead letters of a plan.
func (o *Operator) stored(ctx context.Context, b *boundLetters) iter.Seq2[operate.StoredLetter, error] {
	return o.found(ctx, &operate.Selection{IDs: b.ids}, page.Selection{Function: b.function})
}

// moved returns an error if a dead letter of the plan has left the store.
func (o *Operator) moved(ctx context.Context, b *boundLetters) error {
	n, err := operate.CountSelected(o.stored(ctx, b))
	if err == nil && n != len(b.ids) {
		err = fmt.Errorf("%d of the %d dead letters have left the store since", len(b.ids)-n, len(b.ids))
	}
	return err
}

func (o *Operator) planReplay(ctx context.Context, r page.Request) (page.Plan, error) {
	b, err := o.bindLetters(ctx, r)
	if err != nil {
		return page.Plan{}, err
	}
	return page.Plan{
		Effects: []string{
			fmt.Sprintf("The handler of %s is called with %s, selected by %s: those of one key one by one, the oldest first.", b.function, text.Count(len(b.ids), "dead letter"), r.Select),
			b.summary(), "Each one that it handles is removed. If one fails, it and the later ones of its key stay.",
		},
		Warnings: append(b.notes, "the handler may get changes that are older than changes it has handled, unless the function blocks keys"),
		Count:    len(b.ids), Moved: func(ctx context.Context) error { return o.moved(ctx, b) },
		Do: func(ctx context.Context) (string, error) { return o.replay(ctx, b) },
	}, nil
}

// replayParallel is the number of handler calls of a replay from the page.
const replayParallel = 8

func (o *Operator) replay(ctx context.Context, b *boundLetters) (string, error) {
	store, fn, err := o.store(b.function)
	if err != nil {
		return "", err
	}
	done, err := (&operate.Selection{IDs: b.ids}).Replay(ctx, store, fn, operate.ReplayBounds{Parallel: replayParallel})
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s handled", text.Count(done.Handled, "dead letter"))
	if done.Failed+done.Waiting == 0 {
		return text, nil
	}
	return "", fmt.Errorf("%s, %d failed again, %d wait behind these; the first error: %s", text, done.Failed, done.Waiting, done.Failures[0].Error)
}

func (o *Operator) planDiscard(ctx context.Context, r page.Request) (page.Plan, error) {
	b, err := o.bindLetters(ctx, r)
	if err != nil {
		return page.Plan{}, err
	}
	plan := page.Plan{
		Effects:  []string{fmt.Sprintf("%s of %s, selected by %s, are deleted. Their changes are lost.", text.Count(len(b.ids), "dead letter"), b.function, r.Select), b.summary()},
		Warnings: b.notes, Count: len(b.ids), Confirm: strconv.Itoa(len(b.ids)), Moved: func(ctx context.Context) error { return o.moved(ctx, b) },
		Do: func(ctx context.Context) (string, error) {
			deleted, err := operate.DeleteDeadLetters(ctx, o.stored(ctx, b))
			if err != nil {
				return "", fmt.Errorf("%s deleted: %w", text.Count(deleted, "dead letter"), err)
			}
			return text.Count(deleted, "dead letter") + " deleted", nil
		},
	}
	if !o.settings.App.PageHideDocuments {
		plan.Export = r.Select.Address("api/v1/letters.jsonl")
	}
	return plan, nil
}
