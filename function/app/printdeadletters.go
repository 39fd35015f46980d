package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"halley/trigger"
	"halley/trigger/redact"
)

// printLines prints each dead letter as a whole, a line each. If one cannot be
// read, the rest is still printed and its error is returned.
func printLines(out io.Writer, found iter.Seq2[storedLetter, error]) error {
	lines := json.NewEncoder(terminalSafe{out})
	var failed error
	for l, err := range found {
		if err == nil {
			err = lines.Encode(printable(l.DeadLetter))
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// printable returns the dead letter with its images as JSON: an image that is not
// valid JSON becomes a string. The secrets of URLs in its error are removed.
func printable(d trigger.DeadLetter) trigger.DeadLetter {
	d.Error, d.Stack = redact.Text(d.Error), redact.Text(d.Stack)
	for _, image := range []*json.RawMessage{&d.Document, &d.Previous, &d.DocumentKey} {
		if *image != nil && !json.Valid(*image) {
			*image, _ = json.Marshal(string(*image)) // a string encodes
		}
	}
	return d
}

// printTable prints a line of columns for each dead letter, with the same errors
// as printLines.
func printTable(out io.Writer, found iter.Seq2[storedLetter, error]) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "ID\tGIVEN UP\tFUNCTION\tRANGE\tLSN\tKEY\tDOCUMENT\tATTEMPTS\tERROR")
	var failed error
	for l, err := range found {
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", printableLine(l.ID), l.Time.UTC().Format(time.RFC3339), l.in.function, cell(l.Range), l.LSN,
			cell(l.Key), cell(l.DocumentID), attempts(l.DeadLetter), cell(redact.Text(l.Error)))
	}
	return errors.Join(t.Flush(), failed)
}

// attempts shows how often the change of a dead letter was tried, or when it is due.
func attempts(d trigger.DeadLetter) string {
	switch {
	case d.IsPostponed():
		return "postponed until " + d.Due.UTC().Format(time.RFC3339)
	case d.Blocked:
		return "blocked"
	}
	return strconv.Itoa(d.Attempts)
}

// cell shortens text to fit a table: its first line, printable, 80 characters at
// most.
func cell(s string) string {
	const most = 80
	s, _, _ = strings.Cut(s, "\n")
	if runes := []rune(printableLine(s)); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return printableLine(s)
}

// printableLine puts text on one line.
func printableLine(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(printableText(s))
}

// errorText is the text of an error for people: without the secrets of URLs, and
// printable.
func errorText(err error) string { return printableText(redact.Text(err.Error())) }

// printableText returns s with a question mark in place of each character that
// could control a terminal or reorder its text: C0 and C1 controls, bidirectional
// controls and other format characters. Line breaks and tabs stay.
func printableText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// terminalSafe passes JSON to a writer with the characters escaped that could
// control a terminal or reorder its text. The values stay the same. A Write must
// hold whole characters.
type terminalSafe struct{ out io.Writer }

// Write returns the length of b if out takes all of its text.
func (t terminalSafe) Write(b []byte) (int, error) {
	if _, err := t.out.Write(escapeControls(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// escapeControls writes DEL, C1 and format characters of JSON as \uXXXX; they
// stand in strings only. JSON already escapes C0 controls. Bytes that are not
// UTF-8 become U+FFFD.
func escapeControls(encoded []byte) []byte {
	unsafe := func(r rune) bool { return r >= 0x7f && !unicode.IsPrint(r) }
	if utf8.Valid(encoded) && bytes.IndexFunc(encoded, unsafe) < 0 {
		return encoded
	}
	var safe bytes.Buffer
	for _, r := range string(encoded) {
		if !unsafe(r) {
			safe.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&safe, `\u%04x`, unit)
		}
	}
	return safe.Bytes()
}

// printDeadLetter prints all fields of a dead letter as text.
func printDeadLetter(out io.Writer, l storedLetter) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, row := range [][2]string{
		{"id", l.ID}, {"function", l.in.function}, {"given up", l.Time.UTC().Format(time.RFC3339Nano)}, {"attempts", attempts(l.DeadLetter)},
		{"range", l.Range}, {"epoch", strconv.FormatInt(l.Epoch, 10)}, {"lsn", strconv.FormatInt(l.LSN, 10)},
		{"key", l.Key}, {"operation", string(l.Operation)}, {"document id", l.DocumentID}, {"written", l.Written.UTC().Format(time.RFC3339)},
	} {
		fmt.Fprintf(t, "%s:\t%s\n", row[0], cell(row[1]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, part := range []struct{ name, text string }{
		{"document", string(l.Document)}, {"previous", string(l.Previous)}, {"error", redact.Text(l.Error)}, {"stack", redact.Text(l.Stack)},
	} {
		if part.text == "" {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s:\n%s\n", part.name, printableText(part.text)); err != nil {
			return err
		}
	}
	return nil
}
