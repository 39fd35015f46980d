//go:build goexperiment.simd && !go1.27

package cosmos

import (
	"encoding/binary"
	"simd/archsimd"
)

// The package archsimd has no promise of compatibility: this file is for Go 1.26, and a
// later Go builds marks_plain.go until the file is checked with it.

var hasAVX2 = archsimd.X86.AVX2()

// The bytes that markVectors compares with, once for each place of a vector.
var quotes, backslashes, spaces = repeated('"'), repeated('\\'), repeated(' ')

func repeated(c int8) (vector [32]int8) {
	for i := range vector {
		vector[i] = c
	}
	return vector
}

// markBlocks sets the marks of the blocks of b.
func markBlocks(b, bits []byte) {
	if hasAVX2 {
		markVectors(b, bits)
		return
	}
	markWords(b, bits)
}

// markVectors is markBlocks with 32 bytes at a time. Before it returns, it clears the upper halves
// of the vector registers: on Intel processors all SSE code after dirty ones is slower (Intel 64 and
// IA-32 Architectures Optimization Reference Manual, "Mixing AVX code with SSE code").
//
//go:noinline
func markVectors(b, bits []byte) {
	quote, backslash, space := archsimd.LoadInt8x32(&quotes), archsimd.LoadInt8x32(&backslashes), archsimd.LoadInt8x32(&spaces)
	for i := range len(b) / 64 {
		low := archsimd.LoadUint8x32Slice(b[64*i:]).AsInt8x32() // bytes that are not ASCII are negative
		high := archsimd.LoadUint8x32Slice(b[64*i+32:]).AsInt8x32()
		binary.LittleEndian.PutUint64(bits[8*i:], uint64(low.Equal(quote).Or(low.Equal(backslash)).Or(space.Greater(low)).ToBits())|
			uint64(high.Equal(quote).Or(high.Equal(backslash)).Or(space.Greater(high)).ToBits())<<32)
	}
	archsimd.ClearAVXUpperBits()
}
