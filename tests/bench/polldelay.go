package main

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"halley/tests/bench/report"
)

// idleCostTest is the test of package trigger that measures reads of an idle range against the wait of a
// single change, in the time of a simulation. Its subtests are named after the delay.
const idleCostTest = "TestIdleCostAgainstLatency"

// pollDelays measures the request units of an idle range against latency, for different delays between
// two polls.
func (s *suite) pollDelays() (report.Section, error) {
	section := report.Section{Title: "Idle request units against latency", Text: "Reads of one idle range in an hour, at one request unit each, and how long single changes then wait for the handler, against `HALLEY_FEED_POLL_DELAY`: `" +
		idleCostTest + "` of package trigger, in simulated time. [Settings](settings.md#limits) says why the default is 5 s."}
	cmd := exec.CommandContext(s.ctx, "go", "test", "-count=1", "-v", "-run", "^"+idleCostTest+"$", "./trigger")
	cmd.Dir, cmd.Stderr = s.root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return section, fmt.Errorf("%s: %w\n%s", idleCostTest, err, out)
	}
	names, found := parseAttributes(string(out), idleCostTest)
	var units, mean, most []report.Point
	for _, name := range names {
		delay, err := time.ParseDuration(name)
		if err != nil {
			return section, fmt.Errorf("%s/%s: %w", idleCostTest, name, err)
		}
		reads, meanSeconds, mostSeconds := figure(found[name], "reads"), figure(found[name], "meanSeconds"), figure(found[name], "mostSeconds")
		seconds := delay.Seconds()
		section.Rows = append(section.Rows, report.Row{
			Name:  fmt.Sprintf("%g s: request units an hour / mean wait, s / longest wait, s", seconds),
			Cells: map[string]string{colHalley: report.Number(reads) + " / " + report.Number(meanSeconds) + " / " + report.Number(mostSeconds)},
		})
		units = append(units, report.Point{X: seconds, Y: reads})
		mean, most = append(mean, report.Point{X: seconds, Y: math.Max(meanSeconds, 0.01)}), append(most, report.Point{X: seconds, Y: math.Max(mostSeconds, 0.01)})
	}
	if len(units) == 0 {
		return section, fmt.Errorf("%s has told nothing", idleCostTest)
	}
	section.Chart = []report.Chart{
		{File: "idle-units", Title: "Request units of an idle range", XName: "seconds between two polls", YName: "request units an hour", LogX: true, LogY: true, Curves: []report.Curve{{Name: colHalley, Points: units}}},
		{File: "idle-wait", Title: "Wait of a single change after a pause", XName: "seconds between two polls", YName: "seconds", LogX: true, LogY: true, Curves: []report.Curve{{Name: "mean", Points: mean}, {Name: "the most", Points: most}}},
	}
	return section, nil
}

// parseAttributes reads the lines that testing.T.Attr writes, "=== ATTR  TestName/1s reads 3600", and
// returns the names of the subtests in their order, and their numbers.
func parseAttributes(out, test string) (names []string, found map[string]figures) {
	found = map[string]figures{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 5 || fields[0] != "===" || fields[1] != "ATTR" {
			continue
		}
		name, isSubtest := strings.CutPrefix(fields[2], test+"/")
		value, err := strconv.ParseFloat(fields[4], 64)
		if !isSubtest || err != nil {
			continue
		}
		if found[name] == nil {
			names, found[name] = append(names, name), figures{}
		}
		found[name][fields[3]] = value
	}
	return names, found
}
