package report

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

func TestMedianTakesTheMiddle(t *testing.T) {
	for _, test := range []struct {
		samples Samples
		want    float64
	}{
		{Samples{3}, 3},
		{Samples{9, 1, 5}, 5},
		{Samples{4, 1, 2, 3}, 2.5},
	} {
		if got := test.samples.Median(); got != test.want {
			t.Errorf("median of %v is %v, want %v", test.samples, got, test.want)
		}
	}
	if !math.IsNaN(Samples(nil).Median()) {
		t.Error("no samples have a median")
	}
}

// A slow round of both contenders must not count as a difference between them.
func TestRatiosAreTakenWithinRounds(t *testing.T) {
	slow, fast := Samples{2, 20, 4}, Samples{1, 10, 2, 100}
	if got := slow.Over(fast); len(got) != 3 || got.Median() != 2 || got[1] != 2 {
		t.Errorf("ratios are %v", got)
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0.00", 0.123: "0.12", 3.456: "3.46", 9.996: "10.0", 12.34: "12.3", 99.96: "100", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567", -4321: "-4,321",
	} {
		if got := Number(value); got != want {
			t.Errorf("Number(%v) = %q, want %q", value, got, want)
		}
	}
	if got := Number(math.NaN()); got != "–" {
		t.Errorf("no number is %q", got)
	}
	if got := Fraction(0.25); got != "1/4.00" {
		t.Errorf("a quarter is %q", got)
	}
	for value, want := range map[float64]string{1. / 8: "1/8", 1. / 5.5: "1/5.5", 0.85: "0.85", 0.6: "0.6", 0.3: "0.3", 1.6: "1.6", 200: "200"} {
		if got := Limit(value); got != want {
			t.Errorf("Limit(%v) = %q, want %q", value, got, want)
		}
	}
}

func TestGoalsSayHowFar(t *testing.T) {
	for _, test := range []struct {
		goal        Goal
		met, broken bool
		text        string
	}{
		{Goal{Got: 0.1, Limit: 0.125, Guard: 0.4, Show: Fraction}, true, false, "**met**: 1/10.0"},
		{Goal{Got: 0.25, Limit: 0.125, Guard: 0.4, Show: Fraction}, false, false, "missed: 1/4.00, 2.00 × the limit"},
		{Goal{Got: 0.5, Limit: 0.125, Guard: 0.4, Show: Fraction}, false, true, "missed: 1/2.00, 4.00 × the limit"},
		{Goal{Got: 2.65, Limit: 2.85, AtLeast: true, Guard: 2}, false, false, "missed: 2.65, 0.93 of the target"},
		{Goal{Got: 1.5, Limit: 2.85, AtLeast: true, Guard: 2}, false, true, "missed: 1.50, 0.53 of the target"},
		{Goal{Got: 76}, false, false, "missed: 76.0"},
		{Goal{Got: 76, Limit: 38, Obstacle: "half are copies"}, false, false, "missed: 76.0, 2.00 × the limit; half are copies"},
		{Goal{Got: 7, Limit: 38, Obstacle: "half are copies"}, true, false, "**met**: 7.00"},
		{Goal{Got: math.NaN(), Limit: 1}, false, false, "not measured"},
	} {
		if g := test.goal; g.Met() != test.met || g.Broken() != test.broken || g.String() != test.text {
			t.Errorf("%+v: met %t, broken %t, %q", g, g.Met(), g.Broken(), g)
		}
	}
}

func TestTableHasTheColumnsWithCells(t *testing.T) {
	section := Section{Rows: []Row{
		{Name: "first", Cells: map[string]string{"b": "1.00"}, Goals: []Goal{{Text: "≤ 1", Got: 0.5, Limit: 1}, {Text: "≤ 2", Got: 3, Limit: 2}}},
		{Name: "second", Cells: map[string]string{"c": "2.00"}},
	}}
	var b strings.Builder
	if err := section.WriteTable(&b, []string{"a", "b", "c"}); err != nil {
		t.Fatal(err)
	}
	want := `| measured | b | c | target | result |
| --- | --- | --- | --- | --- |
| first | 1.00 |  | ≤ 1<br>≤ 2 | **met**: 0.50<br>missed: 3.00, 1.50 × the limit |
| second |  | 2.00 |  |  |
`
	if got := b.String(); got != want {
		t.Errorf("table:\n%s\nwant:\n%s", got, want)
	}
}

func TestChartShowsEveryPoint(t *testing.T) {
	chart := Chart{Title: "Cost & ranges", XName: "ranges", YName: "CPU-s <per> million", LogX: true, Curves: []Curve{
		{"Halley", []Point{{1, 3}, {10, 4}, {1000, 6.5}}},
		{"floor", []Point{{1, 1}, {1000, 1.2}}},
	}}
	svg := chart.SVG()
	elements := map[string]int{}
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
		if start, ok := token.(xml.StartElement); ok {
			elements[start.Name.Local]++
		}
	}
	if elements["circle"] != 5 || elements["polyline"] != 2 {
		t.Errorf("elements are %v", elements)
	}
	for _, text := range []string{"Cost &amp; ranges", "CPU-s &lt;per&gt; million", ">1,000</text>", ">floor</text>"} {
		if !strings.Contains(svg, text) {
			t.Errorf("the picture lacks %s", text)
		}
	}
	if strings.Count(svg, "http") != 1 {
		t.Error("the picture refers to another origin than its namespace")
	}
}

func TestAxesSpanTheValues(t *testing.T) {
	linear := newAxis([]float64{3, 47}, false, 0, 100)
	if linear.low != 0 || linear.high != 50 || linear.at(25) != 50 {
		t.Errorf("linear axis from %v to %v, 25 at %v", linear.low, linear.high, linear.at(25))
	}
	logarithmic := newAxis([]float64{2, 900}, true, 0, 300)
	if logarithmic.low != 1 || logarithmic.high != 1000 || math.Abs(logarithmic.at(10)-100) > 1e-9 || len(logarithmic.ticks) != 4 {
		t.Errorf("logarithmic axis from %v to %v, 10 at %v, ticks %v", logarithmic.low, logarithmic.high, logarithmic.at(10), logarithmic.ticks)
	}
	if flat := newAxis([]float64{0, 0}, false, 0, 100); flat.at(0) != 0 {
		t.Errorf("an axis of zeros puts 0 at %v", flat.at(0))
	}
}
