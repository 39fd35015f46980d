//go:build !nodev

package app

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"halley/trigger"
)

// progress shows the state of a development run. If out is a terminal one line is
// redrawn; if not, a plain line is printed every 2 s. It is safe for concurrent use.
type progress struct {
	mu   sync.Mutex
	out  io.Writer
	live bool
	line string // the current last line of the terminal
}

func newProgress(out io.Writer, live bool) *progress { return &progress{out: out, live: live} }

const clearLine = "\r\x1b[K"

// Write prints log lines above the live line.
func (p *progress) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.out.Write(b)
	p.draw()
	return n, err
}

// say prints a line that stays.
func (p *progress) say(text string) {
	_, _ = io.WriteString(p, text+"\n")
}

// show replaces the live line, or prints a plain one.
func (p *progress) show(text string) {
	if !p.live {
		p.say(text)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line = text
	p.draw()
}

// end removes the live line.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line = ""
}

func (p *progress) clear() {
	if p.line != "" {
		_, _ = io.WriteString(p.out, clearLine)
	}
}

func (p *progress) draw() {
	if p.line != "" {
		_, _ = io.WriteString(p.out, p.line)
	}
}

// follow shows the state of the run until ctx ends.
func (p *progress) follow(ctx context.Context, books *ledger, hosts []*trigger.Host) {
	every := 2 * time.Second
	if p.live {
		every = 250 * time.Millisecond
	}
	began := time.Now()
	defer p.end()
	for pause(ctx, every) {
		var at []trigger.Status
		for _, h := range hosts {
			at = append(at, h.Status())
		}
		writes, functions := books.totals()
		p.show(stateLine(time.Since(began), writes, functions, at))
	}
}

// stateLine describes the state of a run on one line.
func stateLine(after time.Duration, writes int, functions []accepted, hosts []trigger.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%4.0fs  written %d", after.Seconds(), writes)
	for _, f := range functions {
		fmt.Fprintf(&b, "  %s %d (behind %d", f.Name, f.Delivered, f.Lost)
		if f.DeadLettered > 0 {
			fmt.Fprintf(&b, ", dead letters %d", f.DeadLettered)
		}
		b.WriteByte(')')
	}
	b.WriteString("  leases")
	for _, h := range hosts {
		held := 0
		for _, f := range h.Functions {
			held += len(f.Ranges)
		}
		fmt.Fprintf(&b, " %s:%d", h.Owner, held)
	}
	return b.String()
}
