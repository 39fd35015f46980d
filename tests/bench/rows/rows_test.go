package rows

import (
	"encoding/json"
	"slices"
	"testing"
)

func TestRowsAreSkewedAndAlwaysTheSame(t *testing.T) {
	all := Generate(231_083)
	if !slices.Equal(all, Generate(231_083)) {
		t.Error("the same call gives other rows")
	}
	sizes, behind, poisoned := map[int]int{}, map[int]int{}, map[int]bool{}
	for _, row := range all {
		sizes[row.Key]++
		switch {
		case row.IsPoison && poisoned[row.Key]:
			t.Errorf("key %d has two poison documents", row.Key)
		case row.IsPoison:
			poisoned[row.Key] = true
		case poisoned[row.Key]:
			behind[row.Key]++
		}
	}
	if len(sizes) != Keys || len(poisoned) != Poison {
		t.Errorf("%d keys, %d poison documents", len(sizes), len(poisoned))
	}
	if sizes[0] < 20*sizes[Keys-1] {
		t.Errorf("the keys have from %d to %d rows", sizes[Keys-1], sizes[0])
	}
	for key := range poisoned {
		if behind[key] == 0 {
			t.Errorf("no row stands behind the poison document of key %d", key)
		}
	}
}

func TestDocumentsAreJSON(t *testing.T) {
	document := Document(7, Row{Key: 3, IsPoison: true})
	var read struct {
		Key    string `json:"pk"`
		N      int
		Poison bool
	}
	if err := json.Unmarshal(document, &read); err != nil || read.Key != KeyName(3) || read.N != 7 || !read.Poison || len(document) < 250 {
		t.Errorf("%s: %+v, %v", document, read, err)
	}
}
