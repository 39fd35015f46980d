package binaryjson

import (
	"encoding/base64"
	"errors"
	"fmt"
	"unicode/utf8"
)

// systemStrings are the strings of one byte: JsonBinaryEncoding.SystemStrings.cs of
// azure-cosmos-dotnet-v3.
var systemStrings = [32]string{
	"$s", "$t", "$v", "_attachments", "_etag", "_rid", "_self", "_ts", "attachments/", "coordinates", "geometry",
	"GeometryCollection", "id", "url", "Value", "label", "LineString", "link", "MultiLineString", "MultiPoint",
	"MultiPolygon", "name", "Name", "Type", "Point", "Polygon", "properties", "type", "value", "Feature",
	"FeatureCollection", "_id",
}

// Alphabets of strings with 4 bits for each character.
const (
	lowerHex = "0123456789abcdef"
	upperHex = "0123456789ABCDEF"
	dateTime = " 0123456789:-.TZ"
)

// isString reports whether the value of a marker is a string: all from the strings of one
// byte to the references.
func isString(marker byte) bool { return marker >= 0x20 && marker < 0xC7 }

func isReference(marker byte) bool { return marker >= 0xC3 && marker < 0xC7 }

// string returns the string that follows its marker.
func (d *decoder) string(marker byte) []byte {
	switch {
	case marker < 0x40:
		return []byte(systemStrings[marker-0x20])
	case marker < 0x68:
		d.fail(errors.New("a string is one of a dictionary of the client, which is not part of the body"))
		return nil
	case marker < Preamble:
		return d.packed(marker)
	case marker < 0xC0: // with its length
		return d.take(int(marker & 0x7F))
	case marker < 0xC3:
		return d.take(d.length(1 << (marker - 0xC0)))
	}
	return d.reference(d.length(int(marker) - 0xC2))
}

// reference returns the string that begins at an earlier or later byte, which is not itself
// a reference.
func (d *decoder) reference(target int) []byte {
	if d.err != nil {
		return nil
	}
	if target >= len(d.data) || !isString(d.data[target]) || isReference(d.data[target]) {
		d.fail(fmt.Errorf("no string is at byte %d, to which a reference points", target))
		return nil
	}
	next := d.pos
	d.pos = target + 1
	text := d.string(d.data[target])
	d.pos = next
	return text
}

// packed returns a string that takes fewer bytes than it has characters.
func (d *decoder) packed(marker byte) []byte {
	switch marker {
	case 0x71, 0x72:
		return d.base64(base64.StdEncoding, int(marker)-0x70)
	case 0x73, 0x74:
		return d.base64(base64.URLEncoding, int(marker)-0x72)
	case 0x75:
		return dashed(d.characters(lowerHex, 32))
	case 0x76:
		return dashed(d.characters(upperHex, 32))
	case 0x77:
		return append(append([]byte{'"'}, dashed(d.characters(lowerHex, 32))...), '"')
	case 0x78:
		return d.characters(lowerHex, d.length(1))
	case 0x79:
		return d.characters(upperHex, d.length(1))
	case 0x7A:
		return d.characters(dateTime, d.length(1))
	case 0x7B, 0x7C, 0x7D:
		count := d.length(1)
		return d.bits(count, int(marker)-0x77, byte(d.unsigned(1)))
	case 0x7E, 0x7F:
		return d.bits(d.length(int(marker)-0x7D), 7, 0)
	}
	d.unknown(marker)
	return nil
}

// base64 returns the text of bytes. The count of its groups of four characters is given, and
// how many = end it, or if they were left out, the complement of that.
func (d *decoder) base64(encoding *base64.Encoding, size int) []byte {
	length, padding := 4*d.length(size), byte(d.unsigned(1))
	isCut := padding > 2
	if isCut {
		padding = ^padding
	}
	if padding > 2 || int(padding) > length {
		d.fail(errors.New("a string in base64 has more padding than characters"))
		return nil
	}
	text := encoding.AppendEncode(nil, d.take((length-int(padding))*3/4))
	if isCut && d.err == nil {
		text = text[:length-int(padding)]
	}
	return text
}

// characters returns a string of an alphabet, the first of two characters in the low bits.
func (d *decoder) characters(alphabet string, count int) []byte {
	data := d.take((count + 1) / 2)
	if count%2 == 1 && len(data) > 0 && data[count/2]>>4 != 0 {
		d.fail(errors.New("a string has more characters than it states"))
	}
	text := make([]byte, 0, 2*len(data))
	for _, b := range data {
		text = append(text, alphabet[b&0xF], alphabet[b>>4])
	}
	return text[:min(count, len(text))]
}

// dashed returns a GUID with its dashes.
func dashed(digits []byte) []byte {
	if len(digits) != 32 {
		return nil // the text ended before it
	}
	return fmt.Appendf(nil, "%s-%s-%s-%s-%s", digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
}

// bits returns a string of characters that take so many bits each, above a smallest one.
func (d *decoder) bits(count, width int, smallest byte) []byte {
	data := d.take((count*width + 7) / 8)
	if data == nil {
		return nil
	}
	var text []byte
	for i := range count {
		place := i * width
		window := uint(data[place/8])
		if next := place/8 + 1; next < len(data) {
			window |= uint(data[next]) << 8
		}
		character := byte(window>>(place%8))&(1<<width-1) + smallest
		text = utf8.AppendRune(text, rune(character))
	}
	return text
}

// blob returns the text of a GUID in the layout of .NET, or the base64 of bytes.
func (d *decoder) blob(marker byte) []byte {
	if marker != 0xD3 {
		return base64.StdEncoding.AppendEncode(nil, d.take(d.length(1<<(marker-0xDD))))
	}
	b := d.take(16)
	if b == nil {
		return nil
	}
	return fmt.Appendf(nil, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%x-%x", b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6], b[8:10], b[10:])
}

// quote appends a string.
func (d *decoder) quote(text []byte) {
	if !utf8.Valid(text) {
		d.fail(errors.New("a string is not valid UTF-8"))
		return
	}
	d.text = append(d.text, '"')
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			d.text = append(d.text, '\\', b)
		case b < ' ':
			d.text = append(d.text, '\\', 'u', '0', '0', lowerHex[b>>4], lowerHex[b&0xF])
		default:
			d.text = append(d.text, b)
		}
	}
	d.text = append(d.text, '"')
}
