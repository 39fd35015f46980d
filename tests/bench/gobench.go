package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// goBenchmarks runs Go benchmarks of a package in rounds. For each round it returns
// their figures by name, without Benchmark and the number of processors, and by unit.
func (s *suite) goBenchmarks(directory, pattern, benchtime string, rounds int) ([]map[string]figures, error) {
	program, err := s.buildBenchmarks(directory, "")
	if err != nil {
		return nil, err
	}
	var found []map[string]figures
	for range rounds {
		figures, err := s.runBenchmarks(program, directory, pattern, benchtime)
		if err != nil {
			return nil, err
		}
		found = append(found, figures)
	}
	return found, nil
}

// buildBenchmarks builds the Go benchmarks of a package, with an experiment of Go or "".
func (s *suite) buildBenchmarks(directory, experiment string) (program string, err error) {
	program = s.binary(filepath.Base(directory) + experiment + ".test")
	cmd := exec.CommandContext(s.ctx, "go", "test", "-c", "-o", program, directory)
	cmd.Dir, cmd.Stderr, cmd.Env = s.root, os.Stderr, append(os.Environ(), "GOEXPERIMENT="+experiment)
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build benchmarks of %s: %w", directory, err)
	}
	return program, nil
}

// runBenchmarks runs a program of buildBenchmarks once.
func (s *suite) runBenchmarks(program, directory, pattern, benchtime string) (map[string]figures, error) {
	cmd := s.command(s.ctx, 1, program, "-test.run", "^$", "-test.bench", pattern, "-test.benchtime", benchtime, "-test.benchmem")
	cmd.Dir = filepath.Join(s.root, directory)
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("benchmarks %s of %s: %w", pattern, directory, err)
	}
	return parseBenchmarks(string(out)), nil
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
			if _, err := strconv.Atoi(name[dash+1:]); err == nil { // absent on one processor
				name = name[:dash]
			}
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
