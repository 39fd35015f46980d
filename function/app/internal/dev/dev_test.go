package dev

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/trigger"
)

func runDev(t *testing.T, o runFlags) (summary runSummary, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	o.JSON = true
	if err := develop(t.Context(), devApp(), o, &out, &errs); err != nil {
		t.Fatalf("%v\n%s%s", err, out.String(), errs.String())
	}
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil {
		t.Fatalf("stdout is not the summary alone: %v\n%s", err, out.String())
	}
	return summary, out.String(), errs.String()
}

func TestDevLosesNothing(t *testing.T) {
	t.Parallel()
	s, out, progress := runDev(t, runFlags{For: 3 * time.Second, Rate: 200, SplitAfter: time.Second, Hosts: 3})
	if s.Lost != 0 || s.Written == 0 || s.Delivered < s.Written || s.Hosts != 3 || s.FailedWrites != 0 {
		t.Errorf("summary %s", out)
	}
	if s.Splits == 0 || !strings.Contains(progress, "a range was split") || !strings.Contains(progress, "written") {
		t.Errorf("%d splits, progress:\n%s", s.Splits, progress)
	}
	if s.Figures["commands received"] == 0 {
		t.Errorf("figures %v", s.Figures)
	}
	ranges := map[string]int{}
	changes := 0
	for _, r := range s.Ranges {
		ranges[r.Function]++
		changes += r.Changes
		if r.Host == "" || r.Continuation == "" {
			t.Errorf("position %+v says too little", r)
		}
	}
	for _, f := range s.Functions {
		if ranges[f.Name] < 4 {
			t.Errorf("%s: %d ranges, want the four or more", f.Name, ranges[f.Name])
		}
	}
	if changes == 0 || changes > s.Delivered+s.Redelivered {
		t.Errorf("%d changes in the ranges, %d delivered", changes, s.Delivered+s.Redelivered)
	}
}

// TestDevDeadLettersAndReplaysPoison: a poison document blocks no other, is stored,
// and is handled when it is cured.
func TestDevDeadLettersAndReplaysPoison(t *testing.T) {
	t.Parallel()
	s, out, _ := runDev(t, runFlags{For: 2 * time.Second, Rate: 200, Hosts: 2, Poison: 20, SplitAfter: 500 * time.Millisecond})
	if s.Lost != 0 || s.DeadLettered == 0 || s.Replayed != s.DeadLettered || s.DeadLettersLeft != 0 {
		t.Errorf("summary %s", out)
	}
	for _, f := range s.Functions {
		if f.DeadLettered == 0 || f.Delivered < s.Written/2 {
			t.Errorf("%+v, want dead letters and all the rest delivered", f)
		}
	}
}

// openSession opens a run with the environment's settings, and presets that are pairs of names
// and values.
func openSession(t *testing.T, o runFlags, pairs ...string) *session {
	t.Helper()
	world, err := openWorld(t.Context(), devApp(pairs...), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = world.Close() })
	if err := world.load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	s := newSession(o, world, newScreen(&bytes.Buffer{}))
	if err := s.open(t.Context(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestDevReadsSettings: settings override the defaults of a development run, and
// group functions onto hosts as everywhere.
func TestDevReadsSettings(t *testing.T) {
	dead := t.TempDir()
	apptest.CleanEnv(t, map[string]string{
		"HALLEY_OWNER":                         "here",
		"HALLEY_DATABASE_NAME":                 "games",
		"HALLEY_WEEKLY_CONTAINER_NAME":         "scores",
		"HALLEY_WEEKLY_LEASE_CONTAINER_NAME":   "leases2",
		"HALLEY_LEADERBOARD_DEAD_LETTERS":      "directory:" + dead,
		"HALLEY_WEEKLY_DEAD_LETTERS":           "container:dead",
		"HALLEY_RETRY_MAX":                     "5s",
		"HALLEY_WEEKLY_LEASE_ACQUIRE_INTERVAL": "500ms",
	})
	s := openSession(t, runFlags{Rate: 50, Hosts: 2})
	if len(s.hosts) != 2 || len(s.hosts[0].Hosts) != 2 || s.hosts[0].Hosts[0].Owner() != "here-1" || len(s.world.run.Monitored()) != 2 {
		t.Errorf("%d processes, %d containers written", len(s.hosts), len(s.world.run.Monitored()))
	}
	if f := s.hosts[0].Opened["weekly"]; f.RetryMax != 5*time.Second || f.FeedPollDelay != 200*time.Millisecond || f.Container.Database() != "games" || f.Container.Name() != "scores" {
		t.Errorf("weekly reads %s/%s, retries until %v, polls every %v", f.Container.Database(), f.Container.Name(), f.RetryMax, f.FeedPollDelay)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if sum, err := s.run(ctx); err != nil || !sum.handled() || sum.Written == 0 || sum.FailedWrites != 0 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// TestDevWithFilterLosesNothing: documents that a function does not get are not lost.
func TestDevWithFilterLosesNothing(t *testing.T) {
	t.Parallel()
	s := openSession(t, runFlags{Rate: 200, Hosts: 1}, "HALLEY_LEADERBOARD_FILTER", `{"score": [{"numeric": ["<", 20]}]}`)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	sum, err := s.run(ctx)
	if err != nil || !sum.handled() {
		t.Fatalf("%+v, %v", sum, err)
	}
	written := sum.Written
	for _, f := range sum.Functions {
		least, most := written/2, written
		if f.Name == "leaderboard" {
			least, most = 20, 40 // scores count up from 0; some results are written twice
		}
		if f.Lost != 0 || f.Delivered < least || f.Delivered > most {
			t.Errorf("%d written, %+v", written, f)
		}
	}
}

func TestDevRefusesAnotherAccount(t *testing.T) {
	apptest.CleanEnv(t, map[string]string{
		"HALLEY_LEASE_CONNECTION": "CosmosDB",
		"CosmosDB":                "AccountEndpoint=https://games.example:443/;AccountKey=c2VjcmV0;",
	})
	err := develop(t.Context(), devApp(), runFlags{Rate: 1, Hosts: 1}, &bytes.Buffer{}, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "HALLEY_LEASE_CONNECTION=CosmosDB is another account") {
		t.Errorf("error %v", err)
	}
}

// TestDevReplaysDeadLettersOfEarlierRuns: if a run could not replay its dead
// letters, the next one does.
func TestDevReplaysDeadLettersOfEarlierRuns(t *testing.T) {
	t.Parallel()
	s := openSession(t, runFlags{Rate: 10, Hosts: 1}, "HALLEY_FUNCTIONS", "leaderboard")
	of := s.hosts[0].Opened["leaderboard"].DeadLetterSource()
	old := trigger.DeadLetter{Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: "old", Function: of.Function, Account: of.Account, Database: of.Database, Container: of.Container, Key: `["ada"]`, DocumentID: "old", Document: json.RawMessage(apptest.Scored("old", "ada", 1))}
	if err := s.hosts[0].Opened["leaderboard"].DeadLetters.Put(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := s.replay(t.Context()); err != nil {
		t.Fatal(err)
	}
	if sum := s.summary(s.look(t.Context())); sum.Replayed != 1 || sum.DeadLettersLeft != 0 || sum.Lost != 0 {
		t.Errorf("%+v", sum)
	}
}

// TestDevContinuesOnItsDirectory: a second run on the same directory finds the first one's
// leases and loses nothing.
func TestDevContinuesOnItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		s, out, _ := runDev(t, runFlags{For: time.Second, Rate: 50, Hosts: 1, Data: dir})
		if s.Lost != 0 || s.Written == 0 {
			t.Errorf("summary %s", out)
		}
		for _, f := range s.Functions {
			if f.Delivered > s.Written {
				t.Errorf("%s accepted %d of %d: the run before was delivered again", f.Name, f.Delivered, s.Written)
			}
		}
	}
}

func TestDevEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
	defer cancel()
	var out bytes.Buffer
	if err := develop(ctx, devApp("HALLEY_FUNCTIONS", "leaderboard"), runFlags{Rate: 50, Hosts: 2}, &out, &out); err != nil {
		t.Fatal(err)
	}
	for _, says := range []string{"documents written", "leaderboard", "lost"} {
		if !strings.Contains(out.String(), says) {
			t.Errorf("summary lacks %q:\n%s", says, out.String())
		}
	}
	if strings.Contains(out.String(), "weekly") {
		t.Errorf("a function ran that HALLEY_FUNCTIONS does not name:\n%s", out.String())
	}
}

func TestDevRefusesFlags(t *testing.T) {
	good := runFlags{Rate: 1, Hosts: 1}
	if err := good.check(); err != nil {
		t.Fatal(err)
	}
	for flag, change := range map[string]func(*runFlags){
		"--for":         func(o *runFlags) { o.For = -1 },
		"--rate":        func(o *runFlags) { o.Rate = 0 },
		"--rate 200000": func(o *runFlags) { o.Rate = 200_000 },
		"--split-after": func(o *runFlags) { o.For, o.SplitAfter = time.Second, time.Second },
		"--poison":      func(o *runFlags) { o.Poison = -1 },
		"--hosts":       func(o *runFlags) { o.Hosts = 65 },
		"--watch":       func(o *runFlags) { o.Hosts, o.Watch = 2, true },
		"with --watch":  func(o *runFlags) { o.Poison, o.Watch = 5, true },
	} {
		o := good
		change(&o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
	apptest.CleanEnv(t, map[string]string{"HALLEY_FUNCTION": "weekly"})
	if err := develop(t.Context(), devApp(), good, &bytes.Buffer{}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "HALLEY_FUNCTIONS") {
		t.Errorf("an unknown setting: error %v", err)
	}
}

func TestUnhandledChangesAreTheVerdict(t *testing.T) {
	for name, test := range map[string]struct {
		function accepted
		says     string // "": handled
	}{
		"handled": {accepted{Name: "orders", Delivered: 3}, ""},
		"lost":    {accepted{Name: "orders", Lost: 1}, "NOT HANDLED: orders: 1 document lost"},
		"behind":  {accepted{Name: "orders", Behind: 2, Problem: "no score"}, "orders: 2 changes not handled yet, no score"},
		"unknown": {accepted{Name: "orders", Problem: "no leases"}, "orders: no leases"},
	} {
		t.Run(name, func(t *testing.T) {
			s := runSummary{Functions: []accepted{test.function}}
			said := s.verdict()
			if last := said[len(said)-1]; s.handled() != (test.says == "") || !strings.Contains(last, test.says) {
				t.Errorf("handled: %v, verdict %q", s.handled(), last)
			}
		})
	}
}

// TestRunWithoutContainersFails: the hosts try again, and the verdict says why.
func TestRunWithoutContainersFails(t *testing.T) {
	t.Parallel()
	s := openSession(t, runFlags{Rate: 10, Hosts: 1}, "HALLEY_FUNCTIONS", "leaderboard")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f := &s.world.settings.Functions[0]
	f.ContainerName, f.LeaseContainerName = "missing", "missing, too"
	if err := s.open(t.Context(), zap.NewNop()); err != nil {
		t.Fatal(err)
	}
	s.standstill = time.Second
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	sum, err := s.run(ctx)
	if err != nil || sum.handled() || !strings.Contains(strings.Join(sum.verdict(), "\n"), "NotFound") {
		t.Errorf("%v, verdict %q, want the missing container's", err, sum.verdict())
	}
}
