package apptest

import (
	"strings"
	"testing"
	"unicode"
)

// Hostile holds one character of each kind that controls a terminal: C0, DEL, C1
// as a character and as a byte, bidirectional override and isolate, a mark, a
// zero-width space and a byte order mark.
const Hostile = "a\x1b]0;t\x07\x7f\u009b31m\x9b\u202e\u2066\u200f\u200b\ufeffz"

// CheckTerminal fails if out has a character that controls a terminal.
func CheckTerminal(t *testing.T, name, out string) {
	t.Helper()
	for i, r := range out {
		if r != '\n' && !unicode.IsPrint(r) || r == unicode.ReplacementChar && out[i] != "\uFFFD"[0] {
			t.Errorf("%s: character %U in %q", name, r, out)
			return
		}
	}
	if !strings.Contains(out, "z") {
		t.Errorf("%s: the text is not there: %q", name, out)
	}
}
