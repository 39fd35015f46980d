package cosmos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// cutDocuments cuts the body of a feed or query, {_rid, Documents, _count}, at
// the bounds of its documents and appends them to items. Nothing is decoded:
// one scan finds the bounds and, at the first level of each document, _lsn and
// _ts.
//
// The envelope must be JSON, hold one Documents array, and its _count, if any,
// must be the array's length. Inside a document only strings and brackets are
// looked at, so one that is not JSON otherwise comes out as it is, between its
// sound neighbours.
func cutDocuments(body []byte, items []Item) ([]Item, error) {
	s := scanner{b: body, items: items, count: -1}
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

// maxDepth is what encoding/json takes. Cosmos DB itself stores 128 levels.
const maxDepth = 10000

// scanner is at byte i of b.
type scanner struct {
	b     []byte
	i     int
	items []Item
	found bool
	count int64 // -1 until found

	braces [maxDepth/64 + 1]uint64 // open brackets by depth: 1 is a brace
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

// property takes one property of the envelope.
func (s *scanner) property() error {
	name, err := s.name()
	if err != nil {
		return err
	}
	if err := s.expect(':'); err != nil {
		return err
	}
	if name == "Documents" {
		return s.documents()
	}
	s.next()
	from := s.i
	if err := s.value(nil); err != nil {
		return err
	}
	value := s.b[from:s.i]
	if !json.Valid(value) {
		return fmt.Errorf("its property %q is not JSON, at byte %d", printable(name), from)
	}
	if name != "_count" {
		return nil
	}
	if s.count, err = strconv.ParseInt(string(value), 10, 64); err != nil || s.count < 0 {
		return fmt.Errorf("its _count is not a number of documents, at byte %d", from)
	}
	return nil
}

func (s *scanner) name() (string, error) {
	if s.next() != '"' {
		return "", s.unexpected()
	}
	from := s.i
	if err := s.text(); err != nil {
		return "", err
	}
	var name string
	if err := json.Unmarshal(s.b[from:s.i], &name); err != nil {
		return "", fmt.Errorf("it is not JSON, at byte %d", from)
	}
	return name, nil
}

// Property is the value of a property of a JSON object, as it stands in the
// document; nil where there is none or the document is no object. The last of
// equal names holds, as in encoding/json, and nothing is decoded.
func Property(document []byte, name string) []byte {
	s := scanner{b: document}
	if s.expect('{') != nil {
		return nil
	}
	var found []byte
	for s.next() != '}' {
		same, err := s.named(name)
		if err != nil || s.expect(':') != nil {
			return nil
		}
		s.next()
		from := s.i
		if s.value(nil) != nil {
			return nil
		}
		if same {
			found = s.b[from:s.i:s.i]
		}
		if s.next() != '}' && s.expect(',') != nil {
			return nil
		}
	}
	return found
}

// named takes a property's name and reports whether it is the given one.
func (s *scanner) named(name string) (bool, error) {
	if s.next() != '"' {
		return false, s.unexpected()
	}
	from := s.i
	if err := s.text(); err != nil {
		return false, err
	}
	quoted := s.b[from:s.i]
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1:len(quoted)-1]) == name, nil
	}
	var unquoted string
	err := json.Unmarshal(quoted, &unquoted)
	return unquoted == name, err
}

// documents takes the array, an item for each element.
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
		var item Item
		if err := s.value(&item); err != nil {
			return err
		}
		item.Document = s.b[from:s.i:s.i]
		s.items = append(s.items, item)
		if s.next() == ']' {
			s.i++
			return nil
		}
		if err := s.expect(','); err != nil {
			return err
		}
	}
}

// value takes any value from its first byte to its last. It fills item from
// the value's own properties, if it is an object.
func (s *scanner) value(item *Item) error {
	if s.i >= len(s.b) {
		return s.unexpected()
	}
	switch s.b[s.i] {
	case '{', '[':
		return s.brackets(item)
	case '"':
		return s.text()
	}
	return s.scalar()
}

// scalar takes a number or a word, whatever it spells.
func (s *scanner) scalar() error {
	from := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == ',' || c == ']' || c == '}' || isSpace(c):
			if s.i == from {
				return s.unexpected()
			}
			return nil
		case c == '"' || c == '{' || c == '[' || c == ':' || c < ' ':
			return s.unexpected()
		}
	}
	return s.unexpected()
}

// brackets takes an object or array with all that it holds.
func (s *scanner) brackets(item *Item) error {
	b, depth := s.b, 0
	for i := s.i; i < len(b); i++ {
		switch b[i] {
		case '"':
			end := closingQuote(b, i+1)
			if end < 0 {
				s.i = len(b)
				return s.unexpected()
			}
			if depth == 1 && item != nil {
				item.property(b, i+1, end)
			}
			i = end
		case '{', '[':
			if depth++; depth > maxDepth-2 { // the envelope is two levels
				return errTooDeep
			}
			s.open(depth, b[i] == '{')
		case '}', ']':
			if s.isBrace(depth) != (b[i] == '}') {
				s.i = i
				return s.unexpected()
			}
			if depth--; depth == 0 {
				s.i = i + 1
				return nil
			}
		}
	}
	s.i = len(b)
	return s.unexpected()
}

func (s *scanner) open(depth int, brace bool) {
	word, bit := depth/64, uint64(1)<<(depth%64)
	if brace {
		s.braces[word] |= bit
		return
	}
	s.braces[word] &^= bit
}

func (s *scanner) isBrace(depth int) bool { return s.braces[depth/64]>>(depth%64)&1 == 1 }

// text takes a string from its opening quote.
func (s *scanner) text() error {
	end := closingQuote(s.b, s.i+1)
	if end < 0 {
		s.i = len(s.b)
		return s.unexpected()
	}
	s.i = end + 1
	return nil
}

// closingQuote finds the quote that ends the string whose text begins at i, or
// returns -1.
func closingQuote(b []byte, i int) int {
	for from := i; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		if i == from || b[i-1] != '\\' {
			return i
		}
		slashes := 1
		for j := i - 2; j >= from && b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
		i++
	}
}

// property takes what an item needs from the property whose name is
// b[from:end], if it is one. As in encoding/json the last of equal names holds.
func (t *Item) property(b []byte, from, end int) {
	var to *int64
	switch propertyName(b[from:end]) {
	case "_lsn":
		to = &t.LSN
	case "_ts":
		to = &t.Timestamp
	default:
		return
	}
	if i := skipSpace(b, end+1); i < len(b) && b[i] == ':' {
		*to = integer(b, skipSpace(b, i+1))
	}
}

// propertyName is the name where it may be one of ours, else "". Ours have at
// most 4 characters, and an escaped character takes 6.
func propertyName(quoted []byte) string {
	switch n := len(quoted); {
	case n == 3 && string(quoted) == "_ts":
		return "_ts"
	case n == 4 && string(quoted) == "_lsn":
		return "_lsn"
	case n <= 4 || n > 4*6 || quoted[0] != '_' && quoted[0] != '\\' || bytes.IndexByte(quoted, '\\') < 0:
		return ""
	}
	var name string
	if json.Unmarshal(append(append([]byte{'"'}, quoted...), '"'), &name) != nil {
		return ""
	}
	return name
}

// integer reads the number at i, or returns 0 if it is not an integer.
func integer(b []byte, i int) int64 {
	end := i
	for end < len(b) && (b[end] == '-' || b[end] >= '0' && b[end] <= '9') {
		end++
	}
	if end < len(b) && b[end] != ',' && b[end] != '}' && !isSpace(b[end]) {
		return 0
	}
	n, err := strconv.ParseInt(string(b[i:end]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// next moves to the next byte that is not white space, and returns it, or 0 at
// the end.
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

// unexpected is the error for the byte at i. It shows nothing of the body.
func (s *scanner) unexpected() error {
	if s.i >= len(s.b) {
		return fmt.Errorf("it is truncated, at byte %d", len(s.b))
	}
	return fmt.Errorf("it is not JSON, at byte %d", s.i)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
