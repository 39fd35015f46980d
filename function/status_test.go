package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"halley/trigger/emulator"
)

func statusOf(t *testing.T, args ...string) (lagReport, error) {
	t.Helper()
	out, err := runCommandLine(t, append([]string{"status", "--json"}, args...)...)
	var r lagReport
	if jsonErr := json.Unmarshal([]byte(out), &r); jsonErr != nil {
		t.Fatalf("%v, %v: %q", err, jsonErr, out)
	}
	return r, err
}

func TestStatusFollowsTheWork(t *testing.T) {
	account := serveAccount(t, emulator.ServeOptions{})
	env := account.env()
	cleanEnv(t, env)
	r, err := statusOf(t)
	if err != nil || len(r.Functions) != 1 || len(r.Functions[0].Leases) != 0 {
		t.Errorf("before the first start: %+v, %v", r, err)
	}
	account.write(t, 0, 4)
	a := openTestApp(t, env)
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
	account.write(t, 4, 6)
	if r, err = statusOf(t); err != nil || r.Changes != 6 || r.Functions[0].Changes != 6 || r.Exact {
		t.Errorf("six writes later: %+v, %v", r, err)
	}
	out, err := runCommandLine(t, "status", "--function", "leaderboard")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"FUNCTION", "leaderboard", "(free)", "total", "~6"} {
		if !strings.Contains(out, says) {
			t.Errorf("status lacks %q:\n%s", says, out)
		}
	}
}

func TestStatusOfWhatIsNotKnown(t *testing.T) {
	account := serveAccount(t, emulator.ServeOptions{})
	cleanEnv(t, account.env("HALLEY_CONTAINER_NAME", "nothing"))
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
	cleanEnv(t, account.env("HALLEY_CONNECTION", "Nowhere"))
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
	account := serveAccount(t, emulator.ServeOptions{})
	cleanEnv(t, account.env())
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out := &stopAfter{n: 3, stop: stop}
	o := statusOptions{watch: true, json: true, every: time.Millisecond}
	if err := o.run(ctx, out); err != nil {
		t.Error(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 3 {
		t.Errorf("%d looks, want 3:\n%s", lines, out.String())
	}
}
