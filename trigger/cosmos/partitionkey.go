package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// PartitionKey is the value of a document's partition key: one component, or
// one for each level of a hierarchical key. Only a [Query] may have the zero
// value.
type PartitionKey struct {
	header string // value of x-ms-documentdb-partitionkey
	err    error  // of NewPartitionKey; the operation that gets the key returns it
}

type undefined struct{}

// Undefined is the component for a document that lacks the partition key
// property.
var Undefined undefined

// NewPartitionKey returns a key of the given components: each a string, a bool,
// nil, [Undefined], a float64 or an integer. If a component has another type or
// is not finite, the operation that gets the key returns an error. Keys that are equal to
// Cosmos DB have equal text: -0.0 is written as 0.
func NewPartitionKey(values ...any) PartitionKey {
	if len(values) == 0 {
		return PartitionKey{err: errors.New("partition key has no components: pass a value, nil or Undefined")}
	}
	b := []byte{'['}
	for i, v := range values {
		if i > 0 {
			b = append(b, ',')
		}
		var err error
		if b, err = appendComponent(b, v); err != nil {
			return PartitionKey{err: fmt.Errorf("partition key component %d: %w", i+1, err)}
		}
	}
	return PartitionKey{header: string(append(b, ']'))}
}

// String returns the key as a JSON array.
func (k PartitionKey) String() string { return k.header }

func (k PartitionKey) check() error {
	if k.err == nil && k.header == "" {
		return errors.New("no partition key: pass NewPartitionKey(…)")
	}
	return k.err
}

func appendComponent(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return appendASCII(b, v), nil
	case undefined:
		return append(b, "{}"...), nil
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%v is not a finite number", v)
		}
		text, err := json.Marshal(v + 0) // -0 + 0 is 0
		return append(b, text...), err
	case float32:
		text, err := json.Marshal(v + 0)
		return append(b, text...), err
	case nil, bool, int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
	default:
		return nil, fmt.Errorf("a %T cannot be a partition key: pass a string, number, bool, nil or Undefined", v)
	}
	text, err := json.Marshal(v)
	return append(b, text...), err
}

// appendASCII appends s as a JSON string of ASCII characters, because header
// values must be ASCII.
func appendASCII(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= ' ' && r < utf8.RuneSelf-1:
			b = append(b, byte(r))
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			b = appendEscape(appendEscape(b, hi), lo)
		default:
			b = appendEscape(b, r)
		}
	}
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	b = append(b, '\\', 'u')
	for digits := len(strconv.FormatInt(int64(r), 16)); digits < 4; digits++ {
		b = append(b, '0')
	}
	return strconv.AppendInt(b, int64(r), 16)
}
