package lease

import (
	"strings"
	"testing"

	"halley/trigger/cosmos"
)

func TestCoverageGaps(t *testing.T) {
	ranges := []cosmos.Range{
		{ID: "1", Min: "", Max: "10", Parents: []string{"0"}},
		{ID: "2", Min: "10", Max: "20", Parents: []string{"0"}},
		{ID: "3", Min: "20", Max: "FF"},
	}
	known := func(token, lo, hi string) *Lease {
		return newDocument("p", token, Span{lo, hi}, strings.Contains(token, "-"))
	}
	bare := func(token string) *Lease { return newDocument("p", token, Span{}, false) }
	dead := known("3", "20", "FF")
	dead.properties[tombstoneProperty] = "1"
	tests := []struct {
		name    string
		leases  []*Lease
		invalid []Invalid
		want    string
	}{
		{"none", nil, nil, "1 2 3"},
		{"all by id", []*Lease{bare("1"), bare("2"), bare("3")}, nil, ""},
		{"an ancestor", []*Lease{bare("0"), bare("3")}, nil, ""},
		{"an ancestor by span", []*Lease{known("0", "", "20")}, nil, "3"},
		{"one v1 over all", []*Lease{known("-FF", "", "FF")}, nil, ""},
		{"a gap inside a range", []*Lease{known("-20", "", "20"), known("20-30", "20", "30"), known("40-FF", "40", "FF")}, nil, "30-40"},
		{"a wide lease before a narrow one", []*Lease{known("-28", "", "28"), known("08-10", "08", "10"), known("30-FF", "30", "FF")}, nil, "28-30"},
		{"a gap at the end", []*Lease{known("1", "", "10"), known("10-18", "10", "18"), known("3", "20", "FF")}, nil, "18-20"},
		{"an invalid document", []*Lease{bare("1"), bare("2")}, []Invalid{{ID: "p..3"}}, ""},
		{"a tombstone does not cover", []*Lease{bare("0"), dead}, nil, "3"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var tokens []string
			for _, gap := range coverageGaps(ranges, test.leases, test.invalid, "p") {
				tokens = append(tokens, gap.Token())
			}
			if got := strings.Join(tokens, " "); got != test.want {
				t.Errorf("gaps %q, want %q", got, test.want)
			}
		})
	}
}
