package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"halley/trigger"
)

func TestProgressOnATerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, true)
	p.show("one")
	p.show("two")
	p.say("a line that stays")
	p.end()
	want := "one" + clearLine + "two" + clearLine + "a line that stays\ntwo" + clearLine
	if out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestProgressWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out, false)
	p.show("one")
	p.say("between")
	p.show("two")
	p.end()
	if want := "one\nbetween\ntwo\n"; out.String() != want {
		t.Errorf("wrote %q, want %q", out.String(), want)
	}
}

func TestStateLine(t *testing.T) {
	hosts := []trigger.Status{
		{Owner: "dev-1", Functions: []trigger.FunctionStatus{{Ranges: make([]trigger.RangeStatus, 2)}, {Ranges: make([]trigger.RangeStatus, 1)}}},
		{Owner: "dev-2"},
	}
	got := stateLine(12*time.Second, 1200, []accepted{{Name: "push", Delivered: 1180, Lost: 20}}, hosts)
	if with := stateLine(0, 1, []accepted{{Name: "push", Lost: 2, DeadLettered: 3}}, nil); !strings.Contains(with, "push 0 (behind 2, dead letters 3)") {
		t.Errorf("letters are not shown: %q", with)
	}
	if want := "  12s  written 1200  push 1180 (behind 20)  leases dev-1:3 dev-2:0"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPositions(t *testing.T) {
	p := newPositions()
	one, two := p.of("one"), p.of("two")
	for _, e := range []trigger.Event{
		{Kind: trigger.Acquired, Function: "f", Range: "10"},
		{Kind: trigger.Acquired, Function: "f", Range: "9"},
		{Kind: trigger.Delivered, Function: "f", Range: "9", Changes: 5, LastLSN: 7},
		{Kind: trigger.DeliveryFailed, Function: "f", Range: "9", Changes: 5},
		{Kind: trigger.Checkpointed, Function: "f", Range: "9", Continuation: `"7"`},
		{Kind: trigger.Released, Function: "f", Range: "9", Continuation: `"7"`},
	} {
		one(e)
	}
	for _, e := range []trigger.Event{
		{Kind: trigger.Acquired, Function: "f", Range: "9", Continuation: `"7"`},
		{Kind: trigger.Delivered, Function: "f", Range: "9", Changes: 1, LastLSN: 8},
		{Kind: trigger.Acquired, Function: "e", Range: "0"},
		{Kind: trigger.Split, Function: "e", Range: "0", Children: []string{"1", "2"}},
		{Kind: trigger.Released, Function: "e", Range: "0"},
	} {
		two(e)
	}
	want := []position{
		{Function: "f", Range: "9", Host: "two", Changes: 6, LastLSN: 8, Continuation: `"7"`},
		{Function: "f", Range: "10", Host: "one"},
	}
	if got := p.list(); fmt.Sprint(got) != fmt.Sprint(want) || p.splits != 1 {
		t.Errorf("got %+v with %d splits, want %+v with 1", got, p.splits, want)
	}
}

func TestSummaryAsText(t *testing.T) {
	var out bytes.Buffer
	s := devSummary{Seconds: 20, Hosts: 2, Written: 2000, FailedWrites: 3, lastFailure: errLost,
		Functions: []accepted{{Name: "push", Delivered: 1900, Redelivered: 4, DeadLettered: 12, Lost: 1}}, DeadLettered: 12, Replayed: 11, DeadLettersLeft: 1, Figures: map[string]int64{"mails sent": 7}, Ranges: []position{{"push", "0", "dev-1", 950, 1234, `"1234"`}}}
	if err := s.print(&out); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"2000 documents written, 7 mails sent, ", "3 writes failed", "1900", "12 changes dead-lettered; 11 dead letters replayed at the end, 1 left", `"1234"`, "dev-1"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("summary lacks %q:\n%s", says, out.String())
		}
	}
}
