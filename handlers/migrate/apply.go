package migrate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"halley/handlers/position"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// mostRounds bounds how often a call looks at the copies of a document. Each further
// look follows a write of its own, or one that was refused because another host had
// written in between.
const mostRounds = 10

// Handle is the handler: it brings the target to the state of the batch's changes.
func (m *Migration) Handle(ctx context.Context, b trigger.Batch) error {
	paths, err := m.targetPaths(ctx)
	if err != nil {
		return err
	}
	pending, verdicts := m.plan(b, paths)
	for round := 0; len(pending) > 0; round++ {
		if round == mostRounds {
			for _, w := range pending {
				verdicts.fail(w.change, fmt.Errorf("document %q could not be written in %d attempts; perhaps the target has a unique key that another document holds: %w", w.id, mostRounds, w.conflict))
			}
			break
		}
		copies, err := m.findCopies(ctx, idsOf(pending), false)
		if err != nil {
			return err
		}
		pending = m.advance(ctx, pending, copies, paths, verdicts)
	}
	m.progress.tell(b)
	return verdicts.err(len(b.Changes))
}

// plan transforms the changes of a batch. Of a document with several versions only the
// last one is wanted.
func (m *Migration) plan(b trigger.Batch, paths keyPaths) ([]*wanted, *verdicts) {
	verdicts := &verdicts{}
	index := map[[2]string]int{}
	var all []*wanted
	for _, c := range b.Changes {
		w := &wanted{image: image{id: c.ID()}, at: position.Of(b, c), change: c}
		var err error
		w.source, err = sourceKeyText(c.PartitionKey())
		if err == nil && c.Document != nil { // a soft-deleted document is copied with its mark
			w.image, err = m.imageOf(w.id, c.Document, paths)
		}
		if err != nil {
			verdicts.refuse(c, err)
			continue
		}
		document := [2]string{w.source, w.id}
		if i, ok := index[document]; ok {
			all[i] = w
			continue
		}
		index[document] = len(all)
		all = append(all, w)
	}
	return all, verdicts
}

func idsOf(pending []*wanted) (ids []string) {
	seen := map[string]bool{}
	for _, w := range pending {
		if !seen[w.id] {
			seen[w.id] = true
			ids = append(ids, w.id)
		}
	}
	return ids
}

// advance makes the writes that are due, those of several documents at a time, and
// returns the documents to look at again.
func (m *Migration) advance(ctx context.Context, pending []*wanted, copies map[string][]*targetCopy, paths keyPaths, v *verdicts) (unfinished []*wanted) {
	outcomes := make([]outcome, len(pending))
	slots := make(chan struct{}, m.options.Parallel)
	var working sync.WaitGroup
	for i, w := range pending {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			outcomes[i] = m.bring(ctx, w, copies[w.id], paths)
		})
	}
	working.Wait()
	for i, w := range pending {
		switch o := outcomes[i]; {
		case o.refused != nil:
			v.refuse(w.change, o.refused)
		case o.err != nil:
			v.fail(w.change, o.err)
		case o.again:
			unfinished = append(unfinished, w)
		}
	}
	return unfinished
}

// outcome is the end of one look at a document. The zero value is: done.
type outcome struct {
	again   bool  // look at the copies once more
	refused error // the change can never be copied
	err     error // try the change again later
}

// bring makes the writes of one document.
func (m *Migration) bring(ctx context.Context, w *wanted, copies []*targetCopy, paths keyPaths) outcome {
	actions, err := decide(w, copies)
	if err != nil {
		return outcome{refused: err}
	}
	if len(actions) == 0 && !w.written && w.content != nil {
		m.progress.stale()
	}
	for _, a := range actions {
		err := m.perform(ctx, w, a, paths)
		switch {
		case err == nil:
			w.written = w.written || a.kind == createCopy || a.kind == replaceCopy
			m.progress.count(a)
			m.options.Meter.Wrote(1)
		case cosmos.IsConflict(err), cosmos.IsPreconditionFailed(err), cosmos.IsDocumentNotFound(err):
			w.conflict = err // another host was faster, or a tombstone has expired
			return outcome{again: true}
		case cannotBeWritten(err):
			return outcome{refused: err}
		default:
			return outcome{err: err}
		}
	}
	// A replace under the etag of the only copy needs no second look. After any other
	// write, a former owner may have written another copy at the same time.
	alone := len(actions) == 1 && actions[0].kind == replaceCopy && len(copies) == 1
	return outcome{again: len(actions) > 0 && !alone}
}

// cannotBeWritten reports whether the target refuses the document itself.
func cannotBeWritten(err error) bool {
	status, _ := cosmos.Status(err)
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge
}

// perform makes one conditional write.
func (m *Migration) perform(ctx context.Context, w *wanted, a action, paths keyPaths) error {
	g := guard{Position: a.at, Key: w.source}
	var body []byte
	var err error
	key := w.key
	switch a.kind {
	case createCopy, replaceCopy:
		body, err = m.guarded(w.content, g)
	case buryCopy:
		key = a.on.key
		body, err = m.tombstone(w.id, key, g, paths)
	case createTomb:
		key = paths.unknownKey(w.id)
		body, err = m.tombstone(w.id, key, g, paths)
	}
	if err != nil {
		return err
	}
	return m.budget.send(ctx, func(ctx context.Context) (float64, error) {
		var r cosmos.Response
		var err error
		if a.on == nil {
			r, err = m.target.Create(ctx, key.partitionKey(), body)
		} else {
			r, err = m.target.Replace(ctx, w.id, key.partitionKey(), body, a.on.etag)
		}
		return r.Charge, err
	})
}

// verdicts collects the changes of a batch that are not handled.
type verdicts struct {
	failed, refused []error
	firstFailure    error
}

func (v *verdicts) fail(c trigger.Change, err error) {
	v.failed = append(v.failed, trigger.Failed(err, c))
	if v.firstFailure == nil {
		v.firstFailure = err
	}
}

func (v *verdicts) refuse(c trigger.Change, err error) {
	v.refused = append(v.refused, trigger.Failed(err, c))
}

// err returns the verdict on a batch of n changes. If all changes fail, the target is
// probably down. Refused changes wait for the failed ones: a verdict is final for all
// of its changes or for none.
func (v *verdicts) err(n int) error {
	switch {
	case len(v.failed) == n:
		return v.firstFailure
	case len(v.failed) > 0:
		return errors.Join(append(v.failed, v.refused...)...)
	case len(v.refused) > 0:
		return trigger.Skip(errors.Join(v.refused...))
	}
	return nil
}
