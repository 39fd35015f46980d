// Package report turns the figures of a benchmark into tables in Markdown and curves
// in SVG.
package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Samples are the values of one figure, one for each round. Rounds of different
// contenders belong together if they have the same index.
type Samples []float64

// Median returns the middle value, the mean of the two middle ones if their number is
// even, or NaN if there is none.
func (s Samples) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Over returns the ratio of s to the other samples, round by round. Rounds that one of
// them lacks are left out.
func (s Samples) Over(other Samples) Samples {
	ratios := make(Samples, 0, len(s))
	for i := range min(len(s), len(other)) {
		ratios = append(ratios, s[i]/other[i])
	}
	return ratios
}

// Number writes a value with three significant digits, and NaN as a dash.
func Number(value float64) string {
	if math.IsNaN(value) {
		return "–"
	}
	size := math.Abs(value)
	switch {
	case size >= 999.5:
		return thousands(strconv.FormatFloat(value, 'f', 0, 64))
	case size >= 99.95:
		return strconv.FormatFloat(value, 'f', 0, 64)
	case size >= 9.995:
		return strconv.FormatFloat(value, 'f', 1, 64)
	}
	return strconv.FormatFloat(value, 'f', 2, 64)
}

// thousands puts commas into the digits of a whole number.
func thousands(digits string) string {
	sign := ""
	if strings.HasPrefix(digits, "-") {
		sign, digits = "-", digits[1:]
	}
	var groups []string
	for len(digits) > 3 {
		groups = append(groups, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	groups = append(groups, digits)
	slices.Reverse(groups)
	return sign + strings.Join(groups, ",")
}

// Fraction writes a ratio below 1 as 1/n, and any other as a number.
func Fraction(ratio float64) string {
	if ratio > 0 && ratio < 1 {
		return "1/" + Number(1/ratio)
	}
	return Number(ratio)
}

// Limit writes a limit as short as it is: 1/5.5, 0.85, 30.
func Limit(limit float64) string {
	if limit > 0 && limit <= 0.5 {
		if inverse := 1 / limit; math.Abs(inverse*2-math.Round(inverse*2)) < 1e-9 {
			return fmt.Sprintf("1/%g", inverse)
		}
	}
	return strconv.FormatFloat(limit, 'g', -1, 64)
}

// Unit returns a function that writes a value with a unit.
func Unit(unit string) func(float64) string {
	return func(value float64) string { return fmt.Sprintf("%s %s", Number(value), unit) }
}
