package main

import (
	"fmt"
	"strconv"

	"halley/tests/bench/report"
)

// singleRequests measures the client's part of a poll that finds nothing and of a conditional write of a
// lease.
func (s *suite) singleRequests() (report.Section, error) {
	section := report.Section{Title: "One poll, one lease checkpoint", Text: "Processor time in µs of a read of the feed that is answered 304, and of one conditional replace of a document like a lease. " +
		"The floor sends the same requests with net/http alone; the account refuses its write for want of a signature."}
	v, err := s.serve("-changes", "1")
	if err != nil {
		return section, err
	}
	defer v.close()
	polls, writes := "10000", "3000"
	if s.short {
		polls, writes = "4000", "1500"
	}
	measured := func(mode, requests string, more ...entrant) (results, error) {
		set := func(mode string) variables { return variables{"MODE": mode, "CHANGES": requests} }
		return s.interleave(present(append(more, entrant{colFloor, s.halley, v, set("floor-" + mode)}, entrant{colPlain, s.plain, v, set(mode)}, entrant{colHalley, s.halley, v, set(mode)})...))
	}
	cpu := func(found results, column string) report.Samples { return found.of(column, "cpuPerMillion") }
	const bare = "net/http with as few headers as the server of the benchmark needs"
	poll, err := measured("poll", polls, entrant{bare, s.halley, v, variables{"MODE": "bare-poll", "CHANGES": polls}})
	if err != nil {
		return section, err
	}
	section.Text += fmt.Sprintf(" With as few headers as the server of the benchmark needs, without a signature for example, a poll takes net/http %s.", report.Number(cpu(poll, bare).Median()))
	delete(poll, bare)
	write, err := measured("checkpoint", writes, entrant{colAzcosmos, s.azcosmos, v, variables{"MODE": "checkpoint", "CHANGES": writes}})
	if err != nil {
		return section, err
	}
	cells := func(found results) map[string]string {
		row := map[string]string{}
		for column := range found {
			row[column] = report.Number(cpu(found, column).Median())
		}
		return row
	}
	section.Rows = []report.Row{
		{Name: "poll that finds nothing (304), µs CPU", Cells: cells(poll), Goals: []report.Goal{{Text: "≤ 1.1 × net/http", Got: cpu(poll, colHalley).Over(cpu(poll, colFloor)).Median(), Limit: 1.1, Guard: 1.5}}},
		{Name: "lease checkpoint, µs CPU", Cells: cells(write), Goals: []report.Goal{{Text: "≤ 0.85 of azcosmos", Got: cpu(write, colHalley).Over(cpu(write, colAzcosmos)).Median(), Limit: 0.85, Guard: 1.3}}},
	}
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
