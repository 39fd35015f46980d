// Package record has the format in which dead letters are stored, and their order.
package record

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

// Record is a dead letter whose JSON preserves every byte of the data from the
// feed.
type Record struct {
	trigger.DeadLetter
	Document    Image `json:"document,omitzero"` // these replace the fields of DeadLetter
	Previous    Image `json:"previous,omitzero"`
	DocumentKey Image `json:"documentKey,omitzero"`
}

// New returns the record of a dead letter.
func New(d trigger.DeadLetter) Record {
	d.Time, d.Written = d.Time.UTC(), d.Written.UTC()
	return Record{DeadLetter: d, Document: Image(d.Document), Previous: Image(d.Previous), DocumentKey: Image(d.DocumentKey)}
}

// Letter returns the dead letter of the record.
func (r Record) Letter() trigger.DeadLetter {
	d := r.DeadLetter
	d.Document, d.Previous, d.DocumentKey = json.RawMessage(r.Document), json.RawMessage(r.Previous), json.RawMessage(r.DocumentKey)
	return d
}

// Image is JSON from the feed, or any other bytes in its place. Its own JSON is
// a string of the text, or an object with the bytes if they are not UTF-8.
type Image []byte

type imageBytes struct {
	Base64 []byte `json:"base64"`
}

func (i Image) MarshalJSON() ([]byte, error) {
	if utf8.Valid(i) {
		return Marshal(string(i))
	}
	return Marshal(imageBytes{i})
}

func (i *Image) UnmarshalJSON(b []byte) error {
	if b[0] == '"' {
		var text string
		if err := json.Unmarshal(b, &text); err != nil {
			return err
		}
		*i = Image(text)
		return nil
	}
	var raw imageBytes
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	if raw.Base64 == nil {
		return errors.New("neither text nor base64")
	}
	*i = raw.Base64
	return nil
}

// Encode encodes a dead letter as one line of JSON, without an end of line.
func Encode(d trigger.DeadLetter) ([]byte, error) {
	return Marshal(New(d))
}

// Decode reverses Encode. If the record has a form of a later version, it returns the fields
// that tell which record it is, with the error of [trigger.DeadLetter.CheckForm].
func Decode(b []byte) (trigger.DeadLetter, error) {
	if d, err := later(b); err != nil {
		return d, err
	}
	var r Record
	if err := json.Unmarshal(b, &r); err != nil {
		return trigger.DeadLetter{}, fmt.Errorf("not a dead letter: %w", err)
	}
	if r.ID == "" {
		return trigger.DeadLetter{}, errors.New("not a dead letter: it has no id")
	}
	if err := r.CheckForm(); err != nil {
		return trigger.DeadLetter{}, err
	}
	return r.Letter(), nil
}

// later returns the name of a record with a form of a later version, and its error. Its other
// fields may have other types.
func later(b []byte) (trigger.DeadLetter, error) {
	var name struct {
		Version                                         int
		ID, Function, Account, Database, Container, Key string
		Kind                                            trigger.RecordKind
	}
	if json.Unmarshal(b, &name) != nil || name.Version <= trigger.DeadLetterVersion {
		return trigger.DeadLetter{}, nil
	}
	d := trigger.DeadLetter{
		Version: name.Version, ID: name.ID, Function: name.Function, Account: name.Account, Database: name.Database, Container: name.Container, Key: name.Key, Kind: name.Kind,
	}
	return d, d.CheckForm()
}

// Marshal is json.Marshal without escaping <, > and &.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Check rejects dead letters that could not be found again.
func Check(d trigger.DeadLetter) error {
	if err := d.CheckForm(); err != nil {
		return err
	}
	switch {
	case d.ID == "":
		return errors.New("the dead letter has no ID")
	case !utf8.ValidString(d.ID + d.Function + d.Account + d.Database + d.Container + d.Key + d.Range):
		return fmt.Errorf("dead letter %q: ID, function %q, its container, key and range must be UTF-8", d.ID, d.Function)
	}
	return nil
}

// Digest returns 32 hex digits that replace any text in the names of files,
// blobs and documents.
func Digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// SourceName returns a digest of a source, preceded by the characters of its
// function's name that every file system allows, so that an operator can recognise it.
func SourceName(source trigger.DeadLetterSource) string {
	plain := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, source.Function)
	if len(plain) > 40 {
		plain = plain[:40]
	}
	return strings.TrimPrefix(strings.Trim(plain, "-")+"-"+Digest(source.Function, source.Account, source.Database, source.Container), "-")
}
