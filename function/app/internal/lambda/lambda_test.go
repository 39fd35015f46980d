package lambda

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/emulator"
)

func TestLambdaDrainsOnce(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 20)
	f := newLambdaFunction(hosttest.Open(t, account.Env()), zap.NewNop())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	result, err := f.invoke(ctx)
	if err != nil || result.Changes != 20 || result.Behind != 0 || result.Note != "" {
		t.Errorf("first invocation: %+v, %v", result, err)
	}
	if got := account.OnBoard(t); got != 20 {
		t.Errorf("%d players on the board, want 20", got)
	}
	result, err = f.invoke(ctx)
	if err != nil || result.Changes != 0 || result.Idle != 2 {
		t.Errorf("second invocation: %+v, %v; want two idle ranges", result, err)
	}
	data, err := json.Marshal(result)
	if err != nil || !strings.Contains(string(data), `"idle":2`) || strings.Contains(string(data), "note") {
		t.Errorf("answer %s, %v", data, err)
	}
}

// lambdaOf is a Lambda function whose drain is do.
func lambdaOf(do func(context.Context) (trigger.Summary, error)) *lambdaFunction {
	a := &hosting.App{Settings: &settings.Settings{}}
	f := newLambdaFunction(a, zap.NewNop())
	f.drainer.Drain = do
	return f
}

func TestLambdaEndsBeforeItsDeadline(t *testing.T) {
	for _, timeout := range []time.Duration{3 * time.Second, time.Minute, 15 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			f := lambdaOf(func(ctx context.Context) (trigger.Summary, error) {
				<-ctx.Done()
				time.Sleep(hosting.Margin(timeout) / 2) // handlers and releases
				return trigger.Summary{Ranges: 1, Behind: 1, Changes: 5}, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			result, err := f.invoke(ctx)
			if err != nil || result.Behind != 1 || result.Note == "" {
				t.Errorf("%+v, %v", result, err)
			}
			if ctx.Err() != nil {
				t.Errorf("answered after the deadline of %v", timeout)
			}
		})
	}
}

func TestLambdaReportsFailure(t *testing.T) {
	f := lambdaOf(func(context.Context) (trigger.Summary, error) {
		return trigger.Summary{}, errors.New("no such container")
	})
	if _, err := f.invoke(t.Context()); err == nil || !strings.Contains(err.Error(), "no such container") {
		t.Errorf("error %v", err)
	}
}

func TestConcurrentInvocationsDrainOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := lambdaOf(func(context.Context) (trigger.Summary, error) {
			time.Sleep(time.Second)
			return trigger.Summary{Changes: 3}, nil
		})
		first := make(chan lambdaResult, 1)
		go func() {
			r, _ := f.invoke(t.Context())
			first <- r
		}()
		synctest.Wait()
		second, err := f.invoke(t.Context())
		if err != nil || second.Changes != 0 || !strings.Contains(second.Note, "running") {
			t.Errorf("second invocation: %+v, %v", second, err)
		}
		if r := <-first; r.Changes != 3 {
			t.Errorf("first invocation: %+v", r)
		}
	})
}

// TestStopGraceFitsLambdaTimeout: a function with a short timeout must not let a
// handler run on into its end.
func TestStopGraceFitsLambdaTimeout(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	f := newLambdaFunction(hosttest.Open(t, account.Env("HALLEY_STOP_GRACE", "10s")), zap.NewNop())
	before := f.app.Hosts[0]
	if err := f.fit(3 * time.Second); err != nil || f.app.Hosts[0] == before {
		t.Errorf("the hosts were not made anew: %v", err)
	}
	before = f.app.Hosts[0]
	if err := f.fit(15 * time.Minute); err != nil || f.app.Hosts[0] != before {
		t.Errorf("the hosts were made anew without need: %v", err)
	}
}
