package command

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/operate"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

func statusOf(t *testing.T, args ...string) (operate.LagReport, error) {
	t.Helper()
	out, err := runCommandLine(t, append([]string{"status", "--json"}, args...)...)
	var r operate.LagReport
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil {
		t.Fatalf("%v, %v: %q", err, jsonErr, out)
	}
	return r, err
}

func TestStatusFollowsProgress(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	apptest.CleanEnv(t, env)
	r, err := statusOf(t)
	if err == nil || r.Exact || len(r.Functions) != 1 || len(r.Functions[0].Leases) != 0 || r.Functions[0].Problem != "no leases: its hosts never ran, or the leases were deleted" {
		t.Errorf("before the first start: %+v, %v", r, err)
	}
	account.Write(t, 0, 4)
	a := hosttest.Open(t, env)
	if _, err := a.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if r, err = statusOf(t); err != nil || r.Changes != 0 || !r.Exact || len(r.Functions[0].Leases) != 2 {
		t.Errorf("after a drain: %+v, %v", r, err)
	}
	for _, l := range r.Functions[0].Leases {
		if l.Continuation == "" || l.Owner != "" || l.Problem != "" {
			t.Errorf("lease %+v, want a position and no owner", l)
		}
	}
	account.Write(t, 4, 6)
	if r, err = statusOf(t); err != nil || r.Changes != 6 || r.Functions[0].Changes != 6 || !r.Exact || r.Transactions != 6 {
		t.Errorf("six writes later: %+v, %v", r, err)
	}
	out, err := runCommandLine(t, "status", "--function", "leaderboard")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"FUNCTION", "leaderboard", "(free)", "total          6"} {
		if !strings.Contains(out, says) {
			t.Errorf("status lacks %q:\n%s", says, out)
		}
	}
	if !strings.Contains(out, "\nleaderboard costs ") || !strings.Contains(out, " for lease writes, ") || strings.Contains(out, "a month") {
		t.Errorf("status lacks the request units, or forecasts without being asked:\n%s", out)
	}
	t.Setenv("HALLEY_PRICES", "serverless=0.25")
	out, err = runCommandLine(t, "status", "--forecast")
	if err != nil || !strings.Contains(out, "leaderboard costs in a month: ") || strings.Count(out, "(serverless ") != 2 || !strings.Contains(out, " with the load of the last hour; ") {
		t.Errorf("the forecast, %v:\n%s", err, out)
	}
	if r, err = statusOf(t, "--forecast"); err != nil || r.Functions[0].Units.Total() == 0 || r.Functions[0].Forecast.Load.RequestUnits != r.Functions[0].Units.Total()*730 || r.Functions[0].Forecast.Idle.Serverless == 0 {
		t.Errorf("the forecast in JSON is %+v, %v", r.Functions[0].Forecast, err)
	}
	account.Write(t, 10, 400) // more than status counts
	if out, err = runCommandLine(t, "status"); err != nil || !strings.Contains(out, "at most ") {
		t.Errorf("status of a large lag: %v\n%s", err, out)
	}
}

// TestStatusOfMissingLeases: a lease that an operator deleted is not taken for a
// range that has no lag.
func TestStatusOfMissingLeases(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 8)
	if _, err := hosttest.Open(t, account.Env()).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	leases := account.Client.Container(apptest.Database, apptest.Leases)
	for missing := 1; missing <= 2; missing++ {
		deleteOne(t, leases, `SELECT * FROM c WHERE IS_DEFINED(c.LeaseToken)`)
		r, err := statusOf(t)
		if err == nil || r.Exact || r.Changes != int64(missing) || len(r.Functions) != 1 || len(r.Functions[0].Leases) != 2 {
			t.Errorf("%d missing: %+v, %v", missing, r, err)
		}
		out, err := runCommandLine(t, "status")
		if err == nil || strings.Count(out, "no lease covers") != missing || strings.Contains(out, "never ran") {
			t.Errorf("%d missing: %v\n%s", missing, err, out)
		}
	}
}

// deleteOne deletes the first document that a query finds.
func deleteOne(t *testing.T, in *cosmos.Container, query string) {
	t.Helper()
	for page, err := range in.Query(t.Context(), cosmos.Query{Text: query}) {
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 0 {
			continue
		}
		var found struct{ ID string }
		if err := json.Unmarshal(page.Items[0], &found); err != nil {
			t.Fatal(err)
		}
		if _, err := in.Delete(t.Context(), found.ID, cosmos.NewPartitionKey(found.ID), ""); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("nothing to delete: %s", query)
}

func TestStatusReportsUnknownLag(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	apptest.CleanEnv(t, account.Env("HALLEY_CONTAINER_NAME", "nothing"))
	r, err := statusOf(t)
	if err == nil || len(r.Functions) != 1 || !strings.Contains(r.Functions[0].Problem, "nothing") || r.Exact {
		t.Errorf("%+v, %v", r, err)
	}
	out, err := runCommandLine(t, "status")
	if err == nil || !strings.Contains(out, "nothing") {
		t.Errorf("%v:\n%s", err, out)
	}
	if _, err := runCommandLine(t, "status", "--function", "push"); err == nil || !strings.Contains(err.Error(), "leaderboard") {
		t.Errorf("error %v", err)
	}
	if _, err := runCommandLine(t, "status", "--watch", "--every", "0s"); err == nil || !strings.Contains(err.Error(), "--every") {
		t.Errorf("error %v", err)
	}
	apptest.CleanEnv(t, account.Env("HALLEY_CONNECTION", "Nowhere"))
	if r, err := statusOf(t); err == nil || !strings.Contains(r.Functions[0].Problem, "HALLEY_CONNECTION") {
		t.Errorf("%+v, %v", r, err)
	}
}

// stopAfter ends a watch when it has written n looks.
type stopAfter struct {
	bytes.Buffer
	n    int
	stop context.CancelFunc
}

func (s *stopAfter) Write(p []byte) (int, error) {
	if s.n--; s.n == 0 {
		s.stop()
	}
	return s.Buffer.Write(p)
}

func TestStatusWatches(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	if _, err := hosttest.Open(t, account.Env()).Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopAfter{n: 3, stop: stop}
	o := statusOptions{watch: true, json: true, every: time.Millisecond}
	if err := o.run(ctx, hosttest.Program().Source, out); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d looks, want 3:\n%s", lines, out.String())
	}
}

func TestStatusTellsOfSnapshot(t *testing.T) {
	begun := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	lag := trigger.Lag{Snapshot: &trigger.SnapshotLag{Position: 120, Until: 500, Begun: begun}}
	if got, want := waitText(lag, begun.Add(time.Minute)), "snapshot read up to LSN 120 of 500 in 1m0s"; got != want {
		t.Errorf("without a known retention: %q, want %q", got, want)
	}
	lag.Snapshot.Expires = begun.Add(time.Hour)
	if got, want := waitText(lag, begun.Add(time.Minute)), "snapshot read up to LSN 120 of 500 in 1m0s; it begins again unless it is read within 59m0s"; got != want {
		t.Errorf("with a retention of an hour: %q, want %q", got, want)
	}
}
