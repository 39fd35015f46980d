package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// untilCtx drains until its context ends and then takes stop to release.
func untilCtx(stop time.Duration) func(context.Context) (trigger.Summary, error) {
	return func(ctx context.Context) (trigger.Summary, error) {
		<-ctx.Done()
		time.Sleep(stop)
		return trigger.Summary{Ranges: 4, Behind: 1, Changes: 9}, nil
	}
}

func TestInvocationIsAnsweredBeforeTheLimit(t *testing.T) {
	for _, limit := range []time.Duration{10 * time.Second, 5 * time.Minute, 30 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d := &timer{Drainer: hosting.Drainer{Drain: untilCtx(hosting.Margin(limit) / 2)}, limit: limit}
			began := time.Now()
			logs, err := d.tick(t.Context(), invocation{}, zap.NewNop())
			if err != nil {
				t.Errorf("time that is up fails the tick: %v", err)
			}
			if all := strings.Join(logs, "\n"); !strings.Contains(all, "1 behind") || !strings.Contains(all, "next one") {
				t.Errorf("logs %q tell neither the summary nor that time was up", logs)
			}
			if took := time.Since(began); took >= limit || took < limit/2 {
				t.Errorf("answered after %v of %v", took, limit)
			}
			d.Wait()
		})
	}
}

// TestStuckDrainIsAnsweredBeforeTheLimit: a handler that ignores its context must not
// make the host kill the process.
func TestStuckDrainIsAnsweredBeforeTheLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 5 * time.Minute
		d := &timer{Drainer: hosting.Drainer{Drain: untilCtx(time.Hour)}, limit: limit}
		began := time.Now()
		if _, err := d.tick(t.Context(), invocation{}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), "ignores the end of its context") {
			t.Errorf("error %v, want one about a handler that ignores the end of its context", err)
		}
		if took := time.Since(began); took >= limit {
			t.Errorf("answered after %v of %v", took, limit)
		}
		logs, err := d.tick(t.Context(), invocation{}, zap.NewNop())
		if err != nil || !strings.Contains(strings.Join(logs, " "), "running since") {
			t.Errorf("next tick: %q %v, want success that names the running drain", logs, err)
		}
		d.Wait()
	})
}

func TestOverlappingInvocationsDrainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drains := 0
		d := &timer{limit: time.Minute, Drainer: hosting.Drainer{Drain: func(context.Context) (trigger.Summary, error) {
			drains++
			time.Sleep(20 * time.Second)
			return trigger.Summary{}, nil
		}}}

		first := make(chan error, 1)
		go func() {
			_, err := d.tick(t.Context(), invocation{}, zap.NewNop())
			first <- err
		}()
		synctest.Wait()
		began := time.Now()
		logs, err := d.tick(t.Context(), invocation{}, zap.NewNop())
		if err != nil || time.Since(began) != 0 || !strings.Contains(strings.Join(logs, ""), "running since") {
			t.Errorf("second tick: %q, %v after %v; want success at once", logs, err, time.Since(began))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if _, err := d.tick(t.Context(), invocation{}, zap.NewNop()); err != nil {
			t.Error(err)
		}
		if drains != 2 {
			t.Errorf("%d drains, want the first and the third tick's", drains)
		}
		d.Wait()
	})
}

func TestDrainFailures(t *testing.T) {
	for name, test := range map[string]struct {
		drain func(context.Context) (trigger.Summary, error)
		says  string
	}{
		"error": {func(context.Context) (trigger.Summary, error) {
			return trigger.Summary{}, errors.New("read leases: 403")
		}, "403"},
		"panic": {func(context.Context) (trigger.Summary, error) { panic("boom") }, "boom"},
		"error at the deadline": {func(ctx context.Context) (trigger.Summary, error) {
			<-ctx.Done()
			return trigger.Summary{}, errors.New("release lease: 412")
		}, "412"},
		"handlers refuse all": {func(ctx context.Context) (trigger.Summary, error) {
			<-ctx.Done()
			return trigger.Summary{Ranges: 1, Behind: 1, Retries: 7}, nil
		}, "7 retries"},
		"a range fails": {func(context.Context) (trigger.Summary, error) {
			return trigger.Summary{Ranges: 2, Drained: 1, Behind: 1, Changes: 3}, nil
		}, "1 behind"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := &timer{Drainer: hosting.Drainer{Drain: test.drain}, limit: time.Minute}
				if _, err := d.tick(t.Context(), invocation{}, zap.NewNop()); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("error %v, want %q", err, test.says)
				}
				d.Wait()
				if strings.Contains(d.Run(t.Context(), time.Minute).Note(), "another drain") {
					t.Error("the failed drain still counts as running")
				}
			})
		})
	}
}

// slowFunction is a host in the test's bubble whose handler takes its time for
// each of n documents.
func slowFunction(t *testing.T, n int, takes time.Duration) *trigger.Host {
	t.Helper()
	account, err := emulator.New(&emulator.Options{Latency: 3 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { account.Close() })
	client := apptest.NewClient(t, account)
	created := &apptest.Account{Account: account, Client: client}
	created.Create(t, apptest.Results, "/player", 1)
	created.Create(t, apptest.Leases, "/id", 1)
	results := client.Container(apptest.Database, apptest.Results)
	for i := range n {
		if _, err := results.Upsert(t.Context(), cosmos.NewPartitionKey("ada"), []byte(apptest.Scored(strconv.Itoa(i), "ada", 1))); err != nil {
			t.Fatal(err)
		}
	}
	host, err := trigger.New(client.Container(apptest.Database, apptest.Leases), []trigger.Function{{
		FeedSource: trigger.FeedSource{Name: "slow", Container: results, StartFrom: trigger.FromBeginning()}, BatchPolicy: trigger.BatchPolicy{MaxItemsPerInvocation: 1, PageItems: 1},
		Handler: func(context.Context, trigger.Batch) error { time.Sleep(takes); return nil },
	}}, &trigger.Options{StopGrace: hosting.Margin(5*time.Minute) / 3})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// TestNextDrainContinuesAfterTimeIsUp: a drain of the runtime that is cut by the time limit
// is a success, and the next one continues at the checkpoint.
func TestNextDrainContinuesAfterTimeIsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const documents, takes, limit = 40, 9 * time.Second, 5 * time.Minute
		d := &timer{Drainer: hosting.Drainer{Drain: slowFunction(t, documents, takes).Drain}, limit: limit}
		began := time.Now()
		first := d.Run(t.Context(), limit)
		if err := first.Failure(); err != nil || first.Note() == "" || first.Summary.Behind != 1 {
			t.Errorf("first: %+v, %q, %v", first.Summary, first.Note(), err)
		}
		if took := time.Since(began); took >= limit || took < limit-2*hosting.Margin(limit) {
			t.Errorf("answered after %v of %v", took, limit)
		}
		second := d.Run(t.Context(), limit)
		if err := second.Failure(); err != nil || second.Note() != "" || second.Summary.Behind != 0 {
			t.Errorf("second: %+v, %q, %v", second.Summary, second.Note(), err)
		}
		if got := first.Summary.Changes + second.Summary.Changes; got != documents {
			t.Errorf("%d changes in both, want %d and none twice", got, documents)
		}
		d.Wait()
	})
}

// TestStoppedDrainIsNotAFailure: a signal stops the drain in good order.
func TestStoppedDrainIsNotAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &timer{Drainer: hosting.Drainer{Drain: slowFunction(t, 40, 9*time.Second).Drain}, limit: 5 * time.Minute}
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(30*time.Second, stop)
		r := d.Run(ctx, d.limit)
		if err := r.Failure(); err != nil || !strings.Contains(r.Note(), "stopped") || r.Summary.Changes == 0 {
			t.Errorf("%+v, %q, %v", r.Summary, r.Note(), err)
		}
		d.Wait()
	})
}

// A timer invocation answers with the lag, and logs the metrics in one line.
func TestTickTellsLagAndMetrics(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 8)
	a := hosttest.Open(t, account.Env())
	var log bytes.Buffer
	d := &timer{Drainer: hosting.Drainer{Drain: a.Drain}, limit: time.Minute, logMetrics: a.LogMetrics}
	answer, err := d.tick(t.Context(), invocation{}, hosting.JSONLogger(&log, "info"))
	if err != nil || len(answer) != 2 || answer[1] != "lag: 0 transactions, 0 s" {
		t.Errorf("answer %q, %v", answer, err)
	}
	for line := range strings.Lines(log.String()) {
		var entry struct {
			Message string
			Metrics map[string]float64
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Message != "metrics" {
			continue
		}
		if entry.Metrics[`halley_changes_total{function="leaderboard",outcome="delivered"}`] != 8 || entry.Metrics["halley_lag_seconds"] != 0 {
			t.Errorf("metrics %v", entry.Metrics)
		}
		return
	}
	t.Errorf("no line with metrics:\n%s", log.String())
}
