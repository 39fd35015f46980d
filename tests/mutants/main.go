// Mutants plants known bugs, one at a time, in a copy of the tree and reports
// which test catches each. It runs layers of tests, the cheapest first, until one
// fails: the tests of the changed package, those of the packages built on it, the
// simulation, the processes.
//
// If a mutant survives, no test checks the promise that it breaks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
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
	root, err := os.MkdirTemp("", "halley-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(root)
	if err := copyTree(ctx, revision, root); err != nil {
		return err
	}
	b := bench{root: root, limit: limit, cheap: cheap, sound: map[string]error{}}
	survivors := 0
	by := map[string]int{}
	for _, m := range wanted {
		began := time.Now()
		layer, test, err := b.try(ctx, m)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		took := time.Since(began).Seconds()
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", m.name, err)
		case layer == "":
			survivors++
			fmt.Printf("SURVIVED %5.1fs  %-32s %s\n", took, m.name, m.breaks)
		default:
			by[layer]++
			fmt.Printf("caught   %5.1fs  %-32s %s: %s\n", took, m.name, layer, test)
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

// copyTree copies the working tree, or a commit, into root.
func copyTree(ctx context.Context, revision, root string) error {
	files := "git ls-files --cached --others --exclude-standard -z | { xargs -0 ls -d 2>/dev/null || true; } | tar -c -T -"
	if revision != "" {
		files = `git archive "$2"`
	}
	copying := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", files+` | tar -x -C "$1"`, "copy", root, revision)
	if out, err := copying.CombinedOutput(); err != nil {
		return fmt.Errorf("copy the tree: %w\n%s", err, out)
	}
	return nil
}

// bench is a copy of the tree, with the test results without mutants.
type bench struct {
	root  string
	limit time.Duration // longest time of a layer
	cheap bool
	sound map[string]error // result of the unchanged tree by arguments of go test
}

// layer is one go test that may catch a mutant.
type layer struct {
	name string
	args []string
}

// layers returns the tests that may catch a mutant, the cheapest first.
func (b *bench) layers(m mutant) []layer {
	var l []layer
	for _, p := range m.packages() {
		l = append(l, layer{"package", []string{p}})
	}
	for _, user := range m.users() {
		l = append(l, layer{"users", []string{user}})
	}
	if b.cheap {
		return l
	}
	return append(l,
		layer{"simulation", []string{"-short", "./tests/simulation"}},
		layer{"processes", []string{"-run", "TestFleet|TestHosted|TestBrokenAnswers", "./tests"}},
	)
}

// try plants a mutant and runs the layers until one fails. If none fails, the
// mutant has survived and caughtBy is "".
func (b *bench) try(ctx context.Context, m mutant) (caughtBy, test string, err error) {
	before, after, err := m.change(b.root)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, before.write()) }()
	if err := after.write(); err != nil {
		return "", "", err
	}
	for _, l := range b.layers(m) {
		out, failure := b.test(ctx, l)
		if failure == nil {
			continue
		}
		if strings.Contains(out, "[build failed]") {
			return "", "", fmt.Errorf("does not compile: %s", out)
		}
		if err := b.checkSound(ctx, l, before); err != nil {
			return "", "", err
		}
		return l.name, failing(out), nil
	}
	return "", "", nil
}

// checkSound checks that a layer passes without mutants when it has failed with
// one. Before it runs the tests, it restores the files.
func (b *bench) checkSound(ctx context.Context, l layer, before files) error {
	key := strings.Join(l.args, " ")
	if known, found := b.sound[key]; found {
		return known
	}
	if err := before.write(); err != nil {
		return err
	}
	var err error
	if out, failure := b.test(ctx, l); failure != nil {
		err = fmt.Errorf("go test %s fails without any mutant: %w\n%s", key, failure, out)
	}
	b.sound[key] = err
	return err
}

func (b *bench) test(ctx context.Context, l layer) (string, error) {
	args := append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=" + b.limit.String()}, l.args...)
	return b.tool(ctx, args...)
}

// tool runs the go tool in the copy.
func (b *bench) tool(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
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
