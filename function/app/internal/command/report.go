package command

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger/units"
)

// checkTime limits the probes of one function.
const checkTime = 30 * time.Second

// report prints the outcome of checks, a line each.
type report struct {
	out    io.Writer
	failed int
	prices units.Prices
}

// err returns an error if some checks failed.
func (r *report) err() error {
	if r.failed > 0 {
		return fmt.Errorf("%d checks failed", r.failed)
	}
	return nil
}

// line prints one outcome. If the error joins several, each gets a line.
func (r *report) line(what string, err error) {
	if err == nil {
		fmt.Fprintf(r.out, "ok    %s\n", text.Line(what))
		return
	}
	r.failed++
	for line := range strings.SplitSeq(text.OfError(err), "\n") {
		fmt.Fprintf(r.out, "FAIL  %s: %s\n", text.Line(what), line)
	}
}

func (r *report) settings(values []settings.Value) {
	t := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	for _, v := range values {
		fmt.Fprintf(t, "%s\t%s\t%s\n", v.Name, quoteBlank(text.Line(v.Value)), v.Source)
	}
	_ = t.Flush()
	fmt.Fprintln(r.out)
}

func quoteBlank(s string) string {
	if s == "" {
		return `""`
	}
	return s
}

// function probes the needs of one function, in an order in which each step builds
// on the earlier ones. It stops when one fails.
func (r *report) function(ctx context.Context, f settings.Function) {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	p := probe{f: f}
	if !r.step(ctx, &p, "connection "+f.Connection.String(), p.connect) {
		return
	}
	if r.step(ctx, &p, "handler", p.handler) {
		defer func() {
			if err := p.closeHandler(); err != nil {
				r.line(f.Name+": close the handler", err)
			}
		}()
	}
	if !r.step(ctx, &p, "account of "+f.Connection.String(), p.account) {
		return
	}
	for _, offered := range p.offered {
		r.step(ctx, &p, offered.What, offered.Try)
	}
	for _, step := range []struct {
		what string
		try  func(context.Context) error
	}{
		{fmt.Sprintf("monitored container %s/%s", f.DatabaseName, f.ContainerName), p.monitored},
		{"its change feed", p.feed},
		{fmt.Sprintf("lease container %s/%s", f.LeaseDatabaseName, f.LeaseContainerName), p.leases},
		{"create, read, query, replace and delete a lease", p.lease},
		{"dead letters to " + f.DeadLetters.String(), p.deadLetters},
	} {
		if !r.step(ctx, &p, step.what, step.try) {
			return
		}
	}
	r.line(fmt.Sprintf("%s: costs in a month, idle, with one host that runs all the time: %s", f.Name, r.prices.Month(operate.IdleUnits(f, p.ranges, 1, 0))), nil)
}

// step reports whether one step worked.
func (r *report) step(ctx context.Context, p *probe, what string, try func(context.Context) error) bool {
	p.note = ""
	err := try(ctx)
	if err == nil && p.note != "" {
		what += " (" + p.note + ")"
	}
	r.line(p.f.Name+": "+what, err)
	return err == nil
}
