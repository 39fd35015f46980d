package cosmos

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// scanDocuments finds the documents in the body of a feed page or query page,
// {_rid, Documents, _count}, and appends them to items. It does not decode
// them: one scan finds their bounds and, at the first level of each document,
// _lsn and _ts.
//
// The envelope must be valid JSON with exactly one Documents array, and its
// _count, if any, must equal the length of the array. Inside a document only
// strings and brackets are checked, so an otherwise invalid document is
// returned as it is, and its neighbours are not affected.
func scanDocuments(body []byte, items []Item) ([]Item, error) {
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

// maxDepth is the limit of encoding/json. Cosmos DB itself stores 128 levels.
const maxDepth = 10000

// scanner scans b and is at byte i.
type scanner struct {
	b     []byte
	i     int
	items []Item
	found bool  // Documents was seen
	count int64 // _count; -1 until seen

	braces [maxDepth/64 + 1]uint64 // one bit for each open bracket, by depth: 1 is a brace
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

// Property returns the raw value of a property of a JSON object, or nil if
// there is none or document is not an object. It decodes nothing. If a name
// occurs more than once, the last one counts, as in encoding/json.
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

// named scans the name of a property and reports whether it equals name.
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

// value scans any value. If the value is an object, value fills item from its
// properties.
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

// scalar scans a number or a literal without checking its spelling.
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

// brackets scans an object or array with all its contents.
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
			if depth++; depth > maxDepth-2 { // the envelope has two levels
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

// text scans a string from its opening quote.
func (s *scanner) text() error {
	end := closingQuote(s.b, s.i+1)
	if end < 0 {
		s.i = len(s.b)
		return s.unexpected()
	}
	s.i = end + 1
	return nil
}

// closingQuote returns the index of the quote that ends the string whose text
// begins at i, or -1.
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

// property sets a field of the item if b[from:end] is the name of one of its
// properties. If a name occurs more than once, the last one counts, as in
// encoding/json.
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

// propertyName returns the name if it may be _ts or _lsn, else "". These have
// at most 4 characters, and an escaped character takes 6 bytes.
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

// integer returns the integer at i, or 0 if there is none.
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

func skipSpace(b []byte, i int) int {
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	return i
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }
