//go:build !(amd64 && goexperiment.simd && !go1.27)

package cosmos

// markBlocks sets the marks of the blocks of b.
func markBlocks(b, bits []byte) { markWords(b, bits) }
