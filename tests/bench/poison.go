package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"halley/tests/bench/report"
	"halley/tests/bench/rows"
)

const (
	manyRows = 231_083
	maxAhead = 1000 // default of the function
	pageRows = 100  // likewise

	// checkpointTime is the default interval of checkpoints, and as much as a lease write on a busy
	// machine may take.
	checkpointTime = 300 * time.Millisecond
)

// poisonDocuments compares a range with nine poison documents with the same data without
// them, and kills a process in the middle.
func (s *suite) poisonDocuments() (report.Section, error) {
	count, rounds := manyRows, min(s.rounds, 3)
	if s.short {
		count, rounds = manyRows/4, 2
	}
	section := report.Section{Title: "Poison documents", Text: fmt.Sprintf("%s rows of %d keys in one range of the embedded account, with all settings at their defaults: batches and pages of %d, dead letters in the lease container. "+
		"The handler refuses %d documents of different keys, naming none, or in the run without poison nothing. Other keys are those without such a document. The last row counts handled rows that are delivered again after `kill -9` in the middle, and expires leases after 3 s.",
		report.Number(float64(count)), rows.Keys, pageRows, rows.Poison)}
	v, err := s.serve("-rows", strconv.Itoa(count))
	if err != nil {
		return section, err
	}
	defer v.close()
	const without = "without poison"
	found := results{}
	for range rounds {
		limit := 5 * time.Minute
		for _, column := range []string{without, colHalley} {
			result, err := v.run(s.halley, variables{
				"MODE": "poison", "CHANGES": strconv.Itoa(count), "POISON": strconv.FormatBool(column == colHalley),
				"WHOLE": strconv.FormatBool(!s.short), "LIMIT": limit.String(),
			})
			if err != nil {
				return section, err
			}
			found[column] = append(found[column], result)
			if s.short { // a run that is ended by its limit is beyond the guard
				limit = time.Duration(4 * result["othersSeconds"] * float64(time.Second))
			}
		}
	}
	section.Rows = poisonRowsOf(found.of(colHalley, "othersSeconds"), found.of(without, "othersSeconds"), found.of(colHalley, "left"))
	if !s.short {
		section.Rows = append(section.Rows, letterRows(found)...)
	}
	repeated, bound, err := v.killedInTheMiddle(count)
	if err != nil {
		return section, err
	}
	section.Rows = append(section.Rows, report.Row{
		Name: "handled rows that are delivered again after kill -9", Cells: map[string]string{colHalley: report.Number(repeated)},
		Goals: []report.Goal{{Text: fmt.Sprintf("≤ MaxAhead, a page and the rows of %s", checkpointTime), Got: repeated, Limit: bound, Guard: 2 * bound}},
	})
	return section, nil
}

// poisonRowsOf returns the row of the other keys. left are their rows that were not handled
// when a run ended at its limit.
func poisonRowsOf(poison, without, left report.Samples) []report.Row {
	goal := report.Goal{Text: "≤ 1.3 × without poison", Got: poison.Over(without).Median(), Limit: 1.3, Guard: 2}
	if most := slices.Max(left); most > 0 {
		goal.Obstacle = fmt.Sprintf("a run was ended with %s rows to go", report.Number(most))
	}
	return []report.Row{
		{Name: "without poison, s", Cells: map[string]string{colHalley: report.Number(without.Median())}},
		{Name: "until the rows of other keys are handled, s", Cells: map[string]string{colHalley: report.Number(poison.Median())}, Goals: []report.Goal{goal}},
	}
}

// letterRows are the rows about the poison documents and their own keys.
func letterRows(found results) []report.Row {
	behind := slices.Max(found.of(colHalley, "behindSeconds"))
	least, most := slices.Min(found.of(colHalley, "leastAttempts")), slices.Max(found.of(colHalley, "mostAttempts"))
	return []report.Row{
		{Name: "from the last attempt of a poison document until the rows behind it are handled, s", Cells: map[string]string{colHalley: report.Number(behind)},
			Goals: []report.Goal{{Text: "≤ 2 s", Got: behind, Limit: 2}}},
		{Name: "attempts of each poison document", Cells: map[string]string{colHalley: fmt.Sprintf("%g to %g", least, most)},
			Goals: []report.Goal{{Text: "≥ 10", Got: least, Limit: 10, AtLeast: true}, {Text: "≤ 10", Got: most, Limit: 10}}},
	}
}

// killedInTheMiddle kills a process when a third of the rows are handled, or after a while,
// and starts another. It returns how many handled rows the other one delivers again, and how
// many may be.
func (v *service) killedInTheMiddle(count int) (repeated, bound float64, err error) {
	record := v.suite.binary("handled")
	set := variables{
		"MODE": "poison", "CHANGES": strconv.Itoa(count), "POISON": "true", "NAME": "bench-poison-killed", "RECORD": record, "EXPIRATION": "3s", "LIMIT": "5m",
	}
	ctx, kill := context.WithCancel(v.suite.ctx)
	defer kill()
	wait, err := v.start(ctx, v.suite.halley, set)
	if err != nil {
		return 0, 0, err
	}
	for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(5 * time.Millisecond) {
		if info, err := os.Stat(record); err == nil && info.Size() >= int64(count/3*recordSize) {
			break
		}
	}
	kill()
	if _, err := wait(); err == nil {
		return 0, 0, fmt.Errorf("the process ended before it was killed")
	}
	entries, err := os.ReadFile(record)
	if err != nil {
		return 0, 0, err
	}
	set["LIMIT"] = "15s"
	found, err := v.run(v.suite.halley, set)
	return found["repeated"], maxAhead + pageRows + mostWithin(entries, checkpointTime), err
}

// recordSize is the length of an entry of a record, see client/poison.go.
const recordSize = 16

// mostWithin returns the largest number of entries of a record within a time.
func mostWithin(entries []byte, length time.Duration) float64 {
	var times []int64
	for ; len(entries) >= recordSize; entries = entries[recordSize:] {
		times = append(times, int64(binary.LittleEndian.Uint64(entries)))
	}
	most, first := 0, 0
	for i := range times {
		for times[i]-times[first] > int64(length) {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most)
}
