package main

import (
	"fmt"
	"math"

	"halley/tests/bench/report"
)

// balance simulates how hosts come to share leases: a Go benchmark of package lease,
// because only that package sees the algorithm.
func (s *suite) balance() (report.Section, error) {
	section := report.Section{Title: "Balance of 10,000 leases", Text: "By simulation, with the intervals that are the defaults of both: hosts look for leases every 13 s and renew every 17 s; requests take no time, and all ranges are idle, so that owners notice requests and notices when they renew. " +
		"Acquire intervals are counted from the last start or stop until the shares are equal. Moves are acquisitions, as a multiple of the fewest possible; in the restart each lease has to move once."}
	rounds, err := s.goBenchmarks("./trigger/internal/lease", "^BenchmarkBalance$", "1x", 1)
	if err != nil {
		return section, err
	}
	found := rounds[0]
	restart := found["Balance/restart_of_50_hosts/Halley"]
	for _, scenario := range []struct{ name, benchmark, obstacle string }{
		{"1 → 500 hosts", "Balance/1_to_500_hosts/", ""},
		{"500 → 50 hosts", "Balance/500_to_50_hosts/", ""},
		{"rolling restart of 50 hosts", "Balance/restart_of_50_hosts/", fmt.Sprintf("hosts that look or are told while one is away for 5 s acquire %.0f %% of its leases, and release as many to it when it is back; a lease is without an owner for %s s on average, and for 5 s if they leave it to the host that comes back",
			100*(figure(restart, "x-fewest")-1), report.Number(figure(restart, "s-ownerless")))},
	} {
		halley, dotnet := found[scenario.benchmark+"Halley"], found[scenario.benchmark+"dotnet"]
		section.Rows = append(section.Rows,
			balanceRow(scenario.name+", acquire intervals", "≤ 3", 3, scenario.obstacle, figure(halley, "intervals"), figure(dotnet, "intervals")),
			balanceRow(scenario.name+", moves", "≤ 1.1 × the fewest", 1.1, scenario.obstacle, figure(halley, "x-fewest"), figure(dotnet, "x-fewest")))
	}
	return section, nil
}

// figure is NaN if the benchmark does not have it.
func figure(found figures, name string) float64 {
	if value, ok := found[name]; ok {
		return value
	}
	return math.NaN()
}

func balanceRow(name, text string, limit float64, obstacle string, halley, dotnet float64) report.Row {
	return report.Row{Name: name, Cells: map[string]string{colOfficial: report.Number(dotnet), colHalley: report.Number(halley)},
		Goals: []report.Goal{{Text: text, Got: halley, Limit: limit, Obstacle: obstacle}}}
}
