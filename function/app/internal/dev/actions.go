//go:build !nodev

package dev

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/page"
	"halley/trigger/cosmos"
)

// pageActions are the actions that the page of a development run has.
type pageActions struct {
	*session
	operator *operatorpage.Operator
}

func (a pageActions) list() []page.Action {
	return []page.Action{
		{Name: "deliver", Plan: a.planDelivery},
		{Name: "edit", Plan: a.planDelivery},
		{Name: "poison", Plan: a.planPoison},
		{Name: "cure", Plan: a.planCure},
		{Name: "split", Plan: a.planSplit},
		{Name: "merge", Plan: a.planMerge},
		{Name: "kill", Plan: a.planKill},
		{Name: "start", Plan: a.planStart},
	}
}

// planDelivery calls the handler with one change, of a recorded change or a dead letter,
// and with another document if the viewer has edited it.
func (a pageActions) planDelivery(ctx context.Context, r page.Request) (plan page.Plan, err error) {
	id := r.Select.Change
	if r.Select.Letter != "" {
		letter, err := a.operator.FindDeadLetter(ctx, r.Select.Letter)
		if err != nil {
			return plan, err
		}
		id = a.recorder.Letter(letter)
	}
	detail, change, ok := a.recorder.Find(id)
	if !ok {
		return plan, page.ErrDropped
	}
	if _, err := a.opened(detail.Function); err != nil {
		return plan, err
	}
	var edited json.RawMessage
	if r.Action == "edit" {
		if edited, err = editedDocument(r.Args.Document); err != nil {
			return plan, err
		}
		plan.Effects = diffLines(change.Document, edited)
		if plan.Effects == nil {
			return plan, errors.New("the document was not changed: deliver it again instead")
		}
	}
	plan.Effects = append(plan.Effects,
		fmt.Sprintf("The handler of %s is called once with document %s alone, as attempt %d.", detail.Function, change.ID(), detail.Attempt+1),
		"The checkpoint stays. The call may come out of the order of its key.")
	if detail.Letter != "" {
		plan.Effects = append(plan.Effects, "If the handler succeeds, the dead letter is removed.")
	}
	plan.Do = func(ctx context.Context) (string, error) { return a.deliver(ctx, id, edited) }
	return plan, nil
}

// deliver delivers a recorded change and removes its dead letter.
func (a pageActions) deliver(ctx context.Context, id string, edited json.RawMessage) (string, error) {
	detail, _, ok := a.recorder.Find(id)
	if !ok {
		return "", page.ErrDropped
	}
	fn, err := a.opened(detail.Function)
	if err != nil {
		return "", err
	}
	if err := a.recorder.Deliver(ctx, id, edited, fn.Handler); err != nil {
		return "", fmt.Errorf("document %s: %w", detail.DocumentID, err)
	}
	if detail.Letter == "" {
		return fmt.Sprintf("document %s was handled", detail.DocumentID), nil
	}
	letter, err := a.operator.FindDeadLetter(ctx, detail.Letter)
	if err == nil {
		err = fn.DeadLetters.Delete(ctx, letter)
	}
	if err != nil {
		return "", fmt.Errorf("document %s was handled, but its dead letter stays: %w", detail.DocumentID, err)
	}
	return fmt.Sprintf("document %s was handled, and its dead letter is removed", detail.DocumentID), nil
}

// editedDocument is a viewer's text as a document.
func editedDocument(text string) (json.RawMessage, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(text)); err != nil {
		return nil, fmt.Errorf("the text is not JSON: %w", err)
	}
	if !bytes.HasPrefix(compact.Bytes(), []byte("{")) {
		return nil, errors.New("a document is a JSON object")
	}
	return compact.Bytes(), nil
}

// diffLines shows the lines in which two documents differ: those between the first and
// the last difference. It is nil if there is none.
func diffLines(before, after json.RawMessage) (diff []string) {
	lines := func(document json.RawMessage) []string {
		var b bytes.Buffer
		if json.Indent(&b, document, "", "  ") != nil {
			return []string{string(document)}
		}
		return strings.Split(b.String(), "\n")
	}
	old, edited := lines(before), lines(after)
	for len(old) > 0 && len(edited) > 0 && old[0] == edited[0] {
		old, edited = old[1:], edited[1:]
	}
	for len(old) > 0 && len(edited) > 0 && old[len(old)-1] == edited[len(edited)-1] {
		old, edited = old[:len(old)-1], edited[:len(edited)-1]
	}
	for _, line := range old {
		diff = append(diff, "- "+line)
	}
	for _, line := range edited {
		diff = append(diff, "+ "+line)
	}
	return diff
}

// planPoison makes the handlers panic on a document, and writes it once more so that it
// is delivered.
func (a pageActions) planPoison(_ context.Context, r page.Request) (plan page.Plan, err error) {
	detail, change, ok := a.recorder.Find(r.Select.Change)
	if !ok {
		return plan, page.ErrDropped
	}
	i := slices.Index(a.world.settings.App.Functions, detail.Function)
	if i < 0 {
		return plan, fmt.Errorf("function %s is not enabled", detail.Function)
	}
	id, container := change.ID(), a.world.client.Container(a.world.settings.Functions[i].DatabaseName, a.world.settings.Functions[i].ContainerName)
	plan.Effects = []string{fmt.Sprintf("All handlers panic on document %s until it is cured.", id)}
	if change.Document != nil {
		plan.Effects = append(plan.Effects, "The document is written again, so that it is delivered.")
	}
	plan.Do = func(ctx context.Context) (string, error) {
		a.poison.name(id, true)
		if change.Document == nil {
			return fmt.Sprintf("document %s is poison", id), nil
		}
		properties, err := container.Properties(ctx)
		if err != nil {
			return "", err
		}
		key, err := keyOf(change.Document, properties.PartitionKey.Paths)
		if err == nil {
			_, err = container.Upsert(ctx, key, []byte(change.Document))
		}
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("document %s is poison and was written again", id), nil
	}
	return plan, nil
}

func (a pageActions) planCure(_ context.Context, r page.Request) (page.Plan, error) {
	id := r.Select.Document
	if !slices.Contains(a.poison.names(), id) {
		return page.Plan{}, fmt.Errorf("document %s is not poison", id)
	}
	return page.Plan{
		Effects: []string{fmt.Sprintf("The handlers get document %s again. Its dead letters stay until they are delivered.", id)},
		Do: func(context.Context) (string, error) {
			a.poison.name(id, false)
			return fmt.Sprintf("document %s is cured", id), nil
		},
	}, nil
}

// physicalRanges returns the monitored container of a function, its ranges, and the
// index of the range with the keys of a lease.
func (a pageActions) physicalRanges(ctx context.Context, of page.Selection) (c *cosmos.Container, ranges []cosmos.Range, at int, err error) {
	i := slices.Index(a.world.settings.App.Functions, of.Function)
	if i < 0 {
		return nil, nil, 0, fmt.Errorf("no function %s is enabled", of.Function)
	}
	c = a.world.client.Container(a.world.settings.Functions[i].DatabaseName, a.world.settings.Functions[i].ContainerName)
	if ranges, err = c.Ranges(ctx); err != nil {
		return nil, nil, 0, err
	}
	begin, _, isSpan := strings.Cut(of.Range, "-")
	at = slices.IndexFunc(ranges, func(r cosmos.Range) bool {
		return r.ID == of.Range || isSpan && cosmos.CompareKeys(r.Min, begin) <= 0 && cosmos.CompareKeys(begin, r.Max) < 0
	})
	if at < 0 {
		return nil, nil, 0, fmt.Errorf("range %s was split or merged: its lease is about to be replaced", of.Range)
	}
	return c, ranges, at, nil
}

func (a pageActions) planSplit(ctx context.Context, r page.Request) (page.Plan, error) {
	c, ranges, at, err := a.physicalRanges(ctx, r.Select)
	if err != nil {
		return page.Plan{}, err
	}
	return page.Plan{
		Effects: []string{fmt.Sprintf("Range %s of %s/%s is split in the middle of its keys.", ranges[at].ID, c.Database(), c.Name())},
		Do: func(context.Context) (string, error) {
			children, err := a.world.account.Split(c.Database(), c.Name(), ranges[at].ID)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("range %s was split into %s", ranges[at].ID, strings.Join(children, " and ")), nil
		},
	}, nil
}

func (a pageActions) planMerge(ctx context.Context, r page.Request) (page.Plan, error) {
	c, ranges, at, err := a.physicalRanges(ctx, r.Select)
	if err != nil {
		return page.Plan{}, err
	}
	if at == len(ranges)-1 {
		return page.Plan{}, fmt.Errorf("range %s has the last keys: there is no next range to merge it with", ranges[at].ID)
	}
	first, second := ranges[at].ID, ranges[at+1].ID
	return page.Plan{
		Effects: []string{fmt.Sprintf("Ranges %s and %s of %s/%s are merged.", first, second, c.Database(), c.Name())},
		Do: func(context.Context) (string, error) {
			child, err := a.world.account.Merge(c.Database(), c.Name(), first, second)
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("ranges %s and %s were merged into %s", first, second, child), nil
		},
	}, nil
}

func (a pageActions) planKill(_ context.Context, r page.Request) (page.Plan, error) {
	live := a.liveHosts()
	i := slices.IndexFunc(live, func(h *runHost) bool { return h.owner() == r.Select.Host })
	if i < 0 {
		return page.Plan{}, fmt.Errorf("no host %s runs", cmp.Or(r.Select.Host, `""`))
	}
	plan := page.Plan{
		Effects: []string{fmt.Sprintf("Host %s ends without a word. Its leases expire, and other hosts take them.", r.Select.Host)},
		Do: func(context.Context) (string, error) {
			a.kill(live[i])
			return fmt.Sprintf("host %s was killed", r.Select.Host), nil
		},
	}
	if len(live) == 1 {
		plan.Warnings = []string{"no other host runs: start one"}
	}
	return plan, nil
}

func (a pageActions) planStart(context.Context, page.Request) (page.Plan, error) {
	if len(a.liveHosts()) >= maxHosts {
		return page.Plan{}, fmt.Errorf("%d hosts run already", maxHosts)
	}
	return page.Plan{
		Effects: []string{"A further host takes its share of the leases."},
		Do: func(ctx context.Context) (string, error) {
			h, err := a.addHost(context.WithoutCancel(ctx), a.log)
			if err == nil {
				err = a.startHost(h)
			}
			if err != nil {
				return "", err
			}
			return fmt.Sprintf("host %s was started", h.owner()), nil
		},
	}, nil
}
