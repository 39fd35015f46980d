package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"halley/handlers/property"
)

// Type is the type of a column in PostgreSQL.
type Type string

// The types of columns, with the JSON values that they take. Null and a missing property
// are NULL. Any other value of a document is refused, and the document is dead-lettered.
const (
	Text      Type = "text"        // any; objects and arrays as JSON
	Numeric   Type = "numeric"     // numbers, exactly
	BigInt    Type = "bigint"      // whole numbers of 64 bits
	Boolean   Type = "boolean"     // true and false
	Timestamp Type = "timestamptz" // texts in RFC 3339, and seconds since 1970 such as _ts
	JSON      Type = "jsonb"       // any
)

var types = []Type{Text, Numeric, BigInt, Boolean, Timestamp, JSON}

// inCatalog returns the name of the type as PostgreSQL prints it.
func (t Type) inCatalog() string {
	if t == Timestamp {
		return "timestamp with time zone"
	}
	return string(t)
}

// Column is a column of a view.
type Column struct {
	Name string
	Path property.Path // of the value in the document
	Type Type
}

// ParseColumns parses columns as the setting COLUMNS has them: "name=/path type, …". The
// type may be left out, and is text then.
func ParseColumns(text string) ([]Column, error) {
	var columns []Column
	for entry := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(entry) == "" {
			continue
		}
		c, err := parseColumn(entry)
		if err != nil {
			return nil, err
		}
		columns = append(columns, c)
	}
	return columns, nil
}

func parseColumn(entry string) (c Column, err error) {
	name, source, found := strings.Cut(entry, "=")
	fields := strings.Fields(source)
	if !found || len(fields) < 1 || len(fields) > 2 {
		return c, fmt.Errorf("%q is not a column: write name=/path or name=/path type", strings.TrimSpace(entry))
	}
	c.Name, c.Type = strings.TrimSpace(name), Text
	if len(fields) == 2 {
		c.Type = Type(fields[1])
	}
	if c.Path, err = property.Parse(fields[0]); err != nil {
		return c, fmt.Errorf("column %q: %w", c.Name, err)
	}
	return c, c.check()
}

// identifier is a name that PostgreSQL keeps as it is, quoted or not, except for its case.
var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,58}$`)

func (c Column) check() error {
	switch {
	case !identifier.MatchString(c.Name):
		return fmt.Errorf("%q is not a name of a column: use up to 59 letters, digits and underscores", c.Name)
	case slices.Contains(ownColumns, c.Name):
		return fmt.Errorf("the column %q belongs to the view itself: use another name", c.Name)
	case !slices.Contains(types, c.Type):
		return fmt.Errorf("column %q has the type %q: use one of %q", c.Name, c.Type, types)
	}
	return nil
}

var (
	errNUL       = errors.New("has the character U+0000, which PostgreSQL cannot store")
	errTooLong   = fmt.Errorf("is longer than %d bytes, too long to group by", maxGroup)
	errSurrogate = errors.New("has half of a surrogate pair, which is not text")
)

// maxGroup bounds a value to group by: an entry of an index holds all of them.
const maxGroup = 500

// value returns the text of a document's value for a parameter of the column's type, nil
// for NULL.
func (c Column) value(document json.RawMessage) (*string, error) {
	raw := c.Path.Of(document)
	if raw == nil || string(raw) == "null" {
		return nil, nil
	}
	text, err := c.Type.convert(raw)
	if err != nil {
		return nil, fmt.Errorf("column %q: the value at %s %w", c.Name, c.Path, err)
	}
	return &text, nil
}

func (t Type) convert(raw json.RawMessage) (string, error) {
	switch t {
	case Numeric:
		return number(raw)
	case BigInt:
		return wholeNumber(raw)
	case Boolean:
		if text := string(raw); text == "true" || text == "false" {
			return text, nil
		}
		return "", errors.New("is neither true nor false")
	case Timestamp:
		return timestamp(raw)
	case JSON:
		return string(raw), storable(raw)
	}
	if raw[0] != '"' {
		return string(raw), storable(raw)
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("is not a text: %w", err)
	}
	if strings.ContainsRune(text, 0) {
		return "", errNUL
	}
	return text, nil
}

// number keeps the digits of a JSON number.
func number(raw json.RawMessage) (string, error) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return "", errors.New("is not a number")
	}
	if err != nil || math.IsInf(f, 0) {
		return "", errors.New("is not a number that a double can hold")
	}
	return string(raw), nil
}

func wholeNumber(raw json.RawMessage) (string, error) {
	if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	f, err := strconv.ParseFloat(string(raw), 64) // 1e3, 5.0
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return "", errors.New("is not a whole number of 64 bits")
	}
	return strconv.FormatInt(int64(f), 10), nil
}

func timestamp(raw json.RawMessage) (string, error) {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if t, err := time.Parse(time.RFC3339Nano, text); err == nil && t.UTC().Year() > 0 {
			return t.UTC().Format(time.RFC3339Nano), nil
		}
	}
	if s, err := wholeNumber(raw); err == nil {
		if seconds, _ := strconv.ParseInt(s, 10, 64); seconds >= 0 && seconds < 253402300800 { // the year 10000
			return time.Unix(seconds, 0).UTC().Format(time.RFC3339), nil
		}
	}
	return "", errors.New("is not a time: write a text such as 2006-01-02T15:04:05Z, or seconds since 1970")
}

// storable refuses escapes in JSON that jsonb cannot hold.
func storable(raw json.RawMessage) error {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' || i+4 >= len(raw) {
			continue
		}
		unit, err := strconv.ParseUint(string(raw[i+1:i+5]), 16, 16)
		if err != nil {
			return fmt.Errorf("is not JSON: %w", err)
		}
		i += 4
		switch {
		case unit == 0:
			return errNUL
		case unit >= 0xDC00 && unit <= 0xDFFF:
			return errSurrogate
		case unit >= 0xD800 && unit <= 0xDBFF:
			if !lowSurrogate(raw[i+1:]) {
				return errSurrogate
			}
			i += 6
		}
	}
	if !utf8.Valid(raw) {
		return errors.New("is not UTF-8")
	}
	return nil
}

// lowSurrogate reports whether the escape of the second half of a surrogate pair follows.
func lowSurrogate(text json.RawMessage) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && unit >= 0xDC00 && unit <= 0xDFFF
}
