package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bench is two copies of the tree. In one of them all mutants that can have a switch are
// planted at once, so that tests are built once for all of them; in the other the rest are
// planted one at a time. mu guards the maps, and no other lock is taken under it.
type bench struct {
	root     string // the copy for one mutant at a time
	switched string // the copy with switches
	limit    time.Duration
	cheap    bool
	switches switchboard

	mu       sync.Mutex
	binaries map[string]func() (string, error) // tests of the copy with switches, by package
	sound    map[string]func() error           // results without a mutant, by layer
}

// newBench makes the copies, of a commit or, if revision is "", of the working tree. The
// caller removes them.
func newBench(ctx context.Context, revision string, limit time.Duration, mutants []mutant) (b *bench, err error) {
	b = &bench{limit: limit, binaries: map[string]func() (string, error){}, sound: map[string]func() error{}}
	defer func() {
		if err != nil {
			b.remove()
		}
	}()
	for _, dir := range []*string{&b.root, &b.switched} {
		if *dir, err = os.MkdirTemp("", "halley-mutants-"); err != nil {
			return b, err
		}
		if err := copyTree(ctx, revision, *dir); err != nil {
			return b, err
		}
	}
	planted, err := b.switches.plant(b.switched, mutants)
	if err != nil {
		return b, err
	}
	return b, planted.write()
}

func (b *bench) remove() {
	os.RemoveAll(b.root)
	os.RemoveAll(b.switched)
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

// layer is a package whose tests may catch a mutant, with flags of go test.
type layer struct {
	name  string
	pkg   string
	flags []string
}

// layers returns the tests that may catch a mutant, the cheapest first.
func (b *bench) layers(m mutant) []layer {
	var l []layer
	for _, p := range m.packages() {
		l = append(l, layer{name: "package", pkg: p})
	}
	for _, user := range m.users() {
		l = append(l, layer{name: "users", pkg: user})
	}
	if b.cheap {
		return l
	}
	return append(l,
		layer{"simulation", "./tests/simulation", []string{"-short"}},
		layer{"processes", "./tests", []string{"-run=TestFleet|TestHosted|TestBrokenAnswers"}},
	)
}

// result is the outcome of one mutant: the layer and the test that caught it, "" if none did.
type result struct {
	mutant      mutant
	layer, test string
	took        time.Duration
	err         error
}

// tryAll tries mutants until the caller has enough: those with a switch on all processors,
// then the others one by one.
func (b *bench) tryAll(ctx context.Context, mutants []mutant) iter.Seq[result] {
	return func(yield func(result) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var working sync.WaitGroup
		defer working.Wait()
		defer cancel()
		waiting, results := make(chan mutant), make(chan result)
		send := func(r result) {
			select {
			case results <- r:
			case <-ctx.Done():
			}
		}
		try := func(m mutant) {
			began := time.Now()
			r := result{mutant: m}
			r.layer, r.test, r.err = b.try(ctx, m)
			r.took = time.Since(began)
			send(r)
		}
		hasSwitch := func(m mutant) bool { return slices.Contains(b.switches.names, m.name) }
		working.Go(func() {
			defer close(waiting)
			for _, m := range mutants {
				if hasSwitch(m) {
					select {
					case waiting <- m:
					case <-ctx.Done():
					}
				}
			}
		})
		var switched sync.WaitGroup
		for range runtime.NumCPU() {
			switched.Go(func() {
				for m := range waiting {
					try(m)
				}
			})
		}
		working.Go(func() {
			defer close(results)
			switched.Wait()
			for _, m := range mutants {
				if !hasSwitch(m) && ctx.Err() == nil {
					try(m)
				}
			}
		})
		for r := range results {
			if !yield(r) {
				return
			}
		}
	}
}

// try runs the layers of a mutant until one fails. If none fails, the mutant has survived
// and caughtBy is "".
func (b *bench) try(ctx context.Context, m mutant) (caughtBy, test string, err error) {
	run := func(l layer) (string, error) { return b.runSwitched(ctx, l, m.name) }
	if !slices.Contains(b.switches.names, m.name) {
		before, after, changeErr := m.change(b.root)
		if changeErr != nil {
			return "", "", changeErr
		}
		defer func() { err = errors.Join(err, before.write()) }()
		if err = after.write(); err != nil {
			return "", "", err
		}
		run = func(l layer) (string, error) { return b.test(ctx, l) }
	}
	for _, l := range b.layers(m) {
		out, failure := run(l)
		if failure == nil {
			continue
		}
		if errors.Is(failure, errBuild) || strings.Contains(out, "[build failed]") {
			return "", "", fmt.Errorf("does not compile: %w\n%s", failure, out)
		}
		if err := b.checkSound(ctx, l); err != nil {
			return "", "", err
		}
		return l.name, failing(out), nil
	}
	return "", "", nil
}

// checkSound checks that a layer passes without mutants when it has failed with one.
func (b *bench) checkSound(ctx context.Context, l layer) error {
	b.mu.Lock()
	check := b.sound[l.pkg]
	if check == nil {
		check = sync.OnceValue(func() error {
			if out, failure := b.runSwitched(ctx, l, ""); failure != nil {
				return fmt.Errorf("go test %s fails without any mutant: %w\n%s", l.pkg, failure, out)
			}
			return nil
		})
		b.sound[l.pkg] = check
	}
	b.mu.Unlock()
	return check()
}

// test runs a layer in the copy for one mutant at a time.
func (b *bench) test(ctx context.Context, l layer) (string, error) {
	args := append([]string{"test", "-count=1", "-failfast", "-vet=off", "-timeout=" + b.limit.String()}, l.flags...)
	return b.tool(ctx, b.root, append(args, l.pkg)...)
}

// runSwitched runs a layer with a mutant switched on, or with none.
func (b *bench) runSwitched(ctx context.Context, l layer, mutant string) (string, error) {
	args := []string{"-test.failfast", "-test.timeout=" + b.limit.String()}
	for _, flag := range l.flags {
		args = append(args, "-test."+strings.TrimPrefix(flag, "-"))
	}
	return b.runBinary(ctx, l.pkg, mutant, args...)
}

// runBinary runs the tests of a package with a mutant switched on, or with none.
func (b *bench) runBinary(ctx context.Context, pkg, mutant string, args ...string) (string, error) {
	binary, err := b.binary(ctx, pkg)
	if err != nil {
		return "", err
	}
	return b.runTests(ctx, binary, pkg, mutant, args...)
}

// runTests runs built tests in the directory of their package.
func (b *bench) runTests(ctx context.Context, binary, pkg, mutant string, args ...string) (string, error) {
	cmd := command(ctx, filepath.Join(b.switched, pkg), binary, args...)
	cmd.Env = append(cmd.Env, switchVariable+"="+mutant)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// errBuild is the error of tests that do not compile.
var errBuild = errors.New("build the tests")

// binary returns the tests of a package in the copy with switches, built once.
func (b *bench) binary(ctx context.Context, pkg string) (string, error) {
	b.mu.Lock()
	build := b.binaries[pkg]
	if build == nil {
		build = sync.OnceValues(func() (string, error) {
			binary := filepath.Join(b.switched, ".tests", strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-"))
			return binary, b.build(ctx, b.switched, pkg, binary)
		})
		b.binaries[pkg] = build
	}
	b.mu.Unlock()
	return build()
}

func (b *bench) build(ctx context.Context, root, pkg, binary string) error {
	out, err := b.tool(ctx, root, "test", "-c", "-vet=off", "-o", binary, pkg)
	if err != nil {
		return fmt.Errorf("%w of %s: %w\n%s", errBuild, pkg, err, out)
	}
	return nil
}

// tool runs the go tool in a copy.
func (b *bench) tool(ctx context.Context, root string, args ...string) (string, error) {
	out, err := command(ctx, root, "go", args...).CombinedOutput()
	return string(out), err
}

func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-trimpath")
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}
