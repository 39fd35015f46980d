package cosmos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// scanDocuments finds the documents in the body of a feed page or query page,
// {_rid, Documents, _count}, and appends them to items. It does not decode
// them: one scan finds their bounds and, at the first level of each document,
// id, _lsn, _ts and, if keyProperty is not empty, the property of that name.
//
// The body must be valid JSON in valid UTF-8 with exactly one Documents array, and
// its _count, if any, must equal the length of the array. A page that was damaged on
// its way is therefore an error, and not a page with other documents.
func scanDocuments(body []byte, items []Item, keyProperty string) ([]Item, error) {
	s := scanner{text: newText(body), items: items, count: -1, keyProperty: keyProperty}
	if err := s.envelope(); err != nil {
		return nil, fmt.Errorf("answer is not a page of documents: %w", err)
	}
	return s.items, nil
}

var (
	errNoDocuments  = errors.New("it has no Documents array")
	errTwoDocuments = errors.New("it has two Documents arrays")
	errTooDeep      = fmt.Errorf("it nests deeper than %d levels", maxDepth)
)

// scanner scans b and is at byte i.
type scanner struct {
	text
	i     int
	items []Item
	found bool  // Documents was seen
	count int64 // _count; -1 until seen

	keyProperty string // of documents, see [FeedRequest]
}

func (s *scanner) envelope() error {
	if err := s.expect('{'); err != nil {
		return err
	}
	if s.next() == '}' {
		return errNoDocuments
	}
	for {
		if err := s.property(); err != nil {
			return err
		}
		if s.next() == '}' {
			break
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
	s.i++
	if s.next(); s.i < len(s.b) {
		return s.unexpected()
	}
	return s.check()
}

func (s *scanner) check() error {
	if !s.found {
		return errNoDocuments
	}
	if s.count >= 0 && s.count != int64(len(s.items)) {
		return fmt.Errorf("its _count is %d but it has %d Documents", s.count, len(s.items))
	}
	return nil
}

// property scans one property of the envelope.
func (s *scanner) property() error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if err := s.expect(':'); err != nil {
		return err
	}
	if string(name) == "Documents" {
		return s.documents()
	}
	s.next()
	from := s.i
	if err := s.value(1, nil); err != nil || string(name) != "_count" {
		return err
	}
	if s.count, err = strconv.ParseInt(string(s.b[from:s.i]), 10, 64); err != nil || s.count < 0 {
		return fmt.Errorf("its _count is not a number of documents, at byte %d", from)
	}
	return nil
}

// name scans the name of a property and returns it unescaped.
func (s *scanner) name() ([]byte, error) {
	if s.next() != '"' {
		return nil, s.unexpected()
	}
	from := s.i
	if err := s.quoted(); err != nil {
		return nil, err
	}
	quoted := s.b[from:s.i]
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var name string
	err := json.Unmarshal(quoted, &name)
	return []byte(name), err
}

// Property returns the raw value of a property of a JSON object, or nil if
// there is none or document is not an object. It decodes nothing. If a name
// occurs more than once, the last one counts, as in encoding/json. What comes after
// a property that cannot occur again is not checked.
func Property(document []byte, name string) []byte {
	if !mayName(document, name) {
		return nil
	}
	s := scanner{text: newBeginning(document)}
	if s.expect('{') != nil {
		return nil
	}
	var found []byte
	for s.next() != '}' {
		property, err := s.name()
		if err != nil || s.expect(':') != nil {
			return nil
		}
		s.next()
		from := s.i
		if s.value(1, nil) != nil {
			return nil
		}
		if string(property) == name {
			found = s.b[from:s.i:s.i]
			if !mayName(s.b[s.i:], name) {
				return found
			}
		}
		if s.next() != '}' && s.expect(',') != nil {
			return nil
		}
	}
	return found
}

// mayName reports whether a part of a document may have a property, as it is or with escapes.
// It saves most scans to the end of a document.
func mayName(part []byte, name string) bool {
	if strings.ContainsAny(name, "\"\\/\b\f\n\r\t") { // they have escapes of their own
		return true
	}
	var buffer [64]byte
	quoted := append(append(append(buffer[:0], '"'), name...), '"')
	return bytes.Contains(part, quoted) || bytes.Contains(part, unicodeEscape)
}

// unicodeEscape begins the escape of a character by its number.
var unicodeEscape = []byte(`\u`)

// documents scans the Documents array into items.
func (s *scanner) documents() error {
	if s.found {
		return errTwoDocuments
	}
	if s.next() != '[' && s.i < len(s.b) {
		return errNoDocuments
	}
	if err := s.expect('['); err != nil {
		return err
	}
	s.found = true
	if s.next() == ']' {
		s.i++
		return nil
	}
	for {
		s.next()
		from := s.i
		s.items = append(s.items, Item{})
		item := &s.items[len(s.items)-1]
		if err := s.value(2, &foundProperties{item: item, start: from, keyProperty: s.keyProperty}); err != nil {
			return err
		}
		item.Document = s.b[from:s.i:s.i]
		if s.next() == ']' {
			s.i++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// value scans any value inside depth others. If the value is an object, value shows its
// properties to found.
func (s *scanner) value(depth int, found *foundProperties) error {
	end := s.skipValue(s.i, depth, found)
	if end == tooDeep {
		return errTooDeep
	}
	return s.moveTo(end)
}

// quoted scans a string from its opening quote.
func (s *scanner) quoted() error { return s.moveTo(s.skipString(s.i + 1)) }

// moveTo moves to an index that a skip function returned.
func (s *scanner) moveTo(end int) error {
	if end < 0 {
		s.i = ^end
		return s.unexpected()
	}
	s.i = end
	return nil
}

// foundProperties are the properties of a document that are fields of its item.
type foundProperties struct {
	item        *Item
	start       int    // of the document
	keyProperty string // name of the property of the item's KeyPlace, or ""
}

// mayBe reports whether property has a use for a name of n bytes.
func (f *foundProperties) mayBe(n int) bool {
	return n == len("id") || n == len("_ts") || n == len("_lsn") || n == len(f.keyProperty)
}

// property sets a field of the item if a property is one of its own. If a name
// occurs more than once, the last one counts, as in encoding/json. quoted is the name as it is
// written between quotes, and isPlain tells that no character of it is escaped. The value
// is at byte i of the page.
func (f *foundProperties) property(quoted, value []byte, i int, isPlain bool) {
	name := quoted
	if !isPlain && bytes.IndexByte(quoted, '\\') >= 0 {
		name = []byte(unquote(quoted))
	}
	place := Place{uint32(i - f.start), uint32(i - f.start + len(value))}
	switch string(name) {
	case "id":
		f.item.IDPlace = place
	case "_lsn":
		f.item.LSN = integer(value)
	case "_ts":
		f.item.Timestamp = integer(value)
	}
	if f.keyProperty != "" && string(name) == f.keyProperty {
		f.item.KeyPlace = place
	}
}

// unquote returns the name that is written between quotes.
func unquote(quoted []byte) (name string) {
	if json.Unmarshal(append(append([]byte{'"'}, quoted...), '"'), &name) != nil {
		return ""
	}
	return name
}

// integer returns a number, or 0 if the value is not an integer.
func integer(value []byte) int64 {
	if n, ok := digits(value); ok {
		return n
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// digits reads a number of 18 digits or fewer, without a copy.
func digits(value []byte) (n int64, ok bool) {
	for _, c := range value {
		if c-'0' > 9 {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, len(value) <= 18
}

// next skips white space and returns the next byte, or 0 at the end.
func (s *scanner) next() byte {
	if s.i = skipSpace(s.b, s.i); s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.next() != c || s.i >= len(s.b) {
		return s.unexpected()
	}
	s.i++
	return nil
}

// unexpected returns the error for the byte at i. It contains no part of the
// body.
func (s *scanner) unexpected() error {
	if s.i >= len(s.b) {
		return fmt.Errorf("it is truncated, at byte %d", len(s.b))
	}
	return fmt.Errorf("it is not JSON, at byte %d", s.i)
}
