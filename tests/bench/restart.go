package main

import (
	"fmt"
	"strconv"

	"halley/tests/bench/report"
)

// rollingRestart measures what restarts of hosts, one after the other, do to the time from a write to
// the handler.
func (s *suite) rollingRestart() (report.Section, error) {
	const hosts, ranges, rate, every = 4, 16, 1000, 15
	section := report.Section{Title: "Rolling restart", Text: fmt.Sprintf("%d hosts share %d ranges of the embedded account, with default settings, while another process writes to all of them, %s documents a second. "+
		"Every %d s the next host is stopped, and starts again under its name a second later. Each change counts when it is first delivered.", hosts, ranges, report.Number(rate), every)}
	writer := s.halley
	writer.beside = true
	v, err := s.serve("-ranges", strconv.Itoa(ranges))
	if err != nil {
		return section, err
	}
	defer v.close()
	found, err := v.runBeside(s.halley, variables{
		"MODE": "restart", "HOSTS": strconv.Itoa(hosts), "RANGES": strconv.Itoa(ranges), "PAGE": "0",
		"LIMIT": "45s", "WINDOW": fmt.Sprintf("%ds", every), "WINDOWS": strconv.Itoa(max(hosts, s.rounds)),
	}, writer, variables{"MODE": "write", "RATE": strconv.Itoa(rate)})
	if err != nil {
		return section, err
	}
	cell := func(name string) map[string]string { return map[string]string{colHalley: report.Number(found[name])} }
	obstacle := fmt.Sprintf("a host that stops has released its leases and told the others after %.0f ms; these notice with the next write of a lease, up to 200 ms later, and a host that starts again reads every 200 ms whether a requested lease is released", found["stopMillis"])
	section.Rows = []report.Row{
		{Name: "write → handler, ms: p50", Cells: cell("p50Millis")},
		{Name: "write → handler, ms: p99.9", Cells: cell("p999Millis"), Goals: []report.Goal{{Text: "≤ 250 ms", Got: found["p999Millis"], Limit: 250, Show: report.Unit("ms"), Obstacle: obstacle}}},
		{Name: "write → handler, ms: the most", Cells: cell("mostMillis"), Goals: []report.Goal{{Text: "≤ 1 s", Got: found["mostMillis"], Limit: 1000, Show: report.Unit("ms"), Obstacle: obstacle}}},
		{Name: "largest gap between two deliveries of a range, ms", Cells: cell("gapMillis")},
		{Name: "changes delivered / delivered again", Cells: map[string]string{colHalley: report.Number(found["changes"]) + " / " + report.Number(found["repeated"])}},
	}
	return section, nil
}
