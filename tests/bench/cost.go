package main

import (
	"fmt"
	"strconv"

	"halley/tests/bench/report"
)

// Entrants that have no column of their own.
const (
	readOnly     = "read and split only"
	plainRead    = "read and split only, plain build"
	reusing      = "with ReuseBuffers"
	withDefaults = "with default settings"
	withTwo      = "2 functions"
	withFour     = "4 functions"
)

// The lengths of feeds: slow contenders read a shorter one, and the Java processor a
// part of that, several times.
const (
	longFeed  = 200_000
	shortFeed = 40_000
	javaFeed  = 20_000
)

// costTargets are the targets for one size of pages. Guards are the limits of the
// short form.
type costTargets struct {
	page                        int
	azcosmos, javaScript, read  float64 // ratios
	azcosmosGuard, readGuard    float64
	overhead, overheadGuard     float64 // of the runtime over its own read loop
	allocations, allocGuard     float64 // for each change
	extraBytes, extraBytesGuard float64 // for each change, in addition to those of the page
}

var costTable = []costTargets{
	{1000, 1. / 8, 1. / 9, 1. / 10, 1. / 2.5, 1. / 3.5, 1.25, 2.5, 0.3, 0.9, 30, 300},
	{100, 1. / 5.5, 0, 1. / 7.5, 1. / 1.6, 1. / 2.5, 1.35, 2.8, 1.6, 2, 200, 500},
}

// costPerChange measures the processor time and the allocations for a change.
func (s *suite) costPerChange() (report.Section, error) {
	section := report.Section{Title: "Cost of a change", Text: "Processor time is in CPU-seconds for a million changes of 1 KB in one range: of the whole process, in user and system mode, from the opened connection on, because the certificates of the system cost as much as thousands of changes. " +
		"`read and split` has no leases, no handler and no checkpoints; azcosmos and @azure/cosmos have none either. The Java processor takes no turns: one process reads the feed again and again, and is measured once its code is compiled."}
	changes, fewer := longFeed, shortFeed
	if s.short {
		changes, fewer = changes/2, fewer/2
	}
	long, err := s.serve("-changes", strconv.Itoa(changes))
	if err != nil {
		return section, err
	}
	defer long.close()
	short, err := s.serve("-changes", strconv.Itoa(fewer))
	if err != nil {
		return section, err
	}
	defer short.close()
	for _, targets := range costTable {
		found, err := s.interleave(s.costEntrants(long, short, targets.page, changes))
		if err != nil {
			return section, err
		}
		if len(s.javaVM.command) > 0 {
			java, err := short.run(s.javaVM, variables{"PAGE": strconv.Itoa(targets.page), "CHANGES": strconv.Itoa(javaFeed), "WINDOWS": strconv.Itoa(s.rounds)})
			if err != nil {
				return section, err
			}
			found[colJava] = []figures{java}
		}
		section.Rows = append(section.Rows, costRows(found, targets)...)
	}
	row, err := s.costOfDefaults(long, changes)
	section.Rows = append(section.Rows, row)
	return section, err
}

// costOfDefaults compares the default settings, with which pages grow and batches have 100 changes,
// with pages and batches of 1,000.
func (s *suite) costOfDefaults(long *service, changes int) (report.Row, error) {
	row := report.Row{Name: "whole runtime with default settings, × that at 1,000 per page", Cells: map[string]string{}}
	set := func(page string) variables {
		return variables{"MODE": "runtime", "PAGE": page, "CHANGES": strconv.Itoa(changes)}
	}
	found, err := s.interleave([]entrant{{colHalley, s.halley, long, set("1000")}, {withDefaults, s.halley, long, set("0")}})
	if err != nil {
		return row, err
	}
	_, large, err := long.unitsOf(set("1000"))
	if err != nil {
		return row, err
	}
	_, growing, err := long.unitsOf(set("0"))
	if err != nil {
		return row, err
	}
	times := found.of(withDefaults, "cpuPerMillion").Over(found.of(colHalley, "cpuPerMillion")).Median()
	requests := growing.reads() / large.reads()
	row.Cells[colHalley] = report.Number(times)
	row.Goals = []report.Goal{
		{Text: "≤ 1.25", Got: times, Limit: 1.25, Guard: 1.6, Obstacle: "each batch of 100 is a call of its own"},
		{Text: "≤ 1.05 × its reads of the feed", Got: requests, Limit: 1.05, Guard: 1.1},
	}
	return row, nil
}

// costEntrants are the contenders that read the long feed or the short one.
func (s *suite) costEntrants(long, short *service, page, changes int) []entrant {
	set := func(mode string, handled int) variables {
		return variables{"MODE": mode, "PAGE": strconv.Itoa(page), "CHANGES": strconv.Itoa(handled)}
	}
	reuse := set("runtime", changes)
	reuse["REUSE"] = "true"
	two, four := set("runtime", changes), set("runtime", changes)
	two["FUNCTIONS"], four["FUNCTIONS"] = "2", "4"
	return present(
		entrant{colFloor, s.halley, long, set("floor", 0)},
		entrant{readOnly, s.halley, long, set("read", 0)},
		entrant{plainRead, s.plain, long, set("read", 0)},
		entrant{colHalley, s.halley, long, set("runtime", changes)},
		entrant{colPlain, s.plain, long, set("runtime", changes)},
		entrant{reusing, s.halley, long, reuse},
		entrant{withTwo, s.halley, long, two},
		entrant{withFour, s.halley, long, four},
		entrant{colAzcosmos, s.azcosmos, short, set("read", 0)},
		entrant{colJavaScript, s.javaScript, short, set("", 0)},
	)
}

func costRows(found results, targets costTargets) []report.Row {
	page := report.Number(float64(targets.page)) + " per page"
	cpu := func(column string) report.Samples { return found.of(column, "cpuPerMillion") }
	cell := func(column, name string) string { return report.Number(found.of(column, name).Median()) }
	cells := func(name string, columns ...string) map[string]string {
		row := map[string]string{}
		for _, column := range columns {
			if len(found[column]) > 0 {
				row[column] = cell(column, name)
			}
		}
		return row
	}
	ratio := func(text string, of, to report.Samples, limit, guard float64) report.Goal {
		return report.Goal{Text: text, Got: of.Over(to).Median(), Limit: limit, Guard: guard, Show: report.Fraction, Obstacle: fmt.Sprintf(
			"of the %s that the target allows, net/http and TLS alone take %s, and checking and splitting the pages %s",
			report.Number(limit*to.Median()), cell(colFloor, "cpuPerMillion"), report.Number(cpu(readOnly).Median()-cpu(colFloor).Median()))}
	}
	runtime := report.Row{Name: "whole runtime, checkpoints on, " + page, Cells: cells("cpuPerMillion", colFloor, colAzcosmos, colJavaScript, colJava, colPlain, colHalley)}
	runtime.Goals = []report.Goal{ratio(fmt.Sprintf("≤ %s of azcosmos", report.Limit(targets.azcosmos)), cpu(colHalley), cpu(colAzcosmos), targets.azcosmos, targets.azcosmosGuard)}
	if targets.javaScript > 0 && len(found[colJavaScript]) > 0 {
		runtime.Goals = append(runtime.Goals, ratio(fmt.Sprintf("≤ %s of @azure/cosmos", report.Limit(targets.javaScript)), cpu(colHalley), cpu(colJavaScript), targets.javaScript, 0))
	}
	read := report.Row{Name: "read and split, " + page, Cells: cells("cpuPerMillion", colFloor, colAzcosmos)}
	read.Cells[colHalley] = cell(readOnly, "cpuPerMillion")
	if len(found[plainRead]) > 0 {
		read.Cells[colPlain] = cell(plainRead, "cpuPerMillion")
	}
	read.Goals = []report.Goal{ratio(fmt.Sprintf("≤ %s of azcosmos", report.Limit(targets.read)), cpu(readOnly), cpu(colAzcosmos), targets.read, targets.readGuard)}

	overhead := report.Row{Name: "runtime over its own read loop, " + page, Goals: []report.Goal{{
		Text: "≤ " + percentMore(targets.overhead), Got: cpu(colHalley).Over(cpu(readOnly)).Median(), Limit: targets.overhead, Guard: targets.overheadGuard, Show: percentMore,
		Obstacle: fmt.Sprintf("it is %s with ReuseBuffers: by default the changes and their bytes belong to the handler, and are garbage after it", percentMore(cpu(reusing).Over(cpu(readOnly)).Median())),
	}}}
	allocations := report.Row{Name: "allocations per change, " + page, Cells: cells("allocations", colAzcosmos, colHalley)}
	allocations.Goals = []report.Goal{{Text: "≤ " + report.Limit(targets.allocations), Got: found.of(colHalley, "allocations").Median(), Limit: targets.allocations, Guard: targets.allocGuard,
		Obstacle: fmt.Sprintf("net/http and TLS alone allocate %s, the read loop %s", cell(colFloor, "allocations"), cell(readOnly, "allocations"))}}
	const inPage = 1024
	bytes := report.Row{Name: "bytes allocated per change of 1,024, " + page, Cells: cells("bytes", colAzcosmos, colHalley)}
	obstacle := fmt.Sprintf("net/http and TLS alone allocate %s besides the page, the read loop %s", cell(colFloor, "bytes"), cell(readOnly, "bytes"))
	kept := report.Number(found.of(colHalley, "bytes").Median() - found.of(reusing, "bytes").Median())
	bytes.Goals = []report.Goal{
		{Text: "≤ those of the page + " + report.Limit(targets.extraBytes), Got: found.of(colHalley, "bytes").Median(), Limit: inPage + targets.extraBytes, Guard: inPage + targets.extraBytesGuard,
			Obstacle: fmt.Sprintf("pages whose memory is not reclaimed yet, and the slice of changes, which a handler may keep as well, take %s; %s", kept, obstacle)},
		{Text: "≤ " + report.Limit(targets.extraBytes) + " with ReuseBuffers", Got: found.of(reusing, "bytes").Median(), Limit: targets.extraBytes, Guard: targets.extraBytesGuard, Obstacle: obstacle},
	}
	rows := []report.Row{runtime, read, overhead, allocations, bytes}
	for _, several := range []string{withTwo, withFour} {
		times := cpu(several).Over(cpu(colHalley)).Median()
		rows = append(rows, report.Row{
			Name: "a change for one of " + several + " on the container, × one function, " + page, Cells: map[string]string{colHalley: report.Number(times)},
			Goals: []report.Goal{{Text: "≤ 1", Got: times, Limit: 1, Guard: 1.5}},
		})
	}
	return rows
}

// percentMore writes a ratio as the share above 1.
func percentMore(ratio float64) string { return fmt.Sprintf("%+.0f %%", 100*(ratio-1)) }
