package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// devSummary is the last output of halley dev.
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
	Notifications   int64      `json:"notifications"` // that devices received
	Splits          int        `json:"splits"`        // leases that were replaced at a split or merge
	Functions       []accepted `json:"functions"`
	Ranges          []position `json:"ranges"`

	lastFailure error
}

func (s *session) summary(took time.Duration) devSummary {
	sum := devSummary{
		Seconds: took.Seconds(), Hosts: s.options.Hosts, Notifications: s.world.notified.Load(),
		Ranges: s.at.list(), Splits: s.at.splits,
	}
	sum.Written, sum.Functions = s.books.totals()
	sum.FailedWrites, sum.lastFailure = s.writer.failures()
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

// print writes the summary as text.
func (s devSummary) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%.1f s, %d hosts, %d results written, %d notifications received, %d leases replaced by splits and merges\n\n",
		s.Seconds, s.Hosts, s.Written, s.Notifications, s.Splits)
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
