package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"halley/tests/bench/report"
)

// costCurves measures the cost of a change against the number of ranges and of lanes.
func (s *suite) costCurves() (report.Section, error) {
	section := report.Section{Title: "Cost against ranges and lanes", Text: "CPU-seconds for a million changes of 1 KB at 100 per page. The changes are spread over the ranges of one drain, or over the lanes of one range."}
	const changes = 100_000
	set := func(mode string, ranges, lanes int) variables {
		return variables{"MODE": mode, "RANGES": strconv.Itoa(ranges), "LANES": strconv.Itoa(lanes), "PAGE": "100"}
	}
	ofRanges := map[string][]report.Point{}
	for _, ranges := range []int{1, 10, 100, 1000} {
		found, err := s.withService(func(v *service) (results, error) {
			return s.interleave([]entrant{
				{colFloor, s.halley, v, set("floor", ranges, 1)}, {readOnly, s.halley, v, set("read", ranges, 1)}, {colHalley, s.halley, v, set("runtime", ranges, 1)},
				{colAzcosmos, s.azcosmos, v, set("read", ranges, 1)},
			})
		}, "-ranges", strconv.Itoa(ranges), "-changes", strconv.Itoa(changes/ranges))
		if err != nil {
			return section, err
		}
		for column := range found {
			ofRanges[column] = append(ofRanges[column], report.Point{X: float64(ranges), Y: found.of(column, "cpuPerMillion").Median()})
		}
	}
	var ofLanes []report.Point
	lanes := []int{1, 4, 16}
	found, err := s.withService(func(v *service) (results, error) {
		var entrants []entrant
		for _, n := range lanes {
			entrants = append(entrants, entrant{strconv.Itoa(n), s.halley, v, set("runtime", 1, n)})
		}
		return s.interleave(entrants)
	}, "-changes", strconv.Itoa(changes))
	if err != nil {
		return section, err
	}
	flat := report.Row{Name: "lanes 1 → 4 → 16", Cells: map[string]string{}}
	worst := 0.0
	for _, n := range lanes {
		cpu := found.of(strconv.Itoa(n), "cpuPerMillion")
		worst = max(worst, cpu.Over(found.of("1", "cpuPerMillion")).Median())
		ofLanes = append(ofLanes, report.Point{X: float64(n), Y: cpu.Median()})
		if flat.Cells[colHalley] != "" {
			flat.Cells[colHalley] += " → "
		}
		flat.Cells[colHalley] += report.Number(cpu.Median())
	}
	flat.Goals = []report.Goal{{Text: "flat within 30 %", Got: worst, Limit: 1.3, Show: percentMore}}
	section.Rows = []report.Row{flat}
	section.Chart = []report.Chart{
		{File: "cost-ranges", Title: "Cost of a change against ranges", XName: "ranges", YName: "CPU-s per million changes", LogX: true, Curves: []report.Curve{
			{Name: "Halley, whole runtime", Points: ofRanges[colHalley]}, {Name: "Halley, read and split", Points: ofRanges[readOnly]}, {Name: colFloor, Points: ofRanges[colFloor]}, {Name: colAzcosmos, Points: ofRanges[colAzcosmos]},
		}},
		{File: "cost-lanes", Title: "Cost of a change against lanes", XName: "lanes of one range", YName: "CPU-s per million changes", Curves: []report.Curve{{Name: colHalley, Points: ofLanes}}},
	}
	return section, nil
}

// withService measures against a server with the given flags.
func (s *suite) withService(measure func(*service) (results, error), flags ...string) (results, error) {
	v, err := s.serve(flags...)
	if err != nil {
		return nil, err
	}
	defer v.close()
	return measure(v)
}

// latency measures the time from a write to the handler, with default settings.
func (s *suite) latency() (report.Section, error) {
	section := report.Section{Title: "From a write to the handler", Text: "Milliseconds from the moment before a write is sent to the call of the handler with its change, with default settings on the embedded account. " +
		"Another process writes to one range at a steady rate. The round trip over loopback is counted as 1 ms. Polls are the reads of the feed, and their request units are those of the account: 1 for an answer without changes."}
	writer := s.halley
	writer.beside = true
	var half, late, units []report.Point
	for _, rate := range []int{1, 10, 100, 1000} {
		v, err := s.serve()
		if err != nil {
			return section, err
		}
		window := "2s"
		if rate == 100 {
			window = "4s"
		}
		began := time.Now()
		found, err := v.runBeside(s.halley, variables{"MODE": "latency", "WINDOW": window, "WINDOWS": strconv.Itoa(s.rounds)}, writer, variables{"MODE": "write", "RATE": strconv.Itoa(rate)})
		took := time.Since(began).Seconds()
		spent, errCounts := v.counts()
		v.close()
		if err != nil || errCounts != nil {
			return section, fmt.Errorf("%d writes per second: %w", rate, errors.Join(err, errCounts))
		}
		polls := spent.Requests["feed"] + spent.Requests["emptyFeed"]
		row := report.Row{Name: fmt.Sprintf("%d writes/s: p50 / p99", rate), Cells: map[string]string{colHalley: report.Number(found["p50Millis"]) + " / " + report.Number(found["p99Millis"])}}
		if rate == 100 {
			row.Goals = []report.Goal{
				{Text: "p50 ≤ one round trip + 10 ms", Got: found["p50Millis"], Limit: 11, Show: report.Unit("ms")},
				{Text: "p99 ≤ 100 ms", Got: found["p99Millis"], Limit: 100, Show: report.Unit("ms")},
			}
		}
		section.Rows = append(section.Rows, row, report.Row{Name: fmt.Sprintf("%d writes/s: polls / request units for empty polls, per second", rate),
			Cells: map[string]string{colHalley: report.Number(polls/took) + " / " + report.Number(spent.Units["emptyFeed"]/took)}})
		at := float64(rate)
		half, late = append(half, report.Point{X: at, Y: found["p50Millis"]}), append(late, report.Point{X: at, Y: found["p99Millis"]})
		units = append(units, report.Point{X: at, Y: spent.Units["emptyFeed"] / took})
	}
	section.Chart = []report.Chart{
		{File: "latency", Title: "Latency against write rate", XName: "writes per second on one range", YName: "ms from write to handler", LogX: true, LogY: true,
			Curves: []report.Curve{{Name: "median", Points: half}, {Name: "99 of 100", Points: late}}},
		{File: "polls", Title: "Request units for empty polls", XName: "writes per second on one range", YName: "request units per second", LogX: true, Curves: []report.Curve{{Name: colHalley, Points: units}}},
	}
	return section, nil
}

// idleRanges compares hosts of a thousand ranges without changes. The contenders run
// at the same time, each with a service of its own.
func (s *suite) idleRanges() (report.Section, error) {
	section := report.Section{Title: "1,000 idle ranges", Text: "Each range is polled every 5 s, and its lease renewed every 17 s. The floor does both with net/http, one range after the other over one connection; azcosmos only polls. Contenders run at the same time."}
	set := func(mode string) variables {
		return variables{"MODE": mode, "RANGES": "1000", "POLL": "5s", "WINDOW": "5s", "WINDOWS": strconv.Itoa(s.rounds), "PAGE": "100", "LIMIT": "60s"}
	}
	renewing := set("idle")
	renewing["WINDOW"], renewing["WINDOWS"] = "17s", strconv.Itoa(min(s.rounds, 3)) // each lease is renewed once in a window
	entrants := []entrant{{column: colFloor, program: s.halley, set: set("floor-idle")}, {column: colAzcosmos, program: s.azcosmos, set: set("idle")}, {column: colHalley, program: s.halley, set: renewing}}
	waits := map[string]func() (figures, error){}
	for i, e := range entrants {
		v, err := s.serve("-ranges", "1000", "-changes", "1")
		if err != nil {
			return section, err
		}
		defer v.close()
		entrants[i].service = v
		if waits[e.column], err = v.start(s.ctx, e.program, e.set); err != nil {
			return section, err
		}
	}
	found := map[string]figures{}
	connections := 0.0
	ended := make(chan error, 1)
	go func() {
		var errs []error
		for column, wait := range waits {
			result, err := wait()
			found[column], errs = result, append(errs, err)
		}
		ended <- errors.Join(errs...)
	}()
	for {
		select {
		case err := <-ended:
			if err != nil {
				return section, err
			}
			now, err := entrants[2].service.counts()
			section.Rows = idleRows(found, now, connections)
			return section, err
		case <-time.After(time.Second):
			if now, err := entrants[2].service.counts(); err == nil {
				connections = max(connections, now.Connections-1)
			}
		}
	}
}

func idleRows(found map[string]figures, requests counts, connections float64) []report.Row {
	cells := func(name string) map[string]string {
		row := map[string]string{}
		for column := range found {
			row[column] = report.Number(found[column][name])
		}
		return row
	}
	halley := found[colHalley]
	return []report.Row{
		{Name: "% of a processor", Cells: cells("cpuPercent"), Goals: []report.Goal{{Text: "≤ 2 × the floor", Got: halley["cpuPercent"] / found[colFloor]["cpuPercent"], Limit: 2,
			Obstacle: fmt.Sprintf("it has sent %s polls, and written leases %s times, also to acquire and to release them", report.Number(requests.Requests["emptyFeed"]+requests.Requests["feed"]), report.Number(requests.Requests["leaseWrite"]))}}},
		{Name: "resident memory, MiB", Cells: cells("rssMiB"), Goals: []report.Goal{{Text: "≤ 48 MiB", Got: halley["rssMiB"], Limit: 48, Show: report.Unit("MiB"),
			Obstacle: fmt.Sprintf("stacks of goroutines take %.1f MiB, live memory %.1f MiB, and memory that the collector lets grow until the next collection most of the rest", halley["stackMiB"], halley["liveMiB"])}}},
		{Name: "ranges acquired / goroutines / most connections", Cells: map[string]string{
			colHalley: report.Number(halley["ranges"]) + " / " + report.Number(halley["goroutines"]) + " / " + report.Number(connections),
		}},
	}
}

// timerTick measures a drain that finds nothing.
func (s *suite) timerTick() (report.Section, error) {
	section := report.Section{Title: "Timer tick over idle ranges", Text: "Processor time of one drain that finds no changes, after the leases were created."}
	for _, tick := range []struct {
		ranges string
		limit  float64
	}{{"1000", 0.12}, {"4000", 0.5}} {
		v, err := s.serve("-ranges", tick.ranges)
		if err != nil {
			return section, err
		}
		found, err := v.run(s.halley, variables{"MODE": "tick", "RANGES": tick.ranges, "WINDOWS": strconv.Itoa(s.rounds)})
		v.close()
		if err != nil {
			return section, err
		}
		section.Rows = append(section.Rows, report.Row{Name: tick.ranges + " ranges, CPU-s (and s)", Cells: map[string]string{colHalley: fmt.Sprintf("%s (%s)", report.Number(found["cpuSeconds"]), report.Number(found["seconds"]))},
			Goals: []report.Goal{{Text: fmt.Sprintf("≤ %g s", tick.limit), Got: found["cpuSeconds"], Limit: tick.limit, Show: report.Unit("s")}}})
	}
	return section, nil
}

// acquisitionBudget ends the rounds of acquisition, which are long if it is slow.
const acquisitionBudget = 35 * time.Second

// acquisition measures how long a new host takes to work on all ranges.
func (s *suite) acquisition() (report.Section, error) {
	section := report.Section{Title: "Acquisition of busy ranges", Text: "Seconds from the start of the only host, without leases, to a handler call for each range. A run ends after 30 s."}
	for _, size := range []struct {
		ranges int
		limit  float64
	}{{64, 1}, {256, 2}, {1000, 5}} {
		v, err := s.serve("-ranges", strconv.Itoa(size.ranges), "-changes", "200")
		if err != nil {
			return section, err
		}
		var seconds, ranges report.Samples
		for began := time.Now(); len(seconds) < s.rounds && time.Since(began) < acquisitionBudget; {
			found, err := v.run(s.halley, variables{"MODE": "acquire", "RANGES": strconv.Itoa(size.ranges), "LIMIT": "30s"})
			if err != nil {
				v.close()
				return section, err
			}
			seconds, ranges = append(seconds, found["seconds"]), append(ranges, found["ranges"])
		}
		v.close()
		text := report.Number(seconds.Median()) + " s"
		if n := ranges.Median(); n < float64(size.ranges) {
			text = fmt.Sprintf("%s ranges in %s", report.Number(n), text)
		}
		section.Rows = append(section.Rows, report.Row{Name: fmt.Sprintf("%d ranges", size.ranges), Cells: map[string]string{colHalley: text},
			Goals: []report.Goal{{Text: fmt.Sprintf("≤ %g s", size.limit), Got: seconds.Median(), Limit: size.limit, Show: report.Unit("s")}}})
	}
	return section, nil
}

// memory measures hosts whose handlers are slower than their reads.
func (s *suite) memory() (report.Section, error) {
	section := report.Section{Title: "Memory", Text: "Pages of 1 MB, handler calls of 2 s, a read-ahead of 64 MiB. Resident memory is the most of the run; live memory is the most that a collection of garbage found in use. " +
		"The last row is a drain of 64 ranges with calls of 100 ms and GOMEMLIMIT=100MiB."}
	var resident, live []report.Point
	for _, ranges := range []int{16, 64, 256} {
		v, err := s.serve("-ranges", strconv.Itoa(ranges), "-changes", "8000")
		if err != nil {
			return section, err
		}
		var most, inUse, acquired, sockets report.Samples
		for range s.rounds {
			found, err := v.run(s.halley, variables{"MODE": "memory", "RANGES": strconv.Itoa(ranges), "PAGE": "1000", "HANDLER": "2s", "WINDOW": "5s", "LIMIT": "30s"})
			if err != nil {
				v.close()
				return section, err
			}
			most, inUse = append(most, found["peakMiB"]), append(inUse, found["liveMiB"])
			acquired, sockets = append(acquired, found["ranges"]), append(sockets, found["sockets"])
		}
		v.close()
		row := report.Row{Name: fmt.Sprintf("%d ranges: resident / live MiB", ranges), Cells: map[string]string{colHalley: report.Number(most.Median()) + " / " + report.Number(inUse.Median())}}
		if n := acquired.Median(); n < float64(ranges) {
			row.Cells[colHalley] += fmt.Sprintf(" with %.0f ranges acquired", n)
		}
		if ranges == 256 {
			row.Goals = []report.Goal{
				{Text: "resident ≤ 2 × budget + 64 MiB", Got: most.Median(), Limit: 192, Show: report.Unit("MiB")},
				{Text: "live ≤ budget + a transaction a range + 16 MiB for all else", Got: inUse.Median(), Limit: 64 + 256./1024 + 16, Show: report.Unit("MiB"),
					Obstacle: fmt.Sprintf("%.0f connections were open, each with the buffers of TLS", sockets.Median())},
			}
		}
		section.Rows = append(section.Rows, row)
		resident, live = append(resident, report.Point{X: float64(ranges), Y: most.Median()}), append(live, report.Point{X: float64(ranges), Y: inUse.Median()})
	}
	section.Chart = []report.Chart{{File: "memory", Title: "Memory against ranges, read-ahead of 64 MiB", XName: "ranges", YName: "MiB",
		Curves: []report.Curve{{Name: "resident", Points: resident}, {Name: "live", Points: live}}}}
	limited := s.halley
	limited.setup = func(*service) ([]string, error) { return []string{"GOMEMLIMIT=100MiB"}, nil }
	found, err := s.withService(func(v *service) (results, error) {
		found, err := v.run(limited, variables{"MODE": "runtime", "RANGES": "64", "PAGE": "1000", "HANDLER": "100ms"})
		return results{colHalley: {found}}, err
	}, "-ranges", "64", "-changes", "8000")
	if err != nil {
		return section, err
	}
	peak := found.of(colHalley, "peakMiB").Median()
	section.Rows = append(section.Rows, report.Row{Name: "drain of 64 ranges under GOMEMLIMIT: resident MiB", Cells: map[string]string{colHalley: report.Number(peak)},
		Goals: []report.Goal{{Text: "≤ 128 MiB", Got: peak, Limit: 128, Show: report.Unit("MiB")}}})
	return section, nil
}
