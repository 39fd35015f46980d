package cosmos

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf16"

	"github.com/twmb/murmur3"
)

// The types of a component, PartitionKeyComponentType in azure-cosmos-dotnet-v3.
const (
	typeUndefined = 0x00
	typeNull      = 0x01
	typeFalse     = 0x02
	typeTrue      = 0x03
	typeNumber    = 0x05
	typeString    = 0x08
)

// EffectiveKey returns the place of a logical partition key in the key space, as the
// bounds of a [Range] are: upper-case hex. key is a JSON array of its values, with {} for
// an undefined one, as [PartitionKey.String] and the runtime write it. All keys of a
// container without paths are one, at the beginning of the key space. The algorithms are
// those of PartitionKeyInternal in azure-cosmos-dotnet-v3 (branch msdata/direct).
func (d PartitionKeyDefinition) EffectiveKey(key string) (string, error) {
	var values []any
	if err := json.Unmarshal([]byte(key), &values); err != nil {
		return "", fmt.Errorf("partition key %s: %w", key, err)
	}
	if len(d.Paths) == 0 {
		return "", nil // of PartitionKeyInternal.Empty
	}
	if len(values) != len(d.Paths) {
		return "", fmt.Errorf("partition key %s has %d values, the container has %d paths", key, len(values), len(d.Paths))
	}
	switch {
	case d.Kind == "MultiHash":
		var all []byte
		for _, v := range values {
			all = append(all, hashValue(v)...)
		}
		return upperHex(all), nil
	case d.Version == 2:
		return upperHex(hashValue(values[0])), nil
	}
	return upperHex(hashValueV1(values[0])), nil
}

func upperHex(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }

// hashValue is version 2 of the hash: 128 bits, the two highest cleared.
func hashValue(v any) []byte {
	low, high := murmur3.Sum128(typedValue(v, 0xFF))
	hash := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, high), low)
	hash[0] &= 0x3F
	return hash
}

// typedValue is the input of the hash: the type of a value, and its bytes.
func typedValue(v any, endOfText byte) []byte {
	switch v := v.(type) {
	case nil:
		return []byte{typeNull}
	case bool:
		if v {
			return []byte{typeTrue}
		}
		return []byte{typeFalse}
	case float64:
		return binary.LittleEndian.AppendUint64([]byte{typeNumber}, math.Float64bits(v+0)) // not -0
	case string:
		return append(append([]byte{typeString}, v...), endOfText)
	}
	return []byte{typeUndefined}
}

// hashedText is the number of UTF-16 units of a string that version 1 hashes.
const hashedText = 100

// hashValueV1 is version 1: a hash of 32 bits as a sortable number, and the sortable value.
func hashValueV1(v any) []byte {
	if text, isText := v.(string); isText {
		if units := utf16.Encode([]rune(text)); len(units) > hashedText {
			v = string(utf16.Decode(units[:hashedText]))
		}
	}
	return append(sortableNumber(float64(murmur3.Sum32(typedValue(v, 0)))), sortableValue(v)...)
}

func sortableValue(v any) []byte {
	switch v := v.(type) {
	case float64:
		return sortableNumber(v + 0)
	case string:
		b := []byte{typeString}
		for i := range min(len(v), hashedText+1) {
			b = append(b, v[i]+1)
		}
		if len(v) <= hashedText {
			b = append(b, 0)
		}
		return b
	}
	return typedValue(v, 0)
}

// sortableNumber encodes a number so that its bytes sort as numbers do: the first eight
// bits, then seven in a byte, whose lowest bit says that more follow.
func sortableNumber(n float64) []byte {
	bits := math.Float64bits(n)
	if bits&(1<<63) == 0 {
		bits |= 1 << 63
	} else {
		bits = -bits
	}
	b := []byte{typeNumber, byte(bits >> 56)}
	for bits <<= 8; ; {
		part := byte(bits>>56) &^ 1
		if bits <<= 7; bits == 0 {
			return append(b, part)
		}
		b = append(b, part|1)
	}
}
