//go:build !nodev

package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"halley/function/app/internal/page"
	"halley/function/app/internal/text"
	"halley/trigger"
)

// letterRun are the dead letters of --dead-letters. One goroutine delivers them, and the
// summary reads the rest when that has ended.
type letterRun struct {
	waiting []trigger.DeadLetter
	failed  []string // ids in the recorder
	handled int
}

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

// readDeadLetters reads a file that export has written. Each dead letter must be one of
// the functions. "" has none.
func readDeadLetters(path string, functions []string) (letters []trigger.DeadLetter, err error) {
	if path == "" {
		return nil, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--dead-letters: %w", err)
	}
	defer file.Close()
	lines := bufio.NewReader(file)
	for number := 1; ; number++ {
		line, end := lines.ReadBytes('\n')
		if end != nil && !errors.Is(end, io.EOF) {
			return nil, fmt.Errorf("--dead-letters: %w", end)
		}
		if strings.TrimSpace(string(line)) != "" {
			letter, err := parseDeadLetter(line, functions)
			if err != nil {
				return nil, fmt.Errorf("--dead-letters %s:%d: %w", path, number, err)
			}
			letters = append(letters, letter)
		}
		if end != nil {
			break
		}
	}
	if len(letters) == 0 {
		return nil, fmt.Errorf("--dead-letters %s: the file has no dead letter", path)
	}
	return letters, nil
}

func parseDeadLetter(line []byte, functions []string) (d trigger.DeadLetter, err error) {
	if err := json.Unmarshal(line, &d); err != nil {
		return d, fmt.Errorf("not a dead letter: write the file with deadletters export: %w", err)
	}
	if err := d.CheckForm(); err != nil {
		return d, err
	}
	if !slices.Contains(functions, d.Function) {
		return d, fmt.Errorf("it is of function %q, which is not enabled: the functions are %s", d.Function, strings.Join(functions, ", "))
	}
	for _, image := range []*json.RawMessage{&d.Document, &d.Previous} {
		var text string // of a document that is not valid JSON
		if json.Unmarshal(*image, &text) == nil && *image != nil {
			*image = json.RawMessage(text)
		}
	}
	return d, nil
}
