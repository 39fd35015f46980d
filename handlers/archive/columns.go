package archive

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// Column is a column of its own for a value inside of the documents.
type Column struct {
	Name string
	Type ColumnType
	Path []string // names of properties, from the first level on
}

// ColumnType is the type of a column.
type ColumnType string

// The types. A value that is not of its column's type is null there; the column
// document has it nevertheless.
const (
	TextColumn    ColumnType = "string"
	IntegerColumn ColumnType = "long"      // a whole number of 64 bits
	NumberColumn  ColumnType = "double"    // any number
	BooleanColumn ColumnType = "boolean"   // true or false
	TimeColumn    ColumnType = "timestamp" // a text in RFC 3339, or seconds since 1970
)

// Columns is a setting of the form total:double=/order/total,country:string=/country.
type Columns []Column

var columnPattern = regexp.MustCompile(`^([a-z][a-z0-9_]*):(string|long|double|boolean|timestamp)=(/[^,]+)$`)

// Decode implements envconfig's Decoder.
func (c *Columns) Decode(text string) error {
	*c = nil
	if text == "" {
		return nil
	}
	for one := range strings.SplitSeq(text, ",") {
		found := columnPattern.FindStringSubmatch(strings.TrimSpace(one))
		if found == nil {
			return fmt.Errorf("%q is not a column: write name:type=/path, such as total:double=/order/total; types are string, long, double, boolean and timestamp", one)
		}
		*c = append(*c, Column{Name: found[1], Type: ColumnType(found[2]), Path: strings.Split(found[3][1:], "/")})
	}
	return c.validate()
}

// String returns the setting.
func (c Columns) String() string {
	texts := make([]string, len(c))
	for i, column := range c {
		texts[i] = fmt.Sprintf("%s:%s=/%s", column.Name, column.Type, strings.Join(column.Path, "/"))
	}
	return strings.Join(texts, ",")
}

// validate refuses names that occur twice.
func (c Columns) validate() error {
	taken := slices.Clone(fixedColumns())
	for _, column := range c {
		if slices.Contains(taken, column.Name) {
			return fmt.Errorf("column %q exists: choose another name", column.Name)
		}
		taken = append(taken, column.Name)
	}
	return nil
}

// fixedColumns are those of every blob, and the partitions of time.
func fixedColumns() []string {
	names := []string{"dt", "hour"}
	for field := range reflect.TypeFor[Record]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// valueOf returns the value of the column in a document: a string, an int64, a float64,
// a bool, a time, or nil.
func (c Column) valueOf(document json.RawMessage) any {
	for _, name := range c.Path {
		if document = cosmos.Property(document, name); document == nil {
			return nil
		}
	}
	var value any
	if json.Unmarshal(document, &value) != nil {
		return nil
	}
	switch c.Type {
	case IntegerColumn:
		var n int64
		if _, ok := value.(float64); !ok || json.Unmarshal(document, &n) != nil {
			return nil
		}
		return n
	case TimeColumn:
		return timeOf(value)
	case TextColumn:
		return only[string](value)
	case NumberColumn:
		return only[float64](value)
	}
	return only[bool](value)
}

// only returns a value if it has a type, else nil.
func only[T any](value any) any {
	if v, ok := value.(T); ok {
		return v
	}
	return nil
}

// latestSecond is the last second of the year 9999.
const latestSecond = 253402300799

func timeOf(value any) any {
	switch v := value.(type) {
	case string:
		if t, err := time.Parse(time.RFC3339, v); err == nil {
			return t.UTC()
		}
	case float64:
		if math.Abs(v) <= latestSecond {
			return time.UnixMilli(int64(v * 1000)).UTC()
		}
	}
	return nil
}
