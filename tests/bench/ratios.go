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
	section := report.Section{Title: "One range, slow service", Text: "Answers of the feed take 5 ms, handler calls 5 ms and lease writes 10 ms. Batches have 100 changes; pages are those of the default settings, and of 100 in the loop. " +
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
		{colHalley, s.halley, v, variables{"MODE": "runtime", "HANDLER": "5ms", "PAGE": "0"}},
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
	obstacle := fmt.Sprintf("they call encoding/json for arrays of some documents; one array of all documents is at %s", report.Number(typed["arrayRatio"]))
	section.Rows = []report.Row{
		{Name: "damaged pages taken", Goals: []report.Goal{{Text: "0 %", Got: damaged["takenPercent"], Show: percent}}},
		{Name: "typed handlers, × encoding/json", Goals: []report.Goal{{Text: "≥ 1", Got: typed["typedRatio"], Limit: 1, AtLeast: true, Guard: 0.85, Obstacle: obstacle}}},
		{Name: "typed handlers with a strict decoder, × encoding/json", Goals: []report.Goal{{Text: "≥ 2", Got: typed["strictRatio"], Limit: 2, AtLeast: true, Guard: 1.4}}},
		{Name: "functions for AWS Lambda, × encoding/json", Goals: []report.Goal{{Text: "≥ 1", Got: typed["lambdaRatio"], Limit: 1, AtLeast: true, Guard: 0.85, Obstacle: obstacle}}},
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
