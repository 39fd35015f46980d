package text

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-isatty"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// SafeWriter passes JSON to out with the characters escaped that could control a
// terminal or reorder its text. The values stay the same. A Write must hold whole
// characters, and returns the length of its bytes if out takes all of their text.
func SafeWriter(out io.Writer) io.Writer { return terminalSafe{out} }

// terminalSafe is the writer of SafeWriter.
type terminalSafe struct{ out io.Writer }

// Write implements [io.Writer].
func (t terminalSafe) Write(b []byte) (int, error) {
	if _, err := t.out.Write(EscapeControls(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

// EscapeControls writes DEL, C1 and format characters of JSON as \uXXXX; they
// stand in strings only. JSON already escapes C0 controls. Bytes that are not
// UTF-8 become U+FFFD.
func EscapeControls(encoded []byte) []byte {
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
