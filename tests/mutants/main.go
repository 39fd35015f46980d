// Mutants plants known bugs in a copy of the tree, switches them on one at a time, and
// reports which test catches each. It runs layers of tests, the cheapest first, until one
// fails: the tests of the changed package, those of the packages built on it, the
// simulation, the processes.
//
// If a mutant survives, no test checks the promise that it breaks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"
)

func main() {
	only := flag.String("only", ".", "mutants whose name matches")
	revision := flag.String("at", "", "a commit to take instead of the working tree")
	cheap := flag.Bool("cheap", false, "without the simulation and the processes")
	list := flag.Bool("list", false, "list the mutants and run nothing")
	limit := flag.Duration("timeout", 100*time.Second, "a layer's longest time; more on a busy machine")
	proofs := flag.String("proofs", "", "a file of lines with a mutant, a package and the one test that must catch it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *proofs != "" {
		err = runProofs(ctx, *proofs, *revision, *limit)
	} else {
		err = run(ctx, *only, *revision, *limit, *cheap, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, revision string, limit time.Duration, cheap, list bool) error {
	wanted, err := choose(only)
	if err != nil {
		return err
	}
	if list {
		for _, m := range wanted {
			fmt.Printf("%-32s %s\n", m.name, m.breaks)
		}
		return nil
	}
	b, err := newBench(ctx, revision, limit, wanted)
	if err != nil {
		return err
	}
	defer b.remove()
	b.cheap = cheap
	survivors := 0
	by := map[string]int{}
	for result := range b.tryAll(ctx, wanted) {
		m, took := result.mutant, result.took.Seconds()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case result.err != nil:
			return fmt.Errorf("%s: %w", m.name, result.err)
		case result.layer == "":
			survivors++
			fmt.Printf("SURVIVED %5.1fs  %-32s %s\n", took, m.name, m.breaks)
		default:
			by[result.layer]++
			fmt.Printf("caught   %5.1fs  %-32s %s: %s\n", took, m.name, result.layer, result.test)
		}
	}
	fmt.Printf("%d/%d caught (%s)\n", len(wanted)-survivors, len(wanted), counts(by))
	if survivors > 0 {
		return fmt.Errorf("%d survived", survivors)
	}
	return nil
}

// choose returns the mutants whose names match, or an error if none does.
func choose(only string) ([]mutant, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	var wanted []mutant
	for _, m := range all {
		if pattern.MatchString(m.name) {
			wanted = append(wanted, m)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("no mutant matches %q", only)
	}
	return wanted, nil
}

var (
	failedTest = regexp.MustCompile(`--- FAIL: (\S+)`)
	unfinished = regexp.MustCompile(`(?m)^(panic: .*|fatal error: .*)`)
)

// failing returns the innermost test of the first failure. If there is none, it
// returns the line of the panic or fatal error.
func failing(out string) string {
	if found := failedTest.FindAllStringSubmatch(out, 2); len(found) > 0 {
		name := found[0][1]
		if len(found) > 1 && strings.HasPrefix(found[1][1], name+"/") {
			name = found[1][1]
		}
		return name
	}
	if found := unfinished.FindString(out); found != "" {
		return found
	}
	return "the tests failed without naming a test"
}

func counts(by map[string]int) string {
	var parts []string
	for _, name := range []string{"package", "users", "simulation", "processes"} {
		if by[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, by[name]))
		}
	}
	return strings.Join(parts, ", ")
}
