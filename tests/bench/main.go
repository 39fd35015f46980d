// Bench compares Halley with its peers, with lower bounds and with its targets, on the
// machine that it runs on, and writes docs/performance.md. scripts/bench runs it.
//
//	go run ./tests/bench [--short] [--rounds N] [--only REGEXP [--write]]
//
// Each contender is a process of its own. If the machine has two processors, the
// service has one and the contender the other. Contenders of one figure take turns,
// in rounds.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"time"

	"halley/tests/bench/report"
)

// columns are the columns of tables, in their order.
var columns = []string{colFloor, colAzcosmos, colJavaScript, colJava, colPython, colOfficial, colPlain, colHalley, colPart, colChanges}

const (
	colFloor      = "floor"
	colAzcosmos   = "azcosmos"
	colJavaScript = "@azure/cosmos"
	colJava       = "Java processor"
	colPython     = "azure-cosmos for Python"
	colOfficial   = ".NET processor"
	colPlain      = "Halley, plain build"
	colHalley     = "Halley"
	colPart       = "writes to"
	colChanges    = "changes per second"
)

// measure makes one section of the report.
type measure struct {
	name    string
	inShort bool // part of the short form
	run     func(*suite) (report.Section, error)
}

var measures = []measure{
	{"cost", true, (*suite).costPerChange},
	{"pipeline", true, (*suite).onePipeline},
	{"decoding", true, (*suite).decoding},
	{"requests", true, (*suite).singleRequests},
	{"curves", false, (*suite).costCurves},
	{"latency", false, (*suite).latency},
	{"restart", false, (*suite).rollingRestart},
	{"poll-delay", false, (*suite).pollDelays},
	{"poison", true, (*suite).poisonDocuments},
	{"units", true, (*suite).requestUnits},
	{"idle", false, (*suite).idleRanges},
	{"tick", false, (*suite).timerTick},
	{"acquisition", false, (*suite).acquisition},
	{"memory", false, (*suite).memory},
	{"start", false, (*suite).coldStart},
	{"balance", false, (*suite).balance},
	{"emulator", false, (*suite).embeddedAccount},
	{"handlers", false, (*suite).handlers},
	{"languages", false, (*suite).functionsInLanguages},
}

func main() {
	short := flag.Bool("short", false, "the form for CI: only ratios, fails if one is far off; writes no file")
	rounds := flag.Int("rounds", 0, "rounds of each comparison; by default 5, or 3 in the short form")
	only := flag.String("only", "", "regular expression of the sections to measure; writes no file without --write")
	write := flag.Bool("write", false, "with --only: writes these sections into the document")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected argument %q: scripts/bench go %s runs the Go benchmarks, --only selects sections\n", flag.Arg(0), flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *short, *rounds, *only, *write); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, short bool, rounds int, only string, write bool) error {
	selected, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	s, err := newSuite(ctx, short, rounds)
	if err != nil {
		return err
	}
	defer s.close()
	began := time.Now()
	var sections []report.Section
	var problems []error
	for _, m := range measures {
		if !selected.MatchString(m.name) || short && !m.inShort || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "=== %s (%ds)\n", m.name, int(time.Since(began).Seconds()))
		section, err := m.run(s)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", m.name, err))
			section.Text += fmt.Sprintf("\n\nNot all of this was measured: %v\n", err)
		}
		if err := printSection(section); err != nil {
			return err
		}
		sections = append(sections, section)
	}
	fmt.Fprintf(os.Stderr, "%d sections in %d s\n", len(sections), int(time.Since(began).Seconds()))
	documents := filepath.Join(s.root, "docs")
	switch {
	case ctx.Err() != nil:
	case short:
		problems = append(problems, brokenRatios(sections))
	case only == "":
		problems = append(problems, s.writeDocument(documents, sections))
	case write && len(problems) == 0:
		problems = append(problems, s.rewriteSections(documents, sections))
	}
	return errors.Join(append(problems, ctx.Err())...)
}

// printSection writes the table of a section to the standard output.
func printSection(section report.Section) error {
	if len(section.Rows) == 0 {
		return nil
	}
	fmt.Printf("\n%s\n\n", section.Title)
	if err := section.WriteTable(os.Stdout, columns); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

// brokenRatios returns an error for the ratios that are beyond the limits of the
// short form.
func brokenRatios(sections []report.Section) error {
	var broken []error
	for _, section := range sections {
		for _, row := range section.Rows {
			for _, goal := range row.Goals {
				if goal.Broken() {
					broken = append(broken, fmt.Errorf("%s: %v, and the limit with room for noise is %s (target: %s)", row.Name, goal, report.Limit(goal.Guard), goal.Text))
				}
			}
		}
	}
	return errors.Join(broken...)
}
