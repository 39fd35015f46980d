package epk

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/bits"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzHash wants the hash of every key to be what a second implementation
// makes of it: MurmurHash3 written after Austin Appleby's smhasher
// (MurmurHash3.cpp), and the key's bytes after PartitionKeyInternal of
// azure-cosmos-dotnet-v3.
func FuzzHash(f *testing.F) {
	for _, header := range []string{
		`[]`, `["redmond"]`, `[5.12312419050912359123]`, `[-0.0]`, `[true,null,{}]`, `[1e308,"Привет!",false]`,
		`["` + strings.Repeat("é", 101) + `"]`, `["` + strings.Repeat("a", 99) + `😀"]`, `["\ud800",4.9E-324]`,
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		key, err := ParseKey(header)
		if err != nil {
			return
		}
		if reparsed, err := ParseKey(key.String()); err != nil || !equal(key, reparsed) {
			t.Fatalf("%s prints as %s, which reads as %v, %v", header, key, reparsed, err)
		}
		values := decodeKey(t, header)
		if len(key) == 0 {
			return
		}
		if got, want := hash2.Hash(key), plainV2(values); got != want {
			t.Fatalf("version 2 of %s is %s, want %s", header, got, want)
		}
		if got, want := multi.Hash(key[:1]), plainV2(values[:1]); got != want {
			t.Fatalf("first level of %s is %s, want %s", header, got, want)
		}
		if !cutsAPair(values) {
			if got, want := hash1.Hash(key), plainV1(values); got != want {
				t.Fatalf("version 1 of %s is %s, want %s", header, got, want)
			}
		}
		for _, d := range []Definition{hash1, hash2} {
			if !Contains(Min, Max, d.Hash(key)) {
				t.Fatalf("%s hashes to %s, outside of the key space", header, d.Hash(key))
			}
		}
	})
}

func equal(a, b Key) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// decodeKey reads a key by encoding/json alone: nil, bool, float64, string, and
// a map for undefined.
func decodeKey(t *testing.T, header string) []any {
	t.Helper()
	var values []any
	if err := json.Unmarshal([]byte(header), &values); err != nil {
		t.Fatalf("%s is taken for a key and is not JSON: %v", header, err)
	}
	for i, v := range values {
		if n, ok := v.(float64); ok && n == 0 {
			values[i] = 0.0 // negative zero is zero
		}
	}
	return values
}

// cutsAPair reports whether version 1 cuts a string inside a surrogate pair,
// for which .NET's answer depends on its encoder.
func cutsAPair(values []any) bool {
	for _, v := range values {
		if s, ok := v.(string); ok {
			units := 0
			for _, r := range s {
				if units == maxString-1 && r > 0xFFFF {
					return true
				}
				units++
				if r > 0xFFFF {
					units++
				}
			}
		}
	}
	return false
}

func plainV2(values []any) string {
	var input []byte
	for _, v := range values {
		input = append(input, plainHashed(v, 0xFF, -1)...)
	}
	h1, h2 := murmur128(input)
	var sum [16]byte
	for i := range 8 {
		sum[i], sum[8+i] = byte(h2>>(56-8*i)), byte(h1>>(56-8*i))
	}
	sum[0] %= 0x40
	return strings.ToUpper(hex.EncodeToString(sum[:]))
}

func plainV1(values []any) string {
	var hashed, ordered []byte
	for _, v := range values {
		hashed = append(hashed, plainHashed(v, 0, maxString)...)
		ordered = append(ordered, plainOrdered(v)...)
	}
	out := append(plainOrdered(float64(murmur32(hashed))), ordered...)
	return strings.ToUpper(hex.EncodeToString(out))
}

// plainHashed is the binary form of a value under the hash; strings are cut
// after limit UTF-16 units.
func plainHashed(v any, end byte, limit int) []byte {
	switch v := v.(type) {
	case nil:
		return []byte{1}
	case bool:
		if v {
			return []byte{3}
		}
		return []byte{2}
	case float64:
		b := make([]byte, 9)
		b[0] = 5
		binary.LittleEndian.PutUint64(b[1:], math.Float64bits(v))
		return b
	case string:
		return append(append([]byte{8}, firstUnits(v, limit)...), end)
	}
	return []byte{0} // undefined
}

func firstUnits(s string, limit int) string {
	units := 0
	for i, r := range s {
		if units++; r > 0xFFFF {
			units++
		}
		if limit >= 0 && units > limit {
			return s[:i]
		}
	}
	return s
}

// plainOrdered is the binary form whose order is that of the values.
func plainOrdered(v any) []byte {
	switch v := v.(type) {
	case float64:
		u := math.Float64bits(v)
		if v < 0 {
			u = ^u + 1
		} else {
			u ^= 1 << 63
		}
		out, remainder := []byte{5, byte(u >> 56)}, u<<8
		groups := max(1, (64-bits.TrailingZeros64(remainder)+6)/7) // without the zeros at the end
		for i := range groups {
			flag := byte(1)
			if i == groups-1 {
				flag = 0
			}
			out = append(out, byte(remainder<<(7*i)>>57)<<1|flag)
		}
		return out
	case string:
		cut, end := firstUnits(v, maxString), []byte{0}
		if len(cut) > maxString {
			cut, end = cut[:maxString+1], nil
		}
		out := []byte{8}
		for _, b := range []byte(cut) {
			out = append(out, b+1)
		}
		return append(out, end...)
	}
	return plainHashed(v, 0, -1)
}

// murmur32 is MurmurHash3_x86_32 with seed 0.
func murmur32(data []byte) uint32 {
	const c1, c2 = 0xcc9e2d51, 0x1b873593
	scramble := func(k uint32) uint32 { return bits.RotateLeft32(k*c1, 15) * c2 }
	h, remainder := uint32(0), data
	for ; len(remainder) >= 4; remainder = remainder[4:] {
		h = bits.RotateLeft32(h^scramble(binary.LittleEndian.Uint32(remainder)), 13)*5 + 0xe6546b64
	}
	tail := [4]byte{}
	copy(tail[:], remainder)
	h ^= scramble(binary.LittleEndian.Uint32(tail[:]))
	h ^= uint32(len(data))
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	return h ^ h>>16
}

// murmur128 is MurmurHash3_x64_128 with seed 0.
func murmur128(data []byte) (uint64, uint64) {
	const c1, c2 = 0x87c37b91114253d5, 0x4cf5ad432745937f
	one := func(k uint64) uint64 { return bits.RotateLeft64(k*c1, 31) * c2 }
	two := func(k uint64) uint64 { return bits.RotateLeft64(k*c2, 33) * c1 }
	final := func(k uint64) uint64 {
		k = (k ^ k>>33) * 0xff51afd7ed558ccd
		k = (k ^ k>>33) * 0xc4ceb9fe1a85ec53
		return k ^ k>>33
	}
	h1, h2, remainder := uint64(0), uint64(0), data
	for ; len(remainder) >= 16; remainder = remainder[16:] {
		h1 ^= one(binary.LittleEndian.Uint64(remainder))
		h1 = (bits.RotateLeft64(h1, 27)+h2)*5 + 0x52dce729
		h2 ^= two(binary.LittleEndian.Uint64(remainder[8:]))
		h2 = (bits.RotateLeft64(h2, 31)+h1)*5 + 0x38495ab5
	}
	tail := [16]byte{}
	copy(tail[:], remainder)
	h2 ^= two(binary.LittleEndian.Uint64(tail[8:]))
	h1 ^= one(binary.LittleEndian.Uint64(tail[:]))
	h1 ^= uint64(len(data))
	h2 ^= uint64(len(data))
	h1 += h2
	h2 += h1
	h1, h2 = final(h1), final(h2)
	h1 += h2
	h2 += h1
	return h1, h2
}

// FuzzBounds wants any two bounds of the key space to compare alike both ways,
// and a range that can be split to fall into two.
func FuzzBounds(f *testing.F) {
	f.Add("", "FF", true)
	f.Add("05C1", "0BF3", false)
	f.Add("20", "2000", true)
	f.Add("05C1CF33970FF80800", "05C1E1B3D9CD26", false)
	f.Fuzz(func(t *testing.T, lo, hi string, second bool) {
		if !utf8.ValidString(lo) || !utf8.ValidString(hi) || len(lo)+len(hi) > 1<<10 {
			return
		}
		if sign(Compare(lo, hi)) != -sign(Compare(hi, lo)) || Compare(lo, lo+"00") != 0 {
			t.Fatalf("%q and %q compare as %d and %d", lo, hi, Compare(lo, hi), Compare(hi, lo))
		}
		d := hash1
		if second {
			d = hash2
		}
		mid, err := d.Midpoint(lo, hi)
		if err == nil && (!Contains(lo, hi, mid) || Compare(lo, mid) == 0 || Overlaps(lo, mid, mid, hi)) {
			t.Fatalf("[%q, %q) is split at %q", lo, hi, mid)
		}
	})
}

func sign(n int) int { return max(-1, min(1, n)) }
