package main

import (
	"fmt"

	"halley/tests/bench/report"
)

// embeddedAccount measures the embedded account by its Go benchmarks, which have the
// client and the account in one process, on all processors.
func (s *suite) embeddedAccount() (report.Section, error) {
	section := report.Section{Title: "Embedded account", Text: "The client and the account are one process, on all processors. Creates are single requests over 8 connections with plain HTTP, with documents of 90 bytes of text. " +
		"The floor is a server of net/http that answers the same requests at once. Memory is live memory, with a partition key for each document; the limit is twice the stored size + 200 bytes."}
	out, err := output(s.ctx, s.root, "go", "test", "./trigger/emulator", "-run", "^$", "-bench", "^Benchmark(Connections?|Memory|Open500k)", "-benchtime", "2s")
	if err != nil {
		return section, err
	}
	found := parseBenchmarks(out)
	floor := found["ConnectionsFloor"]["creates/s"]
	least := func(name, benchmark, unit string, limit float64, obstacle string) report.Row {
		got := found[benchmark][unit]
		return report.Row{Name: name, Cells: map[string]string{colHalley: report.Number(got)},
			Goals: []report.Goal{{Text: "≥ " + report.Number(limit), Got: got, Limit: limit, AtLeast: true, Obstacle: obstacle}}}
	}
	alone := fmt.Sprintf("net/http alone answers %s on this machine", report.Number(floor))
	memory, open := found["Memory/text_of_90"], found["Open500kDocuments"]["s/open"]
	most := 2*memory["stored-B/document"] + 200
	section.Rows = []report.Row{
		least("creates per second, in memory", "ConnectionsCreateInMemory", "creates/s", 8000, alone),
		least("creates per second, with --data", "ConnectionsCreateOnDisk", "creates/s", 4000, fmt.Sprintf("a sync of this disk takes %.2f ms, a commit two, and 8 creates at most share one", found["ConnectionsSync"]["ms/sync"])),
		least("documents of the feed per second, 1 KB", "ConnectionFeed", "documents/s", 150_000, ""),
		{Name: fmt.Sprintf("memory of a document of %.0f stored bytes", memory["stored-B/document"]), Cells: map[string]string{colHalley: report.Number(memory["B/document"])},
			Goals: []report.Goal{{Text: "≤ " + report.Number(most), Got: memory["B/document"], Limit: most}}},
		{Name: "start with 500,000 documents in --data, s", Cells: map[string]string{colHalley: report.Number(open)}, Goals: []report.Goal{{Text: "≤ 3 s", Got: open, Limit: 3}}},
	}
	section.Rows[0].Cells[colFloor] = report.Number(floor)
	return section, nil
}
