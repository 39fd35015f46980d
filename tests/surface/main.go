// Surface proves that each name of package trigger has a test: functions, methods,
// settings, verdicts, events, stalls and close reasons. The names are read from the code
// (loadSurface), and the tables rows_*.go name for each the test that proves it and the
// planted bug of tests/mutants that this test must catch.
//
// A name without a row, and a row without its name, test or mutant, fail the tests of this
// package. This program runs the proofs: with exactly its test, each function must be
// executed, and with its mutant planted, each test must fail.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

func main() {
	p := program{root: "."}
	flag.StringVar(&p.only, "only", ".", "names that match")
	flag.BoolVar(&p.mutants, "mutants", false, "also plant the mutant of each row")
	flag.BoolVar(&p.short, "short", false, "a sample of the rows, with mutants")
	flag.Uint64Var(&p.seed, "seed", 1, "selects the sample")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := p.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "surface:", err)
		os.Exit(1)
	}
}

// program is one run over the table.
type program struct {
	root    string // of the repository
	only    string
	mutants bool
	short   bool
	seed    uint64
}

// shortCalls and shortMutants are the rows of a sample: a minute on two processors, most
// of it for builds.
const (
	shortCalls   = 12
	shortMutants = 16
)

func (p program) run(ctx context.Context) error {
	names, err := loadSurface(p.root)
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(p.only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	wanted := slices.DeleteFunc(allRows(), func(r row) bool { return !pattern.MatchString(r.name) })
	if len(wanted) == 0 {
		return fmt.Errorf("no name matches %q", p.only)
	}
	planted := wanted
	if p.short {
		dice := rand.New(rand.NewPCG(p.seed, 0))
		dice.Shuffle(len(wanted), func(i, j int) { wanted[i], wanted[j] = wanted[j], wanted[i] })
		planted = wanted[:min(shortMutants, len(wanted))]
	}
	calls := slices.DeleteFunc(slices.Clone(wanted), func(r row) bool { return bodyOf(names, r.name).file == "" })
	if p.short {
		calls = calls[:min(shortCalls, len(calls))]
	}
	failures := []error{p.checkCoverage(ctx, names, calls)}
	if p.mutants || p.short {
		failures = append(failures, p.plantMutants(ctx, planted))
	}
	return errors.Join(failures...)
}

// bodyOf returns the body of a function or method, without a file if the name has none.
func bodyOf(names []surfaceName, name string) bodyRange {
	i := slices.IndexFunc(names, func(n surfaceName) bool { return n.name == name })
	if i < 0 {
		return bodyRange{}
	}
	return names[i].body
}

// plantMutants plants the mutant of each row and runs exactly its test. The tests take
// seconds; one that waits for ever with its mutant has failed.
func (p program) plantMutants(ctx context.Context, rows []row) error {
	dir, err := os.MkdirTemp("", "halley-surface-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var lines strings.Builder
	for _, r := range rows {
		pkg, test := r.proof()
		fmt.Fprintln(&lines, r.mutant, pkg, test)
	}
	file := filepath.Join(dir, "proofs")
	if err := os.WriteFile(file, []byte(lines.String()), 0o644); err != nil {
		return err
	}
	planting := exec.CommandContext(ctx, "go", "run", "./tests/mutants", "--proofs", file, "--timeout", "30s")
	planting.Dir, planting.Stdout, planting.Stderr = p.root, os.Stdout, os.Stderr
	if err := planting.Run(); err != nil {
		return fmt.Errorf("not each test catches its mutant: %w", err)
	}
	return nil
}
