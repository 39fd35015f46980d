package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// proof is a test that must catch a mutant.
type proof struct {
	mutant, pkg, test string // the test may be a subtest
}

// readProofs reads a file with a proof in each line.
func readProofs(file string) ([]proof, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var proofs []proof
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) != 3 {
			return nil, fmt.Errorf("%s: %q is not a mutant, a package and a test", file, line)
		}
		proofs = append(proofs, proof{words[0], words[1], words[2]})
	}
	return proofs, nil
}

// runProofs runs, for each proof of a file, exactly its test: it has to pass without a
// mutant and to fail with its own. All mutants are built into the tests at once, see
// switchboard. Those that cannot be are planted one at a time.
func runProofs(ctx context.Context, file, revision string, limit time.Duration) error {
	proofs, err := readProofs(file)
	if err != nil {
		return err
	}
	shared, err := newBench(ctx, revision, limit, mutantsOf(proofs))
	if err != nil {
		return err
	}
	defer shared.remove()
	b := proofBench{bench: shared, soundProofs: map[proof]error{}}
	var failures []error
	caught := 0
	for _, alone := range []bool{false, true} { // those with a switch first: the tests are built once for all
		for _, p := range proofs {
			if slices.Contains(b.switches.names, p.mutant) == alone {
				continue
			}
			began := time.Now()
			err := b.try(ctx, p, alone)
			if ctx.Err() != nil || errors.Is(err, errBuild) && !alone {
				return err
			}
			if err != nil {
				fmt.Printf("FAILED  %5.1fs  %-32s %s: %s\n", time.Since(began).Seconds(), p.mutant, p.pkg, p.test)
				failures = append(failures, err)
				continue
			}
			caught++
			fmt.Printf("caught  %5.1fs  %-32s %s: %s\n", time.Since(began).Seconds(), p.mutant, p.pkg, p.test)
		}
	}
	fmt.Printf("%d/%d proofs catch their mutants\n", caught, len(proofs))
	return errors.Join(failures...)
}

// mutantsOf returns the mutants of proofs, each once.
func mutantsOf(proofs []proof) []mutant {
	return slices.DeleteFunc(slices.Clone(all), func(m mutant) bool {
		return !slices.ContainsFunc(proofs, func(p proof) bool { return p.mutant == m.name })
	})
}

// proofBench runs proofs.
type proofBench struct {
	*bench
	soundProofs map[proof]error // results without a mutant, by package and test
}

// try runs the test of a proof without and with its mutant. If alone is set, the mutant has
// no switch.
func (b *proofBench) try(ctx context.Context, p proof, alone bool) error {
	binary, err := b.binary(ctx, p.pkg)
	if err != nil {
		return err
	}
	plain := proof{pkg: p.pkg, test: p.test}
	if _, known := b.soundProofs[plain]; !known {
		out, err := b.runTest(ctx, binary, plain)
		if err == nil && !strings.Contains(out, "--- PASS: "+p.test+" ") {
			err = errors.New("there is no such test")
		}
		if err != nil {
			err = fmt.Errorf("%s of %s without a mutant: %w\n%s", p.test, p.pkg, err, out)
		}
		b.soundProofs[plain] = err
	}
	if err := b.soundProofs[plain]; err != nil {
		return err
	}
	if alone {
		if binary, err = b.buildAlone(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", p.mutant, err)
		}
	}
	if _, err := b.runTest(ctx, binary, p); err == nil {
		return fmt.Errorf("%s survives %s of %s", p.mutant, p.test, p.pkg)
	}
	return nil
}

// buildAlone builds the tests of a proof with its mutant planted.
func (b *proofBench) buildAlone(ctx context.Context, p proof) (binary string, err error) {
	i := slices.IndexFunc(all, func(m mutant) bool { return m.name == p.mutant })
	if i < 0 {
		return "", errors.New("no such mutant")
	}
	before, after, err := all[i].change(b.root)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, before.write()) }()
	if err := after.write(); err != nil {
		return "", err
	}
	binary = filepath.Join(b.root, ".tests", "alone")
	return binary, b.build(ctx, b.root, p.pkg, binary)
}

// runTest runs exactly one test, with the mutant of the proof switched on.
func (b *proofBench) runTest(ctx context.Context, binary string, p proof) (string, error) {
	parts := strings.Split(p.test, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return b.runTests(ctx, binary, p.pkg, p.mutant, "-test.v", "-test.run", strings.Join(parts, "/"), "-test.timeout", b.limit.String())
}
