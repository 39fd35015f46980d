//go:build !(amd64 && goexperiment.simd && !go1.27)

package cosmos

// skipPlain skips bytes of a string that mean themselves, see skipPlainWords.
func skipPlain(b []byte, i int) int { return skipPlainWords(b, i) }
