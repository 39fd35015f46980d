package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operate"
	"halley/function/app/internal/settings"
	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/leases"
)

func TestOutputCannotControlTerminal(t *testing.T) {
	document, _ := json.Marshal(map[string]string{"id": apptest.Hostile})
	d := trigger.DeadLetter{ID: apptest.Hostile, Range: apptest.Hostile, Key: apptest.Hostile, DocumentID: apptest.Hostile, Error: apptest.Hostile, Stack: apptest.Hostile,
		Document: document, Previous: json.RawMessage(apptest.Hostile), Operation: cosmos.Operation(apptest.Hostile), Time: time.Now()}
	found := func(yield func(operate.StoredLetter, error) bool) {
		yield(operate.StoredLetter{DeadLetter: d, Store: operate.Store{Function: "f"}}, nil)
	}
	seen := operate.LagReport{Functions: []operate.FunctionLag{{Name: "f", Problem: apptest.Hostile, Leases: []trigger.Lag{
		{Range: apptest.Hostile, Owner: apptest.Hostile, Continuation: apptest.Hostile, Problem: apptest.Hostile}}}}}
	results := []operate.Replayed{{Function: "f", Failures: []operate.FailedLetter{{ID: apptest.Hostile, Error: apptest.Hostile}}}}
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
			_ = printLeases(out, []leases.Info{{Range: apptest.Hostile, Owner: apptest.Hostile, Continuation: apptest.Hostile, Paused: true, Reason: apptest.Hostile}}, time.Now())
		},
		"plan": func(out *bytes.Buffer) {
			_ = printPlans(out, []leases.Plan{{Steps: []leases.Step{{Range: apptest.Hostile, Owner: apptest.Hostile, From: apptest.Hostile, To: apptest.Hostile, Refused: apptest.Hostile}}}})
		},
		"check": func(out *bytes.Buffer) { (&report{out: out}).line(apptest.Hostile, errors.New(apptest.Hostile)) },
		"settings": func(out *bytes.Buffer) {
			(&report{out: out}).settings([]settings.Value{{Name: "N", Value: apptest.Hostile, Source: "default"}})
		},
		"error": func(out *bytes.Buffer) { fmt.Fprint(out, text.OfError(errors.New(apptest.Hostile))) },
		"log": func(out *bytes.Buffer) {
			hosting.JSONLogger(out, "info").Info(apptest.Hostile, zap.String("owner", apptest.Hostile), zap.Error(errors.New(apptest.Hostile)), zap.Any("id", apptest.Hostile))
		},
	} {
		var out bytes.Buffer
		print(&out)
		apptest.CheckTerminal(t, name, out.String())
	}
}

// TestEscapedJSONHoldsTheSameValues: what is escaped is still the same text.
func TestEscapedJSONHoldsTheSameValues(t *testing.T) {
	wanted := strings.ToValidUTF8(apptest.Hostile, "\uFFFD") + "\U000e0001" // a tag, beyond 16 bits
	var out bytes.Buffer
	if err := json.NewEncoder(text.SafeWriter(&out)).Encode(wanted); err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != wanted {
		t.Errorf("%q became %q: %v", wanted, back, err)
	}
	apptest.CheckTerminal(t, "JSON", out.String())
}
