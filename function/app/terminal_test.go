package app

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

// hostile holds one character of each kind that controls a terminal: C0, DEL, C1
// as a character and as a byte, bidirectional override and isolate, a mark, a
// zero-width space and a byte order mark.
const hostile = "a\x1b]0;t\x07\x7f\u009b31m\x9b\u202e\u2066\u200f\u200b\ufeffz"

// checkTerminal fails if out has a character that controls a terminal.
func checkTerminal(t *testing.T, name, out string) {
	t.Helper()
	for i, r := range out {
		if r != '\n' && !unicode.IsPrint(r) || r == unicode.ReplacementChar && out[i] != "\uFFFD"[0] {
			t.Errorf("%s: character %U in %q", name, r, out)
			return
		}
	}
	if !strings.Contains(out, "z") {
		t.Errorf("%s: the text is not there: %q", name, out)
	}
}

func TestOutputCannotControlTerminal(t *testing.T) {
	document, _ := json.Marshal(map[string]string{"id": hostile})
	d := trigger.DeadLetter{ID: hostile, Range: hostile, Key: hostile, DocumentID: hostile, Error: hostile, Stack: hostile,
		Document: document, Previous: json.RawMessage(hostile), Operation: cosmos.Operation(hostile), Time: time.Now()}
	found := func(yield func(operate.StoredLetter, error) bool) {
		yield(operate.StoredLetter{DeadLetter: d, Store: operate.Store{Function: "f"}}, nil)
	}
	seen := operate.LagReport{Functions: []operate.FunctionLag{{Name: "f", Problem: hostile, Leases: []trigger.Lag{
		{Range: hostile, Owner: hostile, Continuation: hostile, Problem: hostile}}}}}
	results := []operate.Replayed{{Function: "f", Failures: []operate.FailedLetter{{ID: hostile, Error: hostile}}}}
	for name, print := range map[string]func(out *bytes.Buffer){
		"table": func(out *bytes.Buffer) { _ = printTable(out, found) },
		"lines": func(out *bytes.Buffer) { _ = operate.PrintLines(out, found) },
		"dead letter": func(out *bytes.Buffer) {
			_ = printDeadLetter(out, operate.StoredLetter{DeadLetter: d, Store: operate.Store{Function: "f"}})
		},
		"status":      func(out *bytes.Buffer) { _ = statusOptions{}.print(out, seen) },
		"status JSON": func(out *bytes.Buffer) { _ = statusOptions{json: true}.print(out, seen) },
		"replay":      func(out *bytes.Buffer) { _ = printReplayed(out, results, false) },
		"replay JSON": func(out *bytes.Buffer) { _ = printReplayed(out, results, true) },
		"leases": func(out *bytes.Buffer) {
			_ = printLeases(out, []leases.Info{{Range: hostile, Owner: hostile, Continuation: hostile, Paused: true, Reason: hostile}}, time.Now())
		},
		"plan": func(out *bytes.Buffer) {
			_ = printPlans(out, []leases.Plan{{Steps: []leases.Step{{Range: hostile, Owner: hostile, From: hostile, To: hostile, Refused: hostile}}}})
		},
		"check": func(out *bytes.Buffer) { (&report{out: out}).line(hostile, errors.New(hostile)) },
		"settings": func(out *bytes.Buffer) {
			(&report{out: out}).settings([]settings.Value{{Name: "N", Value: hostile, Source: "default"}})
		},
		"dev": func(out *bytes.Buffer) {
			_ = devSummary{Ranges: []position{{Range: hostile, Host: hostile, Continuation: hostile}}}.print(out)
		},
		"error": func(out *bytes.Buffer) { fmt.Fprint(out, text.OfError(errors.New(hostile))) },
		"log": func(out *bytes.Buffer) {
			hosting.JSONLogger(out, "info").Info(hostile, zap.String("owner", hostile), zap.Error(errors.New(hostile)), zap.Any("id", hostile))
		},
	} {
		var out bytes.Buffer
		print(&out)
		checkTerminal(t, name, out.String())
	}
}

// TestEscapedJSONHoldsTheSameValues: what is escaped is still the same text.
func TestEscapedJSONHoldsTheSameValues(t *testing.T) {
	wanted := strings.ToValidUTF8(hostile, "\uFFFD") + "\U000e0001" // a tag, beyond 16 bits
	var out bytes.Buffer
	if err := json.NewEncoder(text.SafeWriter(&out)).Encode(wanted); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != wanted {
		t.Errorf("%q became %q: %v", wanted, back, err)
	}
	checkTerminal(t, "JSON", out.String())
}
