// Package text prepares texts for people: printable, on a line, in a cell of a table.
package text

import (
	"strconv"
	"strings"

	"halley/trigger/redact"
)

// Count is a number of things in words.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return strconv.Itoa(n) + " " + thing + "s"
}

// Cell shortens text to fit a table: its first line, printable, 80 characters at
// most.
func Cell(s string) string {
	const limit = 80
	s, _, _ = strings.Cut(s, "\n")
	if runes := []rune(Line(s)); len(runes) > limit {
		return string(runes[:limit]) + "…"
	}
	return Line(s)
}

// Line puts text on one line.
func Line(s string) string {
	return strings.NewReplacer("\n", " ", "\t", " ").Replace(Printable(s))
}

// OfError returns the text of an error for people: without the secrets of URLs, and
// printable.
func OfError(err error) string { return Printable(redact.Text(err.Error())) }

// Printable returns s with a question mark in place of each character that
// could control a terminal or reorder its text: C0 and C1 controls, bidirectional
// controls and other format characters. Line breaks and tabs stay.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !strconv.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
