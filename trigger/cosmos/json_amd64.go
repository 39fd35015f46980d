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
		quote, backslash, space := archsimd.LoadInt8x32(&quotes), archsimd.LoadInt8x32(&backslashes), archsimd.LoadInt8x32(&spaces)
		for ; i+32 <= len(b); i += 32 {
			v := archsimd.LoadUint8x32Slice(b[i:]).AsInt8x32() // bytes that are not ASCII are negative
			if ends := v.Equal(quote).Or(v.Equal(backslash)).Or(space.Greater(v)).ToBits(); ends != 0 {
				return i + bits.TrailingZeros32(ends)
			}
		}
	}
	return skipPlainWords(b, i)
}
