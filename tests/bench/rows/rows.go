// Package rows generates the data of the benchmark of poison documents: always the same
// rows, for the server that stores them and for the clients that count them.
package rows

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
)

const (
	Keys   = 302 // logical partition keys
	Poison = 9   // poison documents; their keys differ
)

// Row is one document.
type Row struct {
	Key      int
	IsPoison bool // a handler that refuses poison fails with it each time
}

// Generate returns rows in the order in which they are written. The largest key has
// thirty times as many rows as the smallest. A poison document is in the first three
// quarters of the rows of its key, so that others stand behind it.
func Generate(count int) []Row {
	random := rand.New(rand.NewPCG(231083, Keys))
	sums, total := make([]float64, Keys), 0.0
	for key := range sums {
		total += 1 / float64(key+10)
		sums[key] = total
	}
	all, places := make([]Row, count), make([][]int, Keys)
	for i := range all {
		key := min(sort.SearchFloat64s(sums, random.Float64()*total), Keys-1)
		all[i].Key = key
		places[key] = append(places[key], i)
	}
	poisoned := 0
	for _, key := range random.Perm(Keys) {
		if most := len(places[key]) * 3 / 4; poisoned < Poison && most > 0 {
			all[places[key][random.IntN(most)]].IsPoison = true
			poisoned++
		}
	}
	return all
}

// KeyName returns the partition key of a row.
func KeyName(key int) string { return fmt.Sprintf("key-%d", key) }

// Document returns row number n as JSON, of about 300 bytes.
func Document(n int, row Row) []byte {
	return fmt.Appendf(nil, `{"id":"row-%d","pk":%q,"n":%d,"poison":%t,"note":%q}`, n, KeyName(row.Key), n, row.IsPoison, strings.Repeat("a line of text. ", 15))
}
