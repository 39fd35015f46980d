package operate

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"

	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/redact"
)

// PrintLines prints each dead letter as a whole, a line each. If one cannot be
// read, the rest is still printed and its error is returned.
func PrintLines(out io.Writer, found iter.Seq2[StoredLetter, error]) error {
	lines := json.NewEncoder(text.SafeWriter(out))
	var failed error
	for l, err := range found {
		if err == nil {
			err = lines.Encode(Printable(l.DeadLetter))
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// Printable returns the dead letter with its images as JSON: an image that is not
// valid JSON becomes a string. The secrets of URLs in its error are removed.
func Printable(d trigger.DeadLetter) trigger.DeadLetter {
	d.Error, d.Stack = redact.Text(d.Error), redact.Text(d.Stack)
	for _, image := range []*json.RawMessage{&d.Document, &d.Previous, &d.DocumentKey} {
		if *image != nil && !json.Valid(*image) {
			*image, _ = json.Marshal(string(*image)) // a string encodes
		}
	}
	return d
}

// ReadDeadLetters reads a file that export has written. Each dead letter must be one of
// the functions. "" has none.
func ReadDeadLetters(path string, functions []string) (letters []trigger.DeadLetter, err error) {
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
