package main

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/tests/bench/report"
)

// CI fails only if a ratio is beyond its limit with room for noise, not if a target is
// missed.
func TestShortFormFailsOnlyBeyondTheRoomForNoise(t *testing.T) {
	of := func(ratio float64) []report.Section {
		return []report.Section{{Rows: []report.Row{{Name: "cost", Goals: []report.Goal{{Text: "≤ 1/8", Got: ratio, Limit: 1. / 8, Guard: 1. / 4, Show: report.Fraction}}}}}}
	}
	for _, ratio := range []float64{1. / 9, 1. / 5} {
		if err := brokenRatios(of(ratio)); err != nil {
			t.Errorf("ratio %v: %v", ratio, err)
		}
	}
	if err := brokenRatios(of(1. / 2)); err == nil || !strings.Contains(err.Error(), "cost: missed: 1/2.00, 4.00 × the limit") || !strings.Contains(err.Error(), "room for noise is 1/4") {
		t.Errorf("a ratio of a half: %v", err)
	}
}

func TestCostRowsCompareWithinRounds(t *testing.T) {
	found := results{
		colHalley:   {{"cpuPerMillion": 2, "allocations": 1, "bytes": 1500}, {"cpuPerMillion": 20, "allocations": 1, "bytes": 1500}, {"cpuPerMillion": 2, "allocations": 1, "bytes": 1500}},
		readOnly:    {{"cpuPerMillion": 1}, {"cpuPerMillion": 10}, {"cpuPerMillion": 1}},
		reusing:     {{"cpuPerMillion": 1.5}, {"cpuPerMillion": 15}, {"cpuPerMillion": 1.5}},
		colAzcosmos: {{"cpuPerMillion": 10}, {"cpuPerMillion": 100}, {"cpuPerMillion": 10}},
		colFloor:    {{"cpuPerMillion": 0.25}, {"cpuPerMillion": 2.5}, {"cpuPerMillion": 0.25}},
	}
	rows := costRows(found, costTargets{page: 100, azcosmos: 1. / 4, read: 1. / 20, overhead: 1.5})
	var got []string
	for _, row := range rows[:3] {
		for _, goal := range row.Goals {
			got = append(got, goal.String())
		}
	}
	want := []string{"**met**: 1/5.00", "missed: 1/10.0, 2.00 × the limit; of the 0.50 that the target allows, net/http and TLS alone take 0.25, and checking and splitting the pages 0.75", "missed: +100 %, 1.33 × the limit; it is +50 % with ReuseBuffers: by default the changes and their bytes belong to the handler, and are garbage after it"}
	if !slices.Equal(got, want) {
		t.Errorf("results %q, want %q", got, want)
	}
	if cells := rows[0].Cells; cells[colAzcosmos] != "10.0" || cells[colHalley] != "2.00" || cells[colJava] != "" {
		t.Errorf("cells %v", cells)
	}
}

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
BenchmarkPage/225B/decode        	   10000	     40000 ns/op	   1 MB/s	    9000 B/op	     119 allocs/op
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

func TestMostEntriesWithinATime(t *testing.T) {
	var entries []byte
	for _, at := range []time.Duration{0, 100, 290, 400, 405, 1000} {
		entries = binary.LittleEndian.AppendUint64(entries, uint64(at*time.Millisecond))
		entries = binary.LittleEndian.AppendUint64(entries, 7)
	}
	if most := mostWithin(entries, 300*time.Millisecond); most != 3 {
		t.Errorf("%v entries within 300 ms", most)
	}
	if most := mostWithin(nil, time.Second); most != 0 {
		t.Errorf("%v entries of an empty record", most)
	}
}

func TestPoisonRowComparesWithinRounds(t *testing.T) {
	rows := poisonRowsOf(report.Samples{1.2, 12, 1.2}, report.Samples{1, 10, 1}, report.Samples{0, 0, 0})
	if goal := rows[1].Goals[0]; goal.String() != "**met**: 1.20" {
		t.Errorf("result %q", goal)
	}
	rows = poisonRowsOf(report.Samples{5}, report.Samples{1}, report.Samples{1234})
	if goal := rows[1].Goals[0]; !goal.Broken() || !strings.Contains(goal.String(), "1,234 rows to go") {
		t.Errorf("result %q, broken %v", goal, goal.Broken())
	}
}

func TestSectionsAreReplacedByTheirTitle(t *testing.T) {
	const document = "# Performance\n\nhead\n\n## One\n\nold\n\n## One more\n\nkept\n"
	for title, want := range map[string]string{
		"One":      "# Performance\n\nhead\n\n## One\n\nnew\n\n## One more\n\nkept\n",
		"One more": "# Performance\n\nhead\n\n## One\n\nold\n\n## One more\n\nnew\n",
		"Another":  document + "\n## Another\n\nnew\n",
	} {
		if got := replaceSection(document, title, "\n## "+title+"\n\nnew\n"); got != want {
			t.Errorf("%s: %q", title, got)
		}
	}
}

func TestAttributesAreReadInTheirOrder(t *testing.T) {
	const out = `=== RUN   TestCurve
=== RUN   TestCurve/2s
=== ATTR  TestCurve/2s reads 1800
=== ATTR  TestCurve/2s meanSeconds 0.95
=== ATTR  TestCurve/1s reads 3600
=== ATTR  TestOther/1s reads 7
=== ATTR  TestCurve reads 7
=== ATTR  TestCurve/1s note many
--- PASS: TestCurve (0.10s)
`
	names, found := parseAttributes(out, "TestCurve")
	if !slices.Equal(names, []string{"2s", "1s"}) || found["2s"]["meanSeconds"] != 0.95 || found["1s"]["reads"] != 3600 || len(found["1s"]) != 1 {
		t.Errorf("subtests %q, %v", names, found)
	}
}
