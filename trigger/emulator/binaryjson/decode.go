// Package binaryjson reads the binary form of JSON in which SDKs send bodies, as
// azure_data_cosmos does by default (JsonBinaryEncoding.TypeMarker.cs of
// azure-cosmos-dotnet-v3, module binary_json of azure_data_cosmos_driver 1.0.0).
//
// A marker begins each value and says how to read the bytes that follow it. Numbers and
// lengths are in little-endian order.
package binaryjson

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Preamble is the first byte of a binary text. No JSON text begins with it.
const Preamble = 0x80

// ErrTooLong is the error of a value whose JSON text would exceed the limit.
var ErrTooLong = errors.New("the value is too long")

// maxDepth bounds containers in containers, as azure-cosmos-dotnet-v3 does.
const maxDepth = 256

// Decode returns the JSON text of the value in data, which a Preamble begins. References
// to strings make long texts of a few bytes: Decode fails with [ErrTooLong] when the text
// exceeds so many bytes.
func Decode(data []byte, limit int) ([]byte, error) {
	if len(data) == 0 || data[0] != Preamble {
		return nil, errors.New("its first byte is not that of binary JSON")
	}
	d := &decoder{data: data, pos: 1, limit: limit, text: make([]byte, 0, min(2*len(data), limit))}
	d.value(0)
	if d.pos != len(data) {
		d.fail(fmt.Errorf("%d bytes follow the value", len(data)-d.pos))
	}
	if len(d.text) > limit {
		d.fail(ErrTooLong)
	}
	return d.text, d.err
}

// decoder reads data from pos and writes text. After its first error it reads zeros.
type decoder struct {
	data  []byte
	pos   int
	limit int
	text  []byte
	err   error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// take returns the next n bytes, nil if there are fewer.
func (d *decoder) take(n int) []byte {
	if d.err == nil && n > len(d.data)-d.pos {
		d.fail(errors.New("it ends inside a value"))
	}
	if d.err != nil {
		return nil
	}
	d.pos += n
	return d.data[d.pos-n : d.pos]
}

// unsigned returns a number of so many bytes, at most 8.
func (d *decoder) unsigned(size int) uint64 {
	var full [8]byte
	copy(full[:], d.take(size))
	return binary.LittleEndian.Uint64(full[:])
}

// length returns a length, a count or a place, which may be beyond the data.
func (d *decoder) length(size int) int { return int(min(d.unsigned(size), math.MaxInt32)) }

func (d *decoder) unknown(marker byte) {
	d.fail(fmt.Errorf("no value begins with %#02x, at byte %d", marker, d.pos-1))
}

// value appends the next value, which lies in so many containers.
func (d *decoder) value(depth int) {
	switch marker := byte(d.unsigned(1)); {
	case d.err != nil:
	case len(d.text) > d.limit:
		d.fail(ErrTooLong)
	case marker < 0x20: // the value itself
		d.text = strconv.AppendUint(d.text, uint64(marker), 10)
	case isString(marker):
		d.quote(d.string(marker))
	case marker == 0xD0:
		d.text = append(d.text, "null"...)
	case marker == 0xD1:
		d.text = append(d.text, "false"...)
	case marker == 0xD2:
		d.text = append(d.text, "true"...)
	case marker == 0xD3 || marker >= 0xDD && marker <= 0xDF:
		d.quote(d.blob(marker))
	case marker >= 0xE0 && marker < 0xF0:
		d.container(marker, depth+1)
	case marker >= 0xF0 && marker <= 0xF3:
		d.numbers(marker)
	default:
		d.number(marker)
	}
}

// container appends an array or object. Three bits of its marker say how its end is told: it
// is empty, it has one member, or its length follows in 1, 2 or 4 bytes, or its length and
// its count do.
func (d *decoder) container(marker byte, depth int) {
	member, ends := d.value, "[]"
	if marker >= 0xE8 {
		member, ends = d.member, "{}"
	}
	if depth > maxDepth {
		d.fail(fmt.Errorf("it nests more than %d levels deep", maxDepth))
		return
	}
	count, end := int(marker&7), -1
	if form := int(marker & 7); form >= 2 {
		size := 1 << ((form - 2) % 3)
		count, end = -1, d.length(size)
		if form >= 5 {
			count = d.length(size)
		}
		end += d.pos
	}
	d.text = append(d.text, ends[0])
	found := 0
	for ; d.err == nil && (d.pos < end || end < 0 && found < count); found++ {
		d.comma(found)
		member(depth)
	}
	d.text = append(d.text, ends[1])
	if end >= 0 && d.pos != end || count >= 0 && found != count {
		d.fail(errors.New("a container has not the length or count that it states"))
	}
}

func (d *decoder) comma(index int) {
	if index > 0 {
		d.text = append(d.text, ',')
	}
}

// member appends a property of an object.
func (d *decoder) member(depth int) {
	name := byte(d.unsigned(1))
	if !isString(name) {
		d.unknown(name)
		return
	}
	d.quote(d.string(name))
	d.text = append(d.text, ':')
	d.value(depth)
}

// numbers appends an array of numbers with one marker, or an array of such arrays.
func (d *decoder) numbers(marker byte) {
	size := 1 + int(marker&1)
	outer := marker >= 0xF2
	if inner := marker - 2; outer && byte(d.unsigned(1)) != inner {
		d.fail(errors.New("an array of arrays of numbers has other members"))
	}
	item := byte(d.unsigned(1))
	if item < 0xCD || item == 0xCF || item > 0xCE && item < 0xD7 || item > 0xDC {
		d.unknown(item)
		return
	}
	count := d.length(size)
	if !outer {
		d.array(count, func() { d.number(item) })
		return
	}
	d.array(d.length(size), func() { d.array(count, func() { d.number(item) }) })
}

func (d *decoder) array(count int, member func()) {
	d.text = append(d.text, '[')
	for i := 0; i < count && d.err == nil; i++ {
		d.comma(i)
		member()
	}
	d.text = append(d.text, ']')
}

// number appends the number that follows its marker.
func (d *decoder) number(marker byte) {
	switch marker {
	case 0xC7:
		d.text = strconv.AppendUint(d.text, d.unsigned(8), 10)
	case 0xC8, 0xD7:
		d.text = strconv.AppendUint(d.text, d.unsigned(1), 10)
	case 0xDC:
		d.text = strconv.AppendUint(d.text, d.unsigned(4), 10)
	case 0xD8:
		d.signed(int64(int8(d.unsigned(1))))
	case 0xC9, 0xD9:
		d.signed(int64(int16(d.unsigned(2))))
	case 0xCA, 0xDA:
		d.signed(int64(int32(d.unsigned(4))))
	case 0xCB, 0xDB:
		d.signed(int64(d.unsigned(8)))
	case 0xCC, 0xCE:
		d.float(math.Float64frombits(d.unsigned(8)))
	case 0xCD:
		d.float(float64(math.Float32frombits(uint32(d.unsigned(4)))))
	default:
		d.unknown(marker)
	}
}

func (d *decoder) signed(n int64) { d.text = strconv.AppendInt(d.text, n, 10) }

func (d *decoder) float(f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		d.fail(errors.New("a number is not finite"))
		return
	}
	d.text = strconv.AppendFloat(d.text, f, 'g', -1, 64)
}
