package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// checkCoverage runs the test of each row, and fails for those that do not execute the
// function or method of the row.
func (p program) checkCoverage(ctx context.Context, names []surfaceName, rows []row) error {
	dir, err := os.MkdirTemp("", "halley-surface-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	profiles := map[string]string{} // of a test, by its package and name
	var failures []error
	executed := 0
	for _, r := range rows {
		pkg, test := r.proof()
		profile, known := profiles[r.test]
		if !known {
			profile, err = p.profileOf(ctx, dir, pkg, test)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				failures = append(failures, err)
			}
			profiles[r.test] = profile
		}
		if profile == "" {
			continue
		}
		if !bodyOf(names, r.name).isExecuted(profile) {
			failures = append(failures, fmt.Errorf("%s does not execute %s", r.test, r.name))
			continue
		}
		executed++
	}
	fmt.Printf("%d/%d functions and methods are executed by the %d tests that prove them\n", executed, len(rows), len(profiles))
	return errors.Join(failures...)
}

// profileOf runs exactly one test and returns its coverage profile of the surface. The
// tests of a package are built once.
func (p program) profileOf(ctx context.Context, dir, pkg, test string) (string, error) {
	binary := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	if _, err := os.Stat(binary); err != nil {
		building := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-cover", "-coverpkg="+strings.Join(surfacePackages, ","), "-o", binary, pkg)
		building.Dir = p.root
		if out, err := building.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the tests of %s: %w\n%s", pkg, err, out)
		}
	}
	file := filepath.Join(dir, "profile")
	running := exec.CommandContext(ctx, binary, "-test.v", "-test.run", testPattern(test), "-test.coverprofile", file)
	running.Dir = filepath.Join(p.root, pkg)
	out, err := running.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+test+" ") {
		return "", fmt.Errorf("%s of %s does not pass, or does not exist: %w\n%s", test, pkg, err, out)
	}
	profile, err := os.ReadFile(file)
	return string(profile), err
}

// testPattern returns the pattern of exactly one test or subtest.
func testPattern(test string) string {
	parts := strings.Split(test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// isExecuted reports whether a block of the body has been executed.
func (b bodyRange) isExecuted(profile string) bool {
	for line := range strings.Lines(profile) {
		name, block, found := strings.Cut(line, ":")
		if !found || name != b.file {
			continue
		}
		var startLine, startColumn, endLine, endColumn, statements, count int
		if n, _ := fmt.Sscanf(block, "%d.%d,%d.%d %d %d", &startLine, &startColumn, &endLine, &endColumn, &statements, &count); n < 6 || count == 0 {
			continue
		}
		if isWithin(startLine, startColumn, b.start.Line, b.start.Column) && isWithin(b.end.Line, b.end.Column, endLine, endColumn) {
			return true
		}
	}
	return false
}

// isWithin reports whether a place in a file is not before another one.
func isWithin(line, column, fromLine, fromColumn int) bool {
	return line > fromLine || line == fromLine && column >= fromColumn
}
