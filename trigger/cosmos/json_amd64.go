//go:build goexperiment.simd && !go1.27

package cosmos

import (
	"math/bits"
	"simd/archsimd"
)

// The package archsimd has no promise of compatibility: this file is for Go 1.26, and a
// later Go builds json_plain.go until the file is checked with it.

var hasAVX2 = archsimd.X86.AVX2()

// The bytes that skipPlain compares with, once for each place of a vector.
var quotes, backslashes, spaces = repeated('"'), repeated('\\'), repeated(' ')

func repeated(c int8) (vector [32]int8) {
	for i := range vector {
		vector[i] = c
	}
	return vector
}

// skipPlain is skipPlainWords with 32 bytes at a time.
func skipPlain(b []byte, i int) int {
	if hasAVX2 {
		end, found := skipVectors(b, i)
		if found {
			return end
		}
		i = end
	}
	return skipPlainWords(b, i)
}

// skipVectors skips bytes that mean themselves, and reports whether it has found another one. It
// stops where fewer than 32 bytes follow. Before it returns, it clears the upper halves of the
// vector registers: on Intel processors all SSE code after dirty ones is slower (Intel 64 and
// IA-32 Architectures Optimization Reference Manual, "Mixing AVX code with SSE code").
//
//go:noinline
func skipVectors(b []byte, i int) (end int, found bool) {
	quote, backslash, space := archsimd.LoadInt8x32(&quotes), archsimd.LoadInt8x32(&backslashes), archsimd.LoadInt8x32(&spaces)
	for ; i+32 <= len(b); i += 32 {
		v := archsimd.LoadUint8x32Slice(b[i:]).AsInt8x32() // bytes that are not ASCII are negative
		if ends := v.Equal(quote).Or(v.Equal(backslash)).Or(space.Greater(v)).ToBits(); ends != 0 {
			archsimd.ClearAVXUpperBits()
			return i + bits.TrailingZeros32(ends), true
		}
	}
	archsimd.ClearAVXUpperBits()
	return i, false
}
