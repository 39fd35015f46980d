package main

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"halley/tests/bench/report"
)

// onePipeline measures how far one range overlaps reads, handler calls and lease
// writes, against a loop that does one after the other.
func (s *suite) onePipeline() (report.Section, error) {
	section := report.Section{Title: "One range, slow service", Text: "Answers of the feed take 5 ms, handler calls 5 ms and lease writes 10 ms. " +
		"Speed is compared with a loop that reads a page, handles it and writes the checkpoint in turn, as the peers do, and with the handler calls alone."}
	const pages = 100
	v, err := s.serve("-changes", strconv.Itoa(pages*100), "-feed-delay", "5ms", "-lease-delay", "10ms")
	if err != nil {
		return section, err
	}
	defer v.close()
	const inTurn = "in turn"
	found, err := s.interleave([]entrant{
		{inTurn, s.halley, v, variables{"MODE": "inturn", "HANDLER": "5ms"}},
		{colHalley, s.halley, v, variables{"MODE": "runtime", "HANDLER": "5ms"}},
	})
	if err != nil {
		return section, err
	}
	halley := found.of(colHalley, "handlerSeconds")
	speed := found.of(inTurn, "handlerSeconds").Over(halley).Median()
	section.Rows = []report.Row{
		{Name: "speed, the loop in turn = 1", Cells: map[string]string{colHalley: report.Number(speed)},
			Goals: []report.Goal{{Text: "≥ 2.85", Got: speed, Limit: 2.85, AtLeast: true, Guard: 2}}},
		{Name: "share of the speed of the handler alone", Goals: []report.Goal{{
			Text: "≥ 0.92", Got: found.of(inTurn, "aloneSeconds").Over(halley).Median(), Limit: 0.92, AtLeast: true, Guard: 0.5,
			Obstacle: fmt.Sprintf("a call begins %.2f ms after the one before it has ended", 1000*(halley.Median()-found.of(inTurn, "aloneSeconds").Median())/pages)}}},
	}
	return section, nil
}

// decoding measures the splitter of pages and typed handlers.
func (s *suite) decoding() (report.Section, error) {
	section := report.Section{Title: "Splitting and decoding", Text: "The splitter is compared with decoding the same page into raw messages with encoding/json, by a Go benchmark of package cosmos. " +
		"Damaged pages are valid ones with one byte changed, added or removed, so that they are not JSON in UTF-8 any more. Typed handlers are compared with decoding the same documents with json.Unmarshal."}
	v, err := s.serve("-changes", "100")
	if err != nil {
		return section, err
	}
	defer v.close()
	window := "200ms"
	if s.short {
		window = "100ms"
	}
	damaged, err := v.run(s.halley, variables{"MODE": "damage", "CHANGES": "2000"})
	if err != nil {
		return section, err
	}
	typed, err := v.run(s.halley, variables{"MODE": "typed", "WINDOW": window, "WINDOWS": strconv.Itoa(s.rounds)})
	if err != nil {
		return section, err
	}
	section.Rows = []report.Row{
		{Name: "damaged pages taken", Goals: []report.Goal{{Text: "0 %", Got: damaged["takenPercent"], Show: percent}}},
		{Name: "typed handlers, × encoding/json", Goals: []report.Goal{{Text: "≥ 1", Got: typed["typedRatio"], Limit: 1, AtLeast: true, Guard: 0.7, Obstacle: "they call encoding/json for each document, as the reference does"}}},
		{Name: "typed handlers with a strict decoder, × encoding/json", Goals: []report.Goal{{Text: "≥ 2", Got: typed["strictRatio"], Limit: 2, AtLeast: true, Guard: 1.4}}},
		{Name: "functions for AWS Lambda, × encoding/json", Goals: []report.Goal{{Text: "≥ 1", Got: typed["lambdaRatio"], Limit: 1, AtLeast: true, Guard: 0.5,
			Obstacle: fmt.Sprintf("they get the documents as one JSON array through the decoder of aws-lambda-go; json.Unmarshal takes such an array at %s", report.Number(typed["arrayRatio"]))}}},
	}
	split, err := s.goBenchmarks("./trigger/cosmos", "^BenchmarkPage$", "50ms", s.rounds)
	if err != nil {
		return section, err
	}
	var ratios, allocations report.Samples
	for _, found := range split {
		ratio, allocated := splitterRatio(found)
		ratios, allocations = append(ratios, ratio), append(allocations, allocated)
	}
	section.Rows = append(section.Rows, report.Row{Name: "splitter, × encoding/json", Goals: []report.Goal{
		{Text: "≥ 8", Got: ratios.Median(), Limit: 8, AtLeast: true, Guard: 3},
		{Text: "0 allocations", Got: allocations.Median(), Guard: 0.5},
	}})
	builds, err := s.splitterBuilds()
	section.Rows = append(section.Rows, builds...)
	return section, err
}

// splitterBuilds compares the splitter of packaged apps with that of a plain build, in turns, for
// each size of documents in BenchmarkPage.
func (s *suite) splitterBuilds() (rows []report.Row, err error) {
	if runtime.GOARCH != "amd64" { // no other processor has vector code
		return nil, nil
	}
	const directory = "./trigger/cosmos"
	programs := map[string]string{}
	for _, experiment := range []string{"", "simd"} {
		if programs[experiment], err = s.buildBenchmarks(directory, experiment); err != nil {
			return nil, err
		}
	}
	speeds := map[string]report.Samples{} // packaged over plain, by the name of the benchmark
	for range 2*s.rounds + 1 {
		found := map[string]map[string]figures{}
		for experiment, program := range programs {
			if found[experiment], err = s.runBenchmarks(program, directory, "^BenchmarkPage$/./^cut$", "50ms"); err != nil {
				return nil, err
			}
		}
		for name, plain := range found[""] {
			speeds[name] = append(speeds[name], plain["ns/op"]/found["simd"][name]["ns/op"])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(speeds)) {
		size, _ := strings.CutSuffix(strings.TrimPrefix(name, "Page/"), "/cut")
		rows = append(rows, report.Row{Name: "splitter as packaged (AVX2), × the plain build, documents of " + strings.Replace(size, "B", " B", 1), Goals: []report.Goal{
			{Text: "≥ 1", Got: speeds[name].Median(), Limit: 1, AtLeast: true, Guard: 0.8},
		}})
	}
	return rows, nil
}

// splitterRatio returns the speed of the splitter on the largest documents of
// BenchmarkPage as a multiple of encoding/json's, and its allocations for a page.
func splitterRatio(found map[string]figures) (ratio, allocations float64) {
	ratio, allocations = math.NaN(), math.NaN()
	largest := 0
	for name, cut := range found {
		size, isCut := strings.CutSuffix(name, "/cut")
		decode := found[size+"/decode"]
		bytes, _ := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(size, "Page/"), "B"))
		if isCut && decode != nil && bytes >= largest {
			largest, ratio, allocations = bytes, decode["ns/op"]/cut["ns/op"], cut["allocs/op"]
		}
	}
	return ratio, allocations
}

func percent(value float64) string { return report.Number(value) + " %" }

// leaseCheckpoint measures the client's part of a conditional write of a lease.
func (s *suite) leaseCheckpoint() (report.Section, error) {
	section := report.Section{Title: "One lease checkpoint", Text: "Processor time of one conditional replace of a document like a lease, in µs. The floor sends the same body with net/http, and the account refuses it for want of a signature."}
	v, err := s.serve()
	if err != nil {
		return section, err
	}
	defer v.close()
	writes := "3000"
	if s.short {
		writes = "1500"
	}
	found, err := s.interleave([]entrant{
		{colFloor, s.halley, v, variables{"MODE": "floor-checkpoint", "CHANGES": writes}},
		{colAzcosmos, s.azcosmos, v, variables{"MODE": "checkpoint", "CHANGES": writes}},
		{colHalley, s.halley, v, variables{"MODE": "checkpoint", "CHANGES": writes}},
	})
	if err != nil {
		return section, err
	}
	row := report.Row{Name: "lease checkpoint, µs CPU", Cells: map[string]string{}}
	for column := range found {
		row.Cells[column] = report.Number(found.of(column, "cpuPerMillion").Median())
	}
	row.Goals = []report.Goal{{Text: "≤ 0.85 of azcosmos", Limit: 0.85, Guard: 1.3,
		Got: found.of(colHalley, "cpuPerMillion").Over(found.of(colAzcosmos, "cpuPerMillion")).Median()}}
	section.Rows = []report.Row{row}
	return section, nil
}

// requestUnits compares the request units of a drain with those of the official
// processor's requests, on the same account.
func (s *suite) requestUnits() (report.Section, error) {
	section := report.Section{Title: "Request units", Text: "Request units for a million changes of 1 KB on the embedded account, at 100 per page: reads of the feed and all requests for leases. " +
		"The official pattern checkpoints after each page with three requests: a write that is refused (412), a read, a write. Reads of the feed cost the same in both; the account charges them by the size of each document. " +
		"What a range costs in an hour that is idle, or gets single changes, is in [Operations](operations.md#what-it-costs)."}
	v, err := s.serve()
	if err != nil {
		return section, err
	}
	defer v.close()
	changes := "20000"
	if s.short {
		changes = "4000"
	}
	if _, err := v.run(s.halley, variables{"MODE": "write", "RATE": "0", "CHANGES": changes}); err != nil {
		return section, err
	}
	official, pattern, err := v.unitsOf(variables{"MODE": "official"})
	if err != nil {
		return section, err
	}
	halley, spent, err := v.unitsOf(variables{"MODE": "runtime", "CHANGES": changes})
	if err != nil {
		return section, err
	}
	leases := func(c counts) float64 { return c.Units["leaseWrite"] + c.Units["leaseRead"] }
	section.Rows = []report.Row{
		{Name: "all requests, per million changes", Cells: map[string]string{colOfficial: report.Number(official), colHalley: report.Number(halley)},
			Goals: []report.Goal{{Text: "≤ 0.6 of the official pattern", Got: halley / official, Limit: 0.6, Guard: 1.1,
				Obstacle: fmt.Sprintf("%s of the units are reads of the feed, as many in both", percent(100*(spent.Units["feed"]+spent.Units["emptyFeed"])/spent.units()))}}},
		{Name: "requests for leases, per million changes", Cells: map[string]string{colOfficial: report.Number(official * leases(pattern) / pattern.units()), colHalley: report.Number(halley * leases(spent) / spent.units())},
			Goals: []report.Goal{{Text: "≤ 0.6 of the official pattern", Got: leases(spent) / leases(pattern), Limit: 0.6, Guard: 1.2}}},
	}
	for _, functions := range []int{2, 4} {
		row, err := v.sharedReads(functions, changes, spent)
		if err != nil {
			return section, err
		}
		section.Rows = append(section.Rows, row)
	}
	section.Text += fmt.Sprintf(" A drain of %s changes wrote leases %.0f times.", changes, spent.Requests["leaseWrite"])
	return section, nil
}

// sharedReads drains the container with several functions, which share their reads, and
// compares the request units with those of a drain with one function.
func (v *service) sharedReads(functions int, changes string, one counts) (report.Row, error) {
	_, spent, err := v.unitsOf(variables{"MODE": "runtime", "CHANGES": changes, "FUNCTIONS": strconv.Itoa(functions)})
	if err != nil {
		return report.Row{}, err
	}
	times := spent.units() / one.units()
	return report.Row{
		Name:  fmt.Sprintf("all requests of %d functions on the container, × one function", functions),
		Cells: map[string]string{colHalley: report.Number(times)},
		Goals: []report.Goal{{Text: "≤ 1.1", Got: times, Limit: 1.1, Guard: 1.3}},
	}, nil
}

// unitsOf runs Halley's client and returns its request units for a million changes,
// with the counts of its requests.
func (v *service) unitsOf(set variables) (units float64, spent counts, err error) {
	before, err := v.counts()
	if err != nil {
		return 0, spent, err
	}
	found, err := v.run(v.suite.halley, set)
	if err != nil {
		return 0, spent, err
	}
	after, err := v.counts()
	if err != nil {
		return 0, spent, err
	}
	spent = after.since(before)
	return spent.units() / found["changes"] * 1e6, spent, nil
}
