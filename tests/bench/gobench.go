package main

import (
	"strconv"
	"strings"
)

// goBenchmarks runs Go benchmarks of a package and returns their figures by name,
// without Benchmark and the number of processors, and by unit.
func (s *suite) goBenchmarks(directory, pattern, benchtime string) (map[string]figures, error) {
	arguments := []string{"test", directory, "-run", "^$", "-bench", pattern, "-benchtime", benchtime, "-benchmem"}
	out, err := output(s.ctx, s.root, "go", arguments...)
	return parseBenchmarks(out), err
}

// parseBenchmarks reads lines such as "BenchmarkPage/1225B/cut-2  100  8931 ns/op".
func parseBenchmarks(out string) map[string]figures {
	found := map[string]figures{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if dash := strings.LastIndexByte(name, '-'); dash > 0 {
			name = name[:dash]
		}
		found[name] = figures{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				found[name][fields[i+1]] = value
			}
		}
	}
	return found
}
