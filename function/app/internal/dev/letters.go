//go:build !nodev

package dev

import (
	"context"
	"fmt"

	"halley/function/app/internal/page"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// deliverLetters calls the handlers with each dead letter once, in the order of the
// file. A call has no deadline: it may wait in a debugger.
func (s *session) deliverLetters(ctx context.Context) {
	r := &s.letters
	for len(r.waiting) > 0 && ctx.Err() == nil {
		letter := r.waiting[0]
		r.waiting = r.waiting[1:]
		local := letter
		local.ID = "" // it is in no store of this run
		id := s.recorder.Letter(local)
		if err := s.deliverLetter(ctx, letter, id); err != nil {
			r.failed = append(r.failed, id)
			s.show.say(fmt.Sprintf("dead letter %s, document %s of %s: failed again: %s",
				text.Line(letter.ID), text.Line(letter.DocumentID), letter.Function, text.OfError(err)))
			continue
		}
		r.handled++
		s.show.say(fmt.Sprintf("dead letter %s, document %s of %s: handled", text.Line(letter.ID), text.Line(letter.DocumentID), letter.Function))
	}
}

func (s *session) deliverLetter(ctx context.Context, letter trigger.DeadLetter, id string) error {
	fn, err := s.opened(letter.Function)
	if err != nil {
		return err
	}
	return s.recorder.Deliver(ctx, id, nil, fn.Handler)
}

// letterOutcome counts the dead letters of the file. One that failed counts as handled if the
// page has delivered it since.
func (s *session) letterOutcome() (handled, failed int) {
	handled = s.letters.handled
	for _, id := range s.letters.failed {
		if detail, _, ok := s.recorder.Find(id); ok && detail.State == page.Handled {
			handled++
		} else {
			failed++
		}
	}
	return handled, failed + len(s.letters.waiting)
}
