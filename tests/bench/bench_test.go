package main

import (
	"slices"
	"testing"
)

func TestProcessorListsAreRead(t *testing.T) {
	if got := parseProcessors("0-2,5,8-9"); !slices.Equal(got, []string{"0", "1", "2", "5", "8", "9"}) {
		t.Errorf("processors %v", got)
	}
	if got := parseProcessors("some"); got != nil {
		t.Errorf("processors %v of a list that cannot be read", got)
	}
}

func TestSplitterRatioIsThatOfTheLargestDocuments(t *testing.T) {
	found := parseBenchmarks(`goos: linux
BenchmarkPage/225B/cut-2         	   10000	     20000 ns/op	   1 MB/s	       0 B/op	       0 allocs/op
BenchmarkPage/225B/decode-2      	   10000	     40000 ns/op	   1 MB/s	    9000 B/op	     119 allocs/op
BenchmarkPage/1225B/cut-2        	   10000	     50000 ns/op	   1 MB/s	       0 B/op	       1 allocs/op
BenchmarkPage/1225B/decode-2     	    1000	    500000 ns/op	   1 MB/s	    9000 B/op	     119 allocs/op
PASS
`)
	if ratio, allocations := splitterRatio(found); ratio != 10 || allocations != 1 {
		t.Errorf("ratio %v with %v allocations", ratio, allocations)
	}
}

func TestCountsSinceAnEarlierCount(t *testing.T) {
	before := counts{Requests: map[string]float64{"feed": 2}, Units: map[string]float64{"feed": 3}}
	after := counts{Requests: map[string]float64{"feed": 5, "leaseWrite": 1}, Units: map[string]float64{"feed": 7, "leaseWrite": 10}}
	since := after.since(before)
	if since.Requests["feed"] != 3 || since.Requests["leaseWrite"] != 1 || since.units() != 14 {
		t.Errorf("counts %+v", since)
	}
}
