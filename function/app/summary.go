//go:build !nodev

package app

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// devSummary is the last output of the command dev.
type devSummary struct {
	Seconds         float64    `json:"seconds"`
	Hosts           int        `json:"hosts"`
	Written         int        `json:"written"`      // writes that were acknowledged, corrections included
	FailedWrites    int        `json:"failedWrites"` // writes that were not
	Delivered       int        `json:"delivered"`    // to all functions
	Redelivered     int        `json:"redelivered"`
	DeadLettered    int        `json:"deadLettered"`    // by all functions; they count as handled
	Replayed        int        `json:"replayed"`        // of these, at the end
	DeadLettersLeft int        `json:"deadLettersLeft"` // in the store after that
	Lost            int        `json:"lost"`
	Splits          int        `json:"splits"` // leases that were replaced at a split or merge
	Functions       []accepted `json:"functions"`

	Figures map[string]int64 `json:"figures,omitempty"` // of the app's services
	Ranges  []position       `json:"ranges"`

	lastFailure error
}

func (s *session) summary(took time.Duration) devSummary {
	sum := devSummary{
		Seconds: took.Seconds(), Hosts: s.options.Hosts,
		Ranges: s.at.list(), Splits: s.at.splits,
	}
	sum.Written, sum.Functions = s.books.totals()
	if figures := s.world.services.Figures; figures != nil {
		sum.Figures = figures()
	}
	sum.FailedWrites, sum.lastFailure = s.load.failures()
	for _, f := range sum.Functions {
		sum.Delivered += f.Delivered
		sum.Redelivered += f.Redelivered
		sum.DeadLettered += f.DeadLettered
		sum.Replayed += f.Replayed
		sum.DeadLettersLeft += f.DeadLettersLeft
		sum.Lost += f.Lost
	}
	return sum
}

// figures lists those of the app's services, each followed by a comma.
func (s devSummary) figures() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Figures)) {
		fmt.Fprintf(&b, "%d %s, ", s.Figures[name], name)
	}
	return b.String()
}

// print writes the summary as text.
func (s devSummary) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%.1f s, %d hosts, %d documents written, %s%d leases replaced by splits and merges\n\n",
		s.Seconds, s.Hosts, s.Written, s.figures(), s.Splits)
	if s.FailedWrites > 0 {
		fmt.Fprintf(out, "%d writes failed, the last with: %v\n\n", s.FailedWrites, errorText(s.lastFailure))
	}
	if s.DeadLettered > 0 || s.DeadLettersLeft > 0 {
		fmt.Fprintf(out, "%d changes dead-lettered; %d dead letters replayed at the end, %d left in the store\n\n", s.DeadLettered, s.Replayed, s.DeadLettersLeft)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "function\tdelivered\tredelivered\tdead-lettered\tlost\t")
	for _, f := range s.Functions {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t\n", f.Name, f.Delivered, f.Redelivered, f.DeadLettered, f.Lost)
	}
	fmt.Fprintln(t, "\t\t\t\t\t\nfunction\trange\thost\tchanges\tlast lsn\tcontinuation\t")
	for _, r := range s.Ranges {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t\n", r.Function, cell(r.Range), cell(r.Host), r.Changes, r.LastLSN, cell(r.Continuation))
	}
	return t.Flush()
}
