package main

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"unicode/utf8"
)

func TestDamagedPagesAreInvalid(t *testing.T) {
	page, random := []byte(`{"_rid":"a","Documents":[{"id":"Zürich","n":1},{"id":"b"}],"_count":2}`), rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		damaged := damage(page, random)
		if json.Valid(damaged) && utf8.Valid(damaged) {
			t.Fatalf("%s is valid", damaged)
		}
	}
}

func TestQuantilesAreOfSortedValues(t *testing.T) {
	values := []float64{5, 1, 4, 2, 3}
	if half, late := quantile(values, 0.5), quantile(values, 0.99); half != 3 || late != 5 {
		t.Errorf("median %v, 99 of 100 %v", half, late)
	}
}

func TestLeaseDocumentsAreAlike(t *testing.T) {
	body, err := json.Marshal(leaseBody("1"))
	if err != nil {
		t.Fatal(err)
	}
	if difference := len(body) - len(leaseDocument); difference < -40 || difference > 40 {
		t.Errorf("the lease of the floor has %d bytes and the other %d", len(leaseDocument), len(body))
	}
}
