package jsonform

import (
	"strings"
	"testing"
)

// BenchmarkStored is the cost for a document in which nothing changes: 1 KB of text.
func BenchmarkStored(b *testing.B) {
	text := []byte(`{"id":"item1","pk":"key","player":"p","score":12.5,"n":[1,2,3],"text":"` + strings.Repeat("x", 1000) + `"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Stored(text); err != nil {
			b.Fatal(err)
		}
	}
}
