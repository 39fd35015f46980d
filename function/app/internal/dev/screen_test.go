package dev

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
)

// terminalScreen is a screen on a terminal with so many columns.
func terminalScreen(out io.Writer, columns int) *screen {
	return &screen{out: out, live: true, columns: func() int { return columns }}
}

func TestLiveLineStaysBelow(t *testing.T) {
	var out bytes.Buffer
	p := terminalScreen(&out, 80)
	p.update("one")
	p.update("two")
	p.say("a line that stays")
	p.end()
	want := "one" + clearLine + "two" + clearLine + "a line that stays\ntwo" + clearLine
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestStateWithoutTerminalIsALine(t *testing.T) {
	var out bytes.Buffer
	p := newScreen(&out)
	p.update("one")
	p.say("between")
	p.update("two")
	p.end()
	if want := "one\nbetween\ntwo\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestHandlersPrintAboveTheLiveLine(t *testing.T) {
	var out bytes.Buffer
	p := terminalScreen(&out, 80)
	p.update("live")
	restore, err := p.takeStdout()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Print("hello\n\x1b]0;title\x07 without an end")
	restore()
	if want := "live" + clearLine + "hello\nlive" + clearLine + "?]0;title? without an end\nlive"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
	if os.Stdout == nil || p.line != "live" {
		t.Errorf("the live line is %q", p.line)
	}
}

func TestStateLineFitsItsColumns(t *testing.T) {
	s := screenState{After: 12 * time.Second, Loaded: true, Counted: true, Written: 1200, Leases: 8, Functions: []accepted{{Name: "push", Delivered: 1180, Behind: 20, DeadLettered: 3}}}
	if got, want := s.line(79), "  12s  1200 written  push 1180 handled, 20 behind, 3 dead  8 leases"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	s.Functions = append(s.Functions, accepted{Name: "leaderboard", Delivered: 820, Behind: 1})
	if got, want := s.line(79), "  12s  1200 written  in all 2000 handled, 21 behind, 3 dead"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := s.line(119); !strings.Contains(got, "leaderboard 820 handled, 1 behind  8 leases") {
		t.Errorf("there is room for %q", got)
	}
	if got, want := (screenState{After: time.Second, Functions: []accepted{{Name: "orders", Behind: 2}}}).line(79), "   1s  orders 2 behind"; got != want {
		t.Errorf("watched: %q", got)
	}
	for columns := 10; columns < 130; columns++ {
		if line := s.line(columns); textWidth(line) > columns {
			t.Errorf("%d columns in %d: %q", textWidth(line), columns, line)
		}
	}
}

func TestTextFitsItsColumns(t *testing.T) {
	for _, test := range []struct {
		text      string
		columns   int
		cut, both string
	}{
		{"short", 5, "short", "short"},
		{"0123456789", 7, "012345…", "012…789"},
		{"0123456789", 8, "0123456…", "0123…789"},
		{"名前名前名前", 7, "名前名…", "名…名前"},
		{"", 5, "", ""},
	} {
		cut, both := fit(test.text, test.columns), shorten(test.text, test.columns)
		if cut != test.cut || both != test.both || textWidth(cut) > test.columns || textWidth(both) > test.columns {
			t.Errorf("%q in %d: %q and %q", test.text, test.columns, cut, both)
		}
	}
	if got := wrap("one two three four", 9); got != "one two\nthree\nfour" {
		t.Errorf("wrapped as %q", got)
	}
}

// rendered is what a terminal of so many columns shows after out.
func rendered(out string, columns int) (rows []string) {
	row, at := []rune{}, 0
	flush := func() { rows = append(rows, strings.TrimRight(string(row), " ")); row, at = row[:0], 0 }
	for text := []rune(out); len(text) > 0; text = text[1:] {
		switch r := text[0]; {
		case r == '\r':
			at = 0
		case r == '\n':
			flush()
		case strings.HasPrefix(string(text[:min(3, len(text))]), "\x1b[K"):
			row, text = row[:at], text[2:]
		default:
			if at == columns {
				flush()
			}
			row = append(row[:at], r)
			at++
		}
	}
	return append(rows, string(row))
}

// TestDevOnTerminals looks at the whole output on terminals of two sizes: nothing but
// the connection string, which is to be copied, is longer than a row; the header is
// first, no live line is left or torn, and the verdict is the last thing on the screen.
// The runs are one after the other, because a run on a terminal takes the standard output.
func TestDevOnTerminals(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ columns, rows int }{{80, 24}, {120, 40}} {
		t.Run(fmt.Sprintf("%dx%d", size.columns, size.rows), func(t *testing.T) {
			var out bytes.Buffer
			o := runFlags{For: 1500 * time.Millisecond, Rate: 100, Hosts: 3, SplitAfter: 400 * time.Millisecond, Poison: 10}
			sum, err := run(t.Context(), devApp(), o, terminalScreen(&out, size.columns))
			if err != nil {
				t.Fatal(err)
			}
			if err := sum.print(&out); err != nil {
				t.Fatal(err)
			}
			rows := rendered(strings.TrimSuffix(out.String(), "\n"), size.columns)
			text := strings.Join(rows, "\n")
			for i, line := range strings.Split(out.String(), "\n") {
				for part := range strings.SplitSeq(line, clearLine) {
					if textWidth(part) > size.columns && !strings.HasPrefix(part, "AccountEndpoint=") {
						t.Errorf("line %d has %d columns: %q", i, textWidth(part), part)
					}
				}
			}
			if !strings.HasPrefix(rows[0], "halley dev: ends after 1.5s") || !strings.HasPrefix(rows[1], "account    http://127.0.0.1:") {
				t.Errorf("the header is not first:\n%s", text)
			}
			if strings.Count(text, "leases") > 1 || strings.Contains(text, " in all ") {
				t.Errorf("a live line was torn, or is left:\n%s", text)
			}
			visible := strings.Join(rows[max(0, len(rows)-size.rows+1):], "\n") // below them is the prompt
			if last := rows[len(rows)-1]; last != "every change was handled" || !strings.Contains(visible, "\n  leaderboard") || !strings.Contains(visible, "dead letters replayed at the end") {
				t.Errorf("the screen ends with\n%s", visible)
			}
		})
	}
}

// A terminal gets text, and a pipe JSON.
func TestDevLogFollowsTheOutput(t *testing.T) {
	var out bytes.Buffer
	screenLogger(terminalScreen(&out, 80), settings.App{LogLevel: "info", LogFormat: settings.FormatAuto}).Info("hello", zap.String("a", "b"))
	screenLogger(newScreen(&out), settings.App{LogLevel: "info", LogFormat: settings.FormatAuto}).Info("hello")
	if text, encoded, _ := strings.Cut(out.String(), "\n"); !strings.Contains(text, "INFO  hello") || !strings.Contains(encoded, `"message":"hello"`) {
		t.Errorf("logged\n%s", out.String())
	}
}

func TestPositions(t *testing.T) {
	p := newPositions()
	one, two := p.of("one"), p.of("two")
	for _, e := range []trigger.Event{
		{Kind: trigger.EventAcquired, Function: "f", Range: "10"},
		{Kind: trigger.EventAcquired, Function: "f", Range: "9"},
		{Kind: trigger.EventDelivered, Function: "f", Range: "9", Changes: 5, Handled: 5, LastLSN: 7},
		{Kind: trigger.EventDeliveryFailed, Function: "f", Range: "9", Changes: 5, Handled: 2},
		{Kind: trigger.EventCheckpointed, Function: "f", Range: "9", Continuation: `"7"`},
		{Kind: trigger.EventReleased, Function: "f", Range: "9", Continuation: `"7"`},
	} {
		one(e)
	}
	for _, e := range []trigger.Event{
		{Kind: trigger.EventAcquired, Function: "f", Range: "9", Continuation: `"7"`},
		{Kind: trigger.EventDelivered, Function: "f", Range: "9", Changes: 1, Handled: 1, LastLSN: 8},
		{Kind: trigger.EventAcquired, Function: "e", Range: "0"},
		{Kind: trigger.EventSplit, Function: "e", Range: "0", Children: []string{"1", "2"}},
		{Kind: trigger.EventReleased, Function: "e", Range: "0"},
	} {
		two(e)
	}
	want := []position{
		{Function: "f", Range: "9", Host: "two", Changes: 8, LastLSN: 8, Continuation: `"7"`},
		{Function: "f", Range: "10", Host: "one"},
	}
	if got := p.list(); fmt.Sprint(got) != fmt.Sprint(want) || p.splits != 1 {
		t.Errorf("got %+v with %d splits, want %+v with 1", got, p.splits, want)
	}
}

func TestSummaryAsText(t *testing.T) {
	var out bytes.Buffer
	s := runSummary{Seconds: 20, Hosts: 2, Written: 2000, FailedWrites: 3, lastFailure: context.DeadlineExceeded, Splits: 1,
		Functions:    []accepted{{Name: "push", Delivered: 1900, Redelivered: 4, DeadLettered: 12, Lost: 1}},
		DeadLettered: 12, Replayed: 11, DeadLettersLeft: 1, Figures: map[string]int64{"mails sent": 7},
		Ranges: []position{{"push", "05C1CFFFFFFFF8-05C1DFFFFFFFF8", "dev-1", 950, 1234, `"1234567890123456"`}}}
	for range maxRanges + 1 {
		s.Ranges = append(s.Ranges, position{Function: "push"})
	}
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{
		"20.0 s, 2 hosts, 2000 documents written, 7 mails sent, 1 lease replaced by\nsplits and merges\n", "3 writes failed, the last with", "1900",
		"12 changes dead-lettered; 11 dead letters replayed at the end, 1 left", "05C1CFF…DFFFFFFFF8"[:7], "dev-1", "and 2 more ranges", "NOT HANDLED: push: 1 document lost\n",
	} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("summary lacks %q:\n%s", says, out.String())
		}
	}
	for line := range strings.Lines(out.String()) {
		if textWidth(line) > 81 {
			t.Errorf("too long: %s", line)
		}
	}
}

func TestSummaryCannotControlTerminal(t *testing.T) {
	var out bytes.Buffer
	if err := (runSummary{Ranges: []position{{Range: apptest.Hostile, Host: apptest.Hostile, Continuation: apptest.Hostile}}}).print(&out); err != nil {
		t.Fatal(err)
	}
	apptest.CheckTerminal(t, "dev", out.String())
}

// A line of a handler is shown in a development run, and those of the runtime do not hide it;
// HALLEY_LOG_LEVEL decides about both.
func TestLinesOfHandlersAreShown(t *testing.T) {
	for level, shown := range map[string]bool{"": true, "warn": false} {
		t.Run(level, func(t *testing.T) {
			env := map[string]string{}
			if level != "" {
				env["HALLEY_LOG_LEVEL"] = level
			}
			apptest.CleanEnv(t, env)
			p := newProgram("shop", handlers.New("orders", "takes orders", func(_ context.Context, env handlers.Env, _ struct{}) (trigger.Handler, func() error, error) {
				log := env.Log()
				return trigger.Documents(func(context.Context, []struct{}) error {
					log.Info("an order arrived")
					return nil
				}), nil, nil
			}))
			p.Containers = []Container{{Name: "orders", PartitionKey: []string{"/customer"}}}
			seed := filepath.Join(t.TempDir(), "orders.jsonl")
			if err := os.WriteFile(seed, []byte(`{"id":"1","customer":"ada"}`+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			var out apptest.Lines
			if err := develop(t.Context(), p, runFlags{Rate: 1, Hosts: 1, Addr: "127.0.0.1:0", Page: "off", For: 100 * time.Millisecond, Seeds: []string{seed}}, &out, &out); err != nil {
				t.Fatal(err)
			}
			if text := out.String(); strings.Contains(text, "an order arrived") != shown || strings.Contains(text, "acquired") {
				t.Errorf("the output is\n%s", text)
			}
		})
	}
}
