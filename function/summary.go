package main

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// devSummary is what halley dev prints at its end.
type devSummary struct {
	Seconds       float64    `json:"seconds"`
	Hosts         int        `json:"hosts"`
	Written       int        `json:"written"`      // writes that were acknowledged, corrections included
	FailedWrites  int        `json:"failedWrites"` // writes that were not
	Delivered     int        `json:"delivered"`    // to all functions
	Redelivered   int        `json:"redelivered"`
	Lost          int        `json:"lost"`
	Notifications int64      `json:"notifications"` // that devices received
	Splits        int        `json:"splits"`        // leases that gave way to others at a split or merge
	Functions     []accepted `json:"functions"`
	Ranges        []position `json:"ranges"`

	lastFailure error
}

func (r *session) summary(took time.Duration) devSummary {
	s := devSummary{
		Seconds: took.Seconds(), Hosts: r.options.Hosts, Notifications: r.world.notified.Load(),
		Ranges: r.at.list(), Splits: r.at.splits,
	}
	s.Written, s.Functions = r.books.totals()
	s.FailedWrites, s.lastFailure = r.writer.failures()
	for _, f := range s.Functions {
		s.Delivered += f.Delivered
		s.Redelivered += f.Redelivered
		s.Lost += f.Lost
	}
	return s
}

// print writes the summary for people.
func (s devSummary) print(out io.Writer) error {
	fmt.Fprintf(out, "\n%.1f s, %d hosts, %d results written, %d notifications received, %d leases replaced by splits and merges\n\n",
		s.Seconds, s.Hosts, s.Written, s.Notifications, s.Splits)
	if s.FailedWrites > 0 {
		fmt.Fprintf(out, "%d writes failed, the last with: %v\n\n", s.FailedWrites, s.lastFailure)
	}
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "function\tdelivered\tredelivered\tlost\t")
	for _, f := range s.Functions {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t\n", f.Name, f.Delivered, f.Redelivered, f.Lost)
	}
	fmt.Fprintln(t, "\t\t\t\t\nfunction\trange\thost\tchanges\tlast lsn\tcontinuation\t")
	for _, r := range s.Ranges {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\t\n", r.Function, r.Range, r.Host, r.Changes, r.LastLSN, r.Continuation)
	}
	return t.Flush()
}
