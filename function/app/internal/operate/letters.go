package operate

import (
	"encoding/json"
	"errors"
	"io"
	"iter"

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
