//go:build !nodev

package dev

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/text"
)

// runSummary is the last output of the command dev.
type runSummary struct {
	Seconds         float64    `json:"seconds"`
	Hosts           int        `json:"hosts"`
	Written         int        `json:"written"`      // writes of the load that were acknowledged, corrections included
	FailedWrites    int        `json:"failedWrites"` // writes that were not
	Delivered       int        `json:"delivered"`    // to all functions
	Redelivered     int        `json:"redelivered"`
	DeadLettered    int        `json:"deadLettered"`    // by all functions; they count as handled
	Replayed        int        `json:"replayed"`        // of these, at the end
	DeadLettersLeft int        `json:"deadLettersLeft"` // in the store after that
	Lost            int        `json:"lost"`
	Splits          int        `json:"splits"` // leases that were replaced at a split or merge
	Functions       []accepted `json:"functions"`

	FileHandled int `json:"fileHandled,omitempty"` // dead letters of --dead-letters
	FileFailed  int `json:"fileFailed,omitempty"`  // those that failed again, or were not delivered

	Figures map[string]int64 `json:"figures,omitempty"` // of the app's services
	Ranges  []position       `json:"ranges"`

	lastFailure error
	watched     bool // the handlers ran in another process, so that nothing was counted
}

// summary sums up the run, after the functions have caught up as far as lags say.
func (s *session) summary(lags []operate.FunctionLag) runSummary {
	sum := runSummary{
		Seconds: time.Since(s.began).Seconds(), Hosts: s.options.Hosts,
		Ranges: s.at.list(), Splits: s.at.splits, watched: s.options.Watch,
	}
	sum.Written, sum.Functions = s.books.totals()
	sum.FileHandled, sum.FileFailed = s.letterOutcome()
	if figures := s.world.services.Figures; figures != nil {
		sum.Figures = figures()
	}
	sum.FailedWrites, sum.lastFailure = s.world.run.failures()
	for i := range sum.Functions {
		f := &sum.Functions[i]
		f.Behind, f.Problem = lags[i].Changes, lags[i].Problem
		for _, lease := range lags[i].Leases {
			if f.Problem == "" && (!lease.Known || lease.Changes > 0) {
				f.Problem = lease.Problem
			}
		}
		if !lags[i].Known && f.Problem == "" {
			f.Problem = "its lag is not known"
		}
		sum.Delivered += f.Delivered
		sum.Redelivered += f.Redelivered
		sum.DeadLettered += f.DeadLettered
		sum.Replayed += f.Replayed
		sum.DeadLettersLeft += f.DeadLettersLeft
		sum.Lost += f.Lost
	}
	return sum
}

// handled reports whether every change was handled or dead-lettered, and every dead
// letter of the file handled.
func (s runSummary) handled() bool {
	return s.FileFailed == 0 && !slices.ContainsFunc(s.Functions, accepted.lacks)
}

// print writes the summary as text that fits 80 columns, the verdict last.
func (s runSummary) print(out io.Writer) error {
	if !s.watched {
		if err := s.printRanges(out); err != nil {
			return err
		}
		if err := s.printFunctions(out); err != nil {
			return err
		}
	}
	for _, paragraph := range s.verdict() {
		if _, err := fmt.Fprintf(out, "%s\n", wrap(paragraph, defaultColumns)); err != nil {
			return err
		}
	}
	return nil
}

// maxRanges is how many ranges the text shows: with the tables and the verdict they fit
// a terminal of 24 rows.
const maxRanges = 8

func (s runSummary) printRanges(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "function\trange\thost\tchanges\tlast lsn\tcontinuation\t")
	for _, r := range s.Ranges[:min(len(s.Ranges), maxRanges)] {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t\n", shortCell(r.Function), shortCell(r.Range), shortCell(r.Host), r.Changes, r.LastLSN, shortCell(r.Continuation))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if hidden := len(s.Ranges) - maxRanges; hidden > 0 {
		fmt.Fprintf(out, "and %d more ranges; --json shows all\n", hidden)
	}
	_, err := fmt.Fprintln(out)
	return err
}

func (s runSummary) printFunctions(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "function\thandled\tagain\tdead-lettered\tbehind\tlost\t")
	for _, f := range s.Functions {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t\n", shorten(text.Line(f.Name), 20), f.Delivered, f.Redelivered, f.DeadLettered, f.Behind, f.Lost)
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// shortCell is text for a narrow column.
func shortCell(s string) string { return shorten(text.Line(s), 14) }

// verdict lists sentences, the most important one last.
func (s runSummary) verdict() []string {
	said := []string{strings.Join(s.facts(), ", ")}
	if s.FailedWrites > 0 {
		said = append(said, fmt.Sprintf("%s failed, the last with: %s", text.Count(s.FailedWrites, "write"), text.OfError(s.lastFailure)))
	}
	if s.Replayed > 0 || s.DeadLettersLeft > 0 {
		said = append(said, fmt.Sprintf("%s dead-lettered; %s replayed at the end, %d left in the store",
			text.Count(s.DeadLettered, "change"), text.Count(s.Replayed, "dead letter"), s.DeadLettersLeft))
	}
	if s.FileHandled > 0 {
		said = append(said, text.Count(s.FileHandled, "dead letter")+" of the file handled")
	}
	if s.handled() && s.DeadLettered > s.Replayed {
		return append(said, fmt.Sprintf("every change was handled, or dead-lettered after its last attempt (%d)", s.DeadLettered-s.Replayed))
	}
	if s.handled() {
		return append(said, "every change was handled")
	}
	if s.FileFailed > 0 {
		said = append(said, "NOT HANDLED: "+text.Count(s.FileFailed, "dead letter")+" of the file")
	}
	for _, f := range s.Functions {
		if f.lacks() {
			said = append(said, "NOT HANDLED: "+f.Name+": "+strings.Join(f.shortcomings(), ", "))
		}
	}
	return said
}

// facts are the figures of the run as a whole.
func (s runSummary) facts() []string {
	facts := []string{fmt.Sprintf("%.1f s", s.Seconds), text.Count(s.Hosts, "host")}
	if s.Written > 0 {
		facts = append(facts, text.Count(s.Written, "document")+" written")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Figures)) {
		facts = append(facts, fmt.Sprintf("%d %s", s.Figures[name], name))
	}
	if s.Splits > 0 {
		facts = append(facts, text.Count(s.Splits, "lease")+" replaced by splits and merges")
	}
	return facts
}

// lacks reports whether the function has not handled every change.
func (f accepted) lacks() bool { return f.Lost > 0 || f.Behind > 0 || f.Problem != "" }

// shortcomings say what the function has not handled, and why.
func (f accepted) shortcomings() (all []string) {
	if f.Lost > 0 {
		all = append(all, text.Count(f.Lost, "document")+" lost")
	}
	if f.Behind > 0 {
		all = append(all, text.Count(int(f.Behind), "change")+" not handled yet")
	}
	if f.Problem != "" {
		all = append(all, text.Line(f.Problem))
	}
	return all
}

// wrap breaks text at spaces into lines of so many columns.
func wrap(text string, columns int) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case textWidth(line)+1+textWidth(word) > columns:
			lines, line = append(lines, line), word
		default:
			line += " " + word
		}
	}
	return strings.Join(append(lines, line), "\n")
}
