package deadletter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"halley/trigger"
)

// record is a letter as JSON that keeps every byte of the document.
type record struct {
	trigger.DeadLetter
	Text  *string `json:"document,omitempty"`      // in place of the letter's own field
	Bytes []byte  `json:"documentBytes,omitempty"` // of a document that is not UTF-8
}

func newRecord(d trigger.DeadLetter) record {
	d.Time, d.Written = d.Time.UTC(), d.Written.UTC()
	if !utf8.Valid(d.Document) {
		return record{DeadLetter: d, Bytes: d.Document}
	}
	text := string(d.Document)
	return record{DeadLetter: d, Text: &text}
}

func (r record) letter() trigger.DeadLetter {
	d := r.DeadLetter
	if r.Text != nil {
		d.Document = json.RawMessage(*r.Text)
	} else {
		d.Document = r.Bytes
	}
	return d
}

// encode writes a letter as one line of JSON, without an end of line.
func encode(d trigger.DeadLetter) ([]byte, error) {
	return marshal(newRecord(d))
}

func decode(b []byte) (trigger.DeadLetter, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return trigger.DeadLetter{}, fmt.Errorf("not a dead letter: %w", err)
	}
	if r.ID == "" || r.Text == nil && r.Bytes == nil {
		return trigger.DeadLetter{}, errors.New("not a dead letter: it has no id or no document")
	}
	return r.letter(), nil
}

// marshal is json.Marshal that leaves <, > and & readable.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// check refuses letters that could not be found again.
func check(d trigger.DeadLetter) error {
	switch {
	case d.ID == "":
		return errors.New("the letter has no ID")
	case !utf8.ValidString(d.ID), !utf8.ValidString(d.Function), !utf8.ValidString(d.Key), !utf8.ValidString(d.Range):
		return fmt.Errorf("letter %q: ID, function %q, key and range must be UTF-8", d.ID, d.Function)
	}
	return nil
}

// digest stands for text in the names of files, blobs and documents: 32 hex
// digits, whatever is in it.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// readable is a digest with as much of the text ahead of it as every file system
// takes, for people who look for it.
func readable(text string) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, text)
	if len(plain) > 40 {
		plain = plain[:40]
	}
	return strings.TrimPrefix(strings.Trim(plain, "-")+"-"+digest(text), "-")
}
