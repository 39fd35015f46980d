package epk

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strings"
	"unicode/utf16"

	"github.com/twmb/murmur3"
)

// maxString is the length of strings in hash version 1: they are cut after 100
// UTF-16 units when they are hashed, and after 101 bytes when they are encoded
// (StringPartitionKeyComponent in azure-cosmos-dotnet-v3).
const maxString = 100

// Hash returns the effective partition key of k. If k is empty, that is "", the
// start of the key space. If the kind is MultiHash and k has fewer components than
// there are paths, it is the common prefix of all keys below k; see
// [Definition.Span].
func (d Definition) Hash(k Key) string {
	switch {
	case len(k) == 0:
		return ""
	case d.Kind == MultiHash:
		return hashMulti(k)
	case d.Version == 2:
		return hashV2(k)
	}
	return hashV1(k)
}

func hashMulti(k Key) string {
	var epk strings.Builder
	for i := range k {
		epk.WriteString(hashV2(k[i : i+1]))
	}
	return epk.String()
}

// hashV2 is MurmurHash3 x64-128 over all components, most significant byte
// first, with the top two bits cleared.
func hashV2(k Key) string {
	var input []byte
	for _, c := range k {
		input = c.appendHashed(input, 0xFF)
	}
	h1, h2 := murmur3.Sum128(input)
	sum := binary.BigEndian.AppendUint64(nil, h2)
	sum = binary.BigEndian.AppendUint64(sum, h1)
	sum[0] &= 0x3F
	return encodeHex(sum)
}

// hashV1 is MurmurHash3 x86-32 over all components, written as a number and
// followed by the components themselves.
func hashV1(k Key) string {
	var input, values []byte
	for _, c := range k {
		c.text = truncate(c.text)
		input = c.appendHashed(input, 0x00)
		values = c.appendOrdered(values)
	}
	epk := appendNumber(nil, float64(murmur3.Sum32(input)))
	return encodeHex(append(epk, values...))
}

// appendHashed appends c in the form that the hash functions read.
func (c Component) appendHashed(b []byte, stringEnd byte) []byte {
	b = append(b, c.marker)
	switch c.marker {
	case markNumber:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(c.number))
	case markString:
		return append(append(b, c.text...), stringEnd)
	}
	return b
}

// appendOrdered appends the encoding whose bytes sort like the values.
func (c Component) appendOrdered(b []byte) []byte {
	switch c.marker {
	case markNumber:
		return appendNumber(b, c.number)
	case markString:
		return appendString(b, c.text)
	}
	return append(b, c.marker)
}

// appendNumber writes the first byte of the sortable bits whole and the rest in
// groups of seven. The low bit of a group is set if more groups follow.
func appendNumber(b []byte, n float64) []byte {
	bits := math.Float64bits(n)
	if bits>>63 == 0 {
		bits |= 1 << 63
	} else {
		bits = -bits
	}
	b = append(b, markNumber, byte(bits>>56))
	for bits <<= 8; ; {
		group := byte(bits>>56) &^ 1
		if bits <<= 7; bits == 0 {
			return append(b, group)
		}
		b = append(b, group|1)
	}
}

// appendString writes each byte plus one. If the string was not cut, 00 ends it.
func appendString(b []byte, s string) []byte {
	b = append(b, markString)
	for i := range min(len(s), maxString+1) {
		b = append(b, s[i]+1)
	}
	if len(s) <= maxString {
		b = append(b, 0x00)
	}
	return b
}

// truncate keeps the first 100 UTF-16 units of s. If the cut halves a surrogate
// pair, its half becomes U+FFFD, as .NET encodes a lone surrogate.
func truncate(s string) string {
	if len(s) <= maxString {
		return s
	}
	units := utf16.Encode([]rune(s))
	if len(units) <= maxString {
		return s
	}
	return string(utf16.Decode(units[:maxString]))
}

func encodeHex(b []byte) string { return strings.ToUpper(hex.EncodeToString(b)) }
