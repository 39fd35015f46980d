package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// store is the dead letter store of one host. The host reaches it over the same
// unreliable network as the account.
type store struct{ p *process }

func (s *store) Put(ctx context.Context, d trigger.DeadLetter) error {
	r := &request{kind: deadLetterPut, resource: d.ID, sent: time.Now(), container: "letters"}
	f, how := s.p.admit(r)
	switch how {
	case dead:
		return errCut
	case unreachable:
		return errReset
	}
	ctx, cancel := context.WithTimeout(ctx, 65*time.Second+1103) // a client's timeout
	defer cancel()
	return s.p.exchange(ctx, r, f, func() result {
		if f.status.code != 0 {
			return result{err: fmt.Errorf("dead-letter store answers %d", f.status.code)}
		}
		if d.IsPostponed() && ctx.Err() != nil {
			return result{err: errReset} // a store's client has ended the request of a host that waits no more
		}
		s.p.w.storeLetter(d)
		return result{}
	}).err
}

func (s *store) Query(_ context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	q.Limit = 3 // pages join as they should
	return trigger.SelectDeadLetters(slices.Values(s.p.w.letters), q)
}

func (s *store) Delete(_ context.Context, d trigger.DeadLetter) error {
	s.p.w.deleteLetter(d.ID)
	return nil
}

func (s *store) Holds(_ context.Context, of trigger.DeadLetterSource, key string) (bool, error) {
	s.p.w.mu.Lock()
	defer s.p.w.mu.Unlock()
	return slices.ContainsFunc(s.p.w.letters, func(d trigger.DeadLetter) bool { return d.Source() == of && d.Key == key && !d.IsPostponed() }), nil
}

// storeLetter stores a dead letter.
func (w *world) storeLetter(d trigger.DeadLetter) {
	var doc document
	if err := json.Unmarshal(d.Document, &doc); err != nil {
		w.violations = append(w.violations, history.Violation{Rule: intact, Text: fmt.Sprintf("dead letter %s holds %q", d.ID, d.Document)})
		return
	}
	event := history.Event{
		Kind: history.End, Verdict: history.DeadLettered, Range: d.Range, Epoch: d.Epoch,
		Failed: []history.Ref{{Key: doc.Key, Seq: doc.Seq}}, Attempt: d.Attempts,
	}
	if d.Blocked {
		event.Op = history.BlockedKey
	}
	w.mu.Lock()
	stored := slices.ContainsFunc(w.letters, func(o trigger.DeadLetter) bool { return o.ID == d.ID })
	w.mu.Unlock()
	if d.IsPostponed() {
		event.Verdict, event.Due = history.Postponed, d.Due
	}
	if !d.IsPostponed() || !stored {
		w.record(event)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if stored {
		return
	}
	w.letters = append(w.letters, d)
	if d.IsPostponed() {
		w.figures.Postponed++
	} else {
		w.figures.DeadLetters++
	}
}

func (w *world) deleteLetter(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letters = slices.DeleteFunc(w.letters, func(d trigger.DeadLetter) bool { return d.ID == id })
}

// postponedKeys returns the keys of which the store has postponed changes.
func (w *world) postponedKeys() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := map[string]bool{}
	for _, d := range w.letters {
		if d.IsPostponed() {
			var doc document
			w.must(json.Unmarshal(d.Document, &doc))
			keys[doc.Key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}

// writeForRequests writes once more to the keys of postponed changes. With manual
// checkpoints a postponed change that was handled stays in the store until a request covers
// it, and a handler can only request in a call: a range without further changes has none.
// The document is another one, so that a change which is not delivered again is still lost.
func (w *world) writeForRequests() {
	if !w.swarm.function.Checkpoint.Manual {
		return
	}
	for _, key := range w.postponedKeys() {
		id := key + "-request"
		if w.swarm.function.LanesByID {
			id = key + "-0"
		}
		w.used("writes for requests", 1)
		w.writeTo(w.swarm.dice("request/"+strconv.Itoa(len(w.history))), key, id)
	}
}

// lettersWithoutRequest counts the letters of postponed changes that no request can cover any
// more: their keys are blocked, so that no call with a later change of them follows, and
// writeForRequests has no effect.
func (w *world) lettersWithoutRequest() (n int) {
	if !w.swarm.function.Checkpoint.Manual {
		return 0
	}
	blocked := map[string]bool{}
	for _, d := range w.letters {
		if !d.IsPostponed() {
			blocked[d.Range+d.Key] = true
		}
	}
	for _, d := range w.letters {
		if d.IsPostponed() && blocked[d.Range+d.Key] {
			n++
		}
	}
	return n
}

// letterNames names the changes of letters, with the time until which a change is postponed.
func letterNames(letters []trigger.DeadLetter) string {
	var names []string
	for _, d := range letters {
		name := fmt.Sprintf("%s at %d of range %s", d.DocumentID, d.LSN, d.Range)
		if d.IsPostponed() {
			name += " until " + d.Due.Format(time.TimeOnly)
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// replay replays all dead letters with a handler that succeeds. When it has ended,
// the store must be empty, except for letters that wait for a request which cannot come.
func (w *world) replay() {
	if !w.swarm.deadLetters {
		return
	}
	s := w.deadLetters(&process{w: w}, w.admin)
	of := trigger.Function{FeedSource: trigger.FeedSource{Name: processor, Container: w.admin.Container(database, "items")}}.DeadLetterSource()
	seen := map[history.Ref]bool{}
	if put := len(w.letters); len(w.listLetters(s, of)) != put {
		w.violations = append(w.violations, history.Violation{Rule: intact, Text: fmt.Sprintf("the store has %s, and %d letters were put and not deleted", letterNames(w.listLetters(s, of)), put)})
	}
	left := w.lettersWithoutRequest()
	wanted := len(w.letters) - left
	w.used("Replay", wanted)
	done, err := trigger.Replay(context.Background(), s, of, func(_ context.Context, b trigger.Batch) error {
		for _, c := range b.Changes {
			var doc document
			if err := c.Decode(&doc); err != nil {
				return err
			}
			seen[history.Ref{Key: doc.Key, Seq: doc.Seq}] = true
		}
		return nil
	}, nil)
	w.letters = w.listLetters(s, of)
	if err != nil || done.Handled != wanted || len(w.letters) != left || len(seen) != wanted {
		w.violations = append(w.violations, history.Violation{
			Rule: intact, Text: fmt.Sprintf("replay of %d letters: %+v, %v; %d different changes seen, %d letters left: %s", wanted, done, err, len(seen), len(w.letters), letterNames(w.letters)),
		})
	}
}
