//go:build !nodev

package dev

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"
	"golang.org/x/term"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
)

// screen shows a development run: lines that stay and, on a terminal, one live line
// below them, which is never longer than a row. Elsewhere the state is a plain line
// every 2 s. It is safe for concurrent use.
type screen struct {
	out     io.Writer
	live    bool
	columns func() int

	mu   sync.Mutex // guards the output and line
	line string     // the live line
}

func newScreen(out io.Writer) *screen {
	s := &screen{out: out, live: text.IsTerminal(out), columns: func() int { return defaultColumns }}
	if f, ok := out.(*os.File); ok && s.live {
		s.columns = func() int {
			if columns, _, err := term.GetSize(int(f.Fd())); err == nil && columns > 0 {
				return columns
			}
			return defaultColumns
		}
	}
	return s
}

const (
	defaultColumns = 80
	clearLine      = "\r\x1b[K"
)

// Write prints log lines above the live line.
func (p *screen) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	n, err := p.out.Write(b)
	p.draw()
	return n, err
}

// say prints a line that stays.
func (p *screen) say(text string) {
	_, _ = io.WriteString(p, text+"\n")
}

// update replaces the live line, or prints a plain one.
func (p *screen) update(text string) {
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
func (p *screen) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.line = ""
}

func (p *screen) clear() {
	if p.line != "" {
		_, _ = io.WriteString(p.out, clearLine)
	}
}

// draw leaves the last column free: some terminals begin a new row after it.
func (p *screen) draw() {
	if p.line != "" {
		_, _ = io.WriteString(p.out, fit(p.line, p.columns()-1))
	}
}

// takeStdout shows lines that handlers print to the standard output above the live
// line, until restore is called. It does so only on a terminal. Call it when no handler
// runs, and restore likewise.
func (p *screen) takeStdout() (restore func(), err error) {
	if !p.live {
		return func() {}, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	before := os.Stdout
	os.Stdout = to
	var copying sync.WaitGroup
	copying.Go(func() {
		lines := bufio.NewReader(from)
		for {
			line, err := lines.ReadString('\n')
			if line = strings.TrimSuffix(line, "\n"); line != "" {
				p.say(text.Line(line))
			}
			if err != nil {
				return
			}
		}
	})
	return func() {
		os.Stdout = before
		_ = to.Close() // copying then ends at what was printed
		copying.Wait()
		_ = from.Close() // nothing is left in it
	}, nil
}

// screenLogger logs to the screen: text on a terminal and JSON elsewhere, unless the
// settings say otherwise.
func screenLogger(p *screen, s settings.App) *zap.Logger {
	if s.LogFormat == settings.FormatText || s.LogFormat == settings.FormatAuto && p.live {
		return hosting.TextLogger(p, s.LogLevel)
	}
	return hosting.JSONLogger(p, s.LogLevel)
}

// handlerLogger logs what the handlers tell. Their lines are shown from info on unless
// HALLEY_LOG_LEVEL is set: a line may be the only effect of a new handler, and those of the
// runtime would hide it.
func handlerLogger(p *screen, s settings.App) *zap.Logger {
	if s.LogLevel == "warn" && os.Getenv("HALLEY_LOG_LEVEL") == "" {
		s.LogLevel = "info"
	}
	return screenLogger(p, s)
}

// screenState holds the figures of the live line.
type screenState struct {
	After     time.Duration
	Loaded    bool // the app has a load, whose writes are counted
	Counted   bool // the handlers' calls are counted
	Written   int
	Functions []accepted
	Leases    int
}

// follow shows the state of the run until ctx ends.
func (p *screen) follow(ctx context.Context, state func() screenState) {
	every := 2 * time.Second
	if p.live {
		every = 250 * time.Millisecond
	}
	defer p.end()
	for hosting.Pause(ctx, every) {
		p.update(state().line(p.columns() - 1))
	}
}

// line describes the state in at most so many columns: each function if there is room,
// else all of them in sum.
func (s screenState) line(columns int) string {
	head := fmt.Sprintf("%4.0fs", s.After.Seconds())
	if s.Loaded {
		head += fmt.Sprintf("  %d written", s.Written)
	}
	var each strings.Builder
	var sum accepted
	for _, f := range s.Functions {
		fmt.Fprintf(&each, "  %s %s", f.Name, f.state(s.Counted))
		sum.Delivered += f.Delivered
		sum.Behind += f.Behind
		sum.DeadLettered += f.DeadLettered
	}
	leases := ""
	if s.Counted {
		leases = "  " + text.Count(s.Leases, "lease")
	}
	for _, line := range []string{head + each.String() + leases, head + each.String()} {
		if textWidth(line) <= columns {
			return line
		}
	}
	return fit(head+"  in all "+sum.state(s.Counted), columns)
}

// state is the part of a live line about one function.
func (f *accepted) state(counted bool) string {
	text := fmt.Sprintf("%d handled", f.Delivered)
	switch {
	case !counted && f.Behind == 0:
		return "up to date"
	case !counted:
		return fmt.Sprintf("%d behind", f.Behind)
	case f.Behind > 0:
		text += fmt.Sprintf(", %d behind", f.Behind)
	}
	if f.DeadLettered > 0 {
		text += fmt.Sprintf(", %d dead", f.DeadLettered)
	}
	return text
}

// fit cuts a line to so many columns.
func fit(line string, columns int) string {
	if textWidth(line) <= columns {
		return line
	}
	taken := 0
	for i, r := range line {
		if taken += runeWidth(r); taken > columns-1 {
			return line[:i] + "…"
		}
	}
	return line
}

// shorten cuts the middle out of a text that is longer than so many columns.
func shorten(text string, columns int) string {
	if textWidth(text) <= columns {
		return text
	}
	begin := fit(text, columns/2+1)
	end, taken := len(text), 0
	for end > 0 {
		r, size := utf8.DecodeLastRuneInString(text[:end])
		if taken += runeWidth(r); taken > columns-textWidth(begin) {
			break
		}
		end -= size
	}
	return begin + text[end:]
}

func textWidth(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth returns the columns of a character: two for those of East Asia, for their
// full-width forms, and for emoji.
func runeWidth(r rune) int {
	wide := unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana) ||
		0x3000 <= r && r <= 0x303f || 0xff01 <= r && r <= 0xff60 || 0xffe0 <= r && r <= 0xffe6 || 0x1f300 <= r && r <= 0x1faff
	if wide {
		return 2
	}
	return 1
}
