package epk

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestBoundaries(t *testing.T) {
	for _, v := range []struct {
		d    Definition
		n    int
		want []string
	}{
		{hash2, 1, []string{"", "FF"}},
		{hash2, 2, []string{"", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "FF"}},
		{multi, 4, []string{"", "0FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", "1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFE", "2FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFD", "FF"}},
		{hash1, 2, []string{"", "05C1DFFFFFFFFC", "FF"}},
		{hash1, 4, []string{"", "05C1CFFFFFFFF8", "05C1DFFFFFFFF8", "05C1E7FFFFFFFA", "FF"}},
	} {
		if got := v.d.Boundaries(v.n); !slices.Equal(got, v.want) {
			t.Errorf("%s version %d: Boundaries(%d) = %q, want %q", v.d.Kind, v.d.Version, v.n, got, v.want)
		}
	}
}

// TestBoundariesSpreadKeys puts many keys into the ranges and wants every range
// to get about its share, each key in exactly one.
func TestBoundariesSpreadKeys(t *testing.T) {
	const keys, ranges = 8000, 8
	for _, d := range []Definition{hash1, hash2, multi} {
		bounds := d.Boundaries(ranges)
		var counts [ranges]int
		for k := range keys {
			hash := d.Hash(Key{String(fmt.Sprintf("player-%d", k))})
			homes := 0
			for r := range ranges {
				if Contains(bounds[r], bounds[r+1], hash) {
					counts[r]++
					homes++
				}
			}
			if homes != 1 {
				t.Fatalf("%s version %d: key %s lies in %d ranges", d.Kind, d.Version, hash, homes)
			}
		}
		for r, n := range counts {
			if n < keys/ranges*8/10 || n > keys/ranges*12/10 {
				t.Errorf("%s version %d: range %d got %d of %d keys", d.Kind, d.Version, r, n, keys)
			}
		}
	}
}

func TestMidpoint(t *testing.T) {
	// azure-cosmos-dotnet-v3 PartitionKeyInternalTest.TestMidPoint.
	bounds := hash1.Boundaries(25)
	if got, err := hash1.Midpoint(bounds[24], bounds[25]); got != "05C1EFAF0B1F46" || err != nil {
		t.Errorf("middle of the last of 25 version 1 ranges = %s, %v", got, err)
	}
	for _, d := range []Definition{hash1, hash2, multi} {
		got, err := d.Midpoint(Min, Max)
		if want := d.Boundaries(2)[1]; got != want || err != nil {
			t.Errorf("%s version %d: middle of everything = %s, %v; want %s", d.Kind, d.Version, got, err, want)
		}
	}
	got, err := multi.Midpoint("22E342F38A486A088463DFF7838A5963", "22E342F38A486A088463DFF7838A596322E342F38A486A088463DFF7838A5963")
	if want := "22E342F38A486A088463DFF7838A59631171A179C52435044231EFFBC1C52CB1"; got != want || err != nil {
		t.Errorf("middle inside one prefix = %s, %v; want %s", got, err, want)
	}
}

// TestMidpointHalves splits down one side until the range is too narrow.
func TestMidpointHalves(t *testing.T) {
	for _, d := range []Definition{hash1, hash2} {
		min, max, splits := Min, Max, 0
		for {
			mid, err := d.Midpoint(min, max)
			if err != nil {
				if !strings.Contains(err.Error(), "too narrow") {
					t.Error(err)
				}
				break
			}
			if !Contains(min, max, mid) || mid == min {
				t.Fatalf("%s is not inside [%s, %s)", mid, min, max)
			}
			min, splits = mid, splits+1
		}
		if splits < 30 {
			t.Errorf("version %d: only %d splits were possible", d.Version, splits)
		}
	}
}

func TestMidpointErrors(t *testing.T) {
	for _, v := range []struct {
		d        Definition
		min, max string
		want     string
	}{
		{hash2, "zz", Max, "not hex"},
		{hash2, Min, "zz", "not hex"},
		{hash1, "22E3", Max, "not a version 1 hash"},
		{hash1, Min, "22E3", "not a version 1 hash"},
		{hash2, "20", "2000", "too narrow"},
	} {
		if got, err := v.d.Midpoint(v.min, v.max); err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("Midpoint(%s, %s) = %s, %v; want an error with %q", v.min, v.max, got, err, v.want)
		}
	}
}

func TestCompare(t *testing.T) {
	for _, v := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"", "00", 0},
		{"20", "2000", 0},
		{"2000", "20", 0},
		{"20", "2001", -1},
		{"2001", "20", 1},
		{"3FFF", "FF", -1},
		{"05C1E5", "05C1D7FF", 1},
		{"FF", "FF", 0},
	} {
		got := Compare(v.a, v.b)
		if got < 0 != (v.want < 0) || got > 0 != (v.want > 0) {
			t.Errorf("Compare(%q, %q) = %d, want the sign of %d", v.a, v.b, got, v.want)
		}
	}
}

func TestContains(t *testing.T) {
	for _, v := range []struct {
		min, max, epk string
		want          bool
	}{
		{Min, Max, "", true},
		{Min, Max, "3FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF", true},
		{Min, "20", "20", false},
		{"20", Max, "20", true},
		{"20", Max, "2000000000000000", true},
		{"20", Max, "1FFF", false},
	} {
		if got := Contains(v.min, v.max, v.epk); got != v.want {
			t.Errorf("Contains(%q, %q, %q) = %t", v.min, v.max, v.epk, got)
		}
	}
}

func TestOverlaps(t *testing.T) {
	for _, v := range []struct {
		min, max, min2, max2 string
		want                 bool
	}{
		{Min, Max, "10", "20", true},
		{Min, "10", "10", "20", false},
		{"10", "20", "1FFF", Max, true},
		{"20", Max, Min, "20", false},
	} {
		if got := Overlaps(v.min, v.max, v.min2, v.max2); got != v.want {
			t.Errorf("Overlaps(%q, %q, %q, %q) = %t", v.min, v.max, v.min2, v.max2, got)
		}
	}
}

func TestSpanHoldsEveryKeyBelow(t *testing.T) {
	prefix := Key{String("tenant")}
	min, max := multi.Span(prefix)
	for i := range 100 {
		below := multi.Hash(append(slices.Clone(prefix), Number(float64(i)), String("s")))
		if !Contains(min, max, below) {
			t.Errorf("[%s, %s) lacks %s", min, max, below)
		}
		if neighbor := multi.Hash(Key{Number(float64(i)), String("tenant")}); Contains(min, max, neighbor) {
			t.Errorf("[%s, %s) holds %s", min, max, neighbor)
		}
	}
	if min, max := multi.Span(nil); min != Min || max != Max {
		t.Errorf("the empty key spans [%s, %s)", min, max)
	}
	fullHash := hash1.Hash(Key{True})
	if min, max := hash1.Span(Key{True}); !Contains(min, max, fullHash) || Contains(min, max, hash1.Hash(Key{False})) {
		t.Errorf("[%s, %s) is not the span of one key", min, max)
	}
}
