package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"halley/tests/bench/report"
)

// handlersWithBenchmarks are the packages with a BenchmarkHandler, and the part that it
// writes to.
var handlersWithBenchmarks = []struct{ directory, part string }{
	{"redis/leaderboard", "Redis"},
	{"push", "push service in the process"},
	{"push/fcm", "stub of FCM in the process"},
	{"push/mqtt", "Mosquitto"},
	{"redis/cache", "Redis"},
	{"postgres/view", "PostgreSQL"},
	{"search/bleve", "index on disk"},
	{"search/opensearch", "stand-in for OpenSearch in the process"},
	{"archive", "Azurite, directory"},
	{"migrate", "embedded account"},
	{"webhook", "receiver in the process"},
	{"stream/nats", "NATS JetStream in the process, on disk"},
	{"stream/kafka", "Kafka"},
	{"remote", "Python and Node.js"},
}

// handlers measures the bundled handlers by their Go benchmarks. A benchmark whose server
// is absent has no figure.
func (s *suite) handlers() (report.Section, error) {
	section := report.Section{
		Title: "Bundled handlers",
		Text: "Changes per second that one call after the other handles, with documents of 1 KB in batches of 100, by `BenchmarkHandler` of each package. " +
			"The part that is written to runs on the same two processors. The servers are those of the tests, named by `HALLEY_TEST_…` variables.",
	}
	for _, variable := range s.testServers {
		name, value, _ := strings.Cut(variable, "=")
		if err := os.Setenv(name, value); err != nil {
			return section, err
		}
		defer os.Unsetenv(name)
	}
	for _, h := range handlersWithBenchmarks {
		directory := "./" + filepath.ToSlash(filepath.Join("handlers", h.directory))
		out, err := output(s.ctx, s.root, "go", "test", "-run", "^$", "-bench", "^BenchmarkHandler$", "-benchtime", "1s", directory)
		if err != nil {
			return section, err
		}
		found := parseBenchmarks(out)
		if len(found) == 0 {
			section.Rows = append(section.Rows, report.Row{Name: h.directory, Cells: map[string]string{colPart: h.part, colChanges: "not measured: its server is absent"}})
		}
		for _, name := range slices.Sorted(maps.Keys(found)) {
			_, variant, _ := strings.Cut(name, "/")
			row := cmp.Or(strings.ReplaceAll(variant, "_", " "), h.directory)
			if variant != "" {
				row = fmt.Sprintf("%s, %s", h.directory, row)
			}
			section.Rows = append(section.Rows, report.Row{Name: row, Cells: map[string]string{colPart: h.part, colChanges: report.Number(found[name]["changes/s"])}})
		}
	}
	return section, nil
}
