package hosting_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/function/app/internal/settings"
	"halley/trigger"
	"halley/trigger/emulator"
)

// get returns the answer of the signals of an app.
func get(t *testing.T, a *hosting.App, path string) (status int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	a.Probes().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// The signals of a run follow its story: not ready before the leases are read, ready
// while it works, not ready while a handler fails, ready again after that.
func TestSignalsFollowTheRun(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	env["HALLEY_STALL_AFTER"], env["HALLEY_FEED_POLL_DELAY"] = "100ms", "100ms"
	apptest.CleanEnv(t, env)
	s, err := settings.Load(hosttest.Program().Source)
	if err != nil {
		t.Fatal(err)
	}
	var broken atomic.Bool
	a, err := hosting.Open(t.Context(), s, hosting.Options{Grace: time.Second, Wrap: func(f *trigger.Function) {
		f.Handler = func(context.Context, trigger.Batch) error {
			if broken.Load() {
				return errors.New("sink is down")
			}
			return nil
		}
	}}, hosting.JSONLogger(io.Discard, "error"))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if status, body := get(t, a, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "leases have not been read yet") {
		t.Errorf("before the start: %d %s", status, body)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	account.Write(t, 0, 20)
	apptest.Until(t, "20 changes", func() bool {
		_, body := get(t, a, "/metrics")
		return strings.Contains(body, `halley_changes_total{function="leaderboard",outcome="delivered"} 20`)
	})
	apptest.Until(t, "ready", func() bool { status, _ := get(t, a, "/readyz"); return status == http.StatusOK })
	broken.Store(true)
	account.Write(t, 20, 4)
	apptest.Until(t, "not ready", func() bool {
		status, body := get(t, a, "/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "sink is down")
	})
	_, body := get(t, a, "/metrics")
	for _, says := range []string{
		`halley_range_stalled_seconds{cause="handler",function="leaderboard",range="`, `halley_waiting_keys{function="leaderboard"`,
		`halley_leases{function="leaderboard",state="held"} 2`, `halley_requests_total{operation="feed",outcome="ok"}`,
		`halley_request_units_total{operation="write"}`, `halley_feed_polls_total{outcome="idle"}`, `halley_lag_transactions{function="leaderboard",range="0"}`,
		`halley_handler_duration_seconds_count{function="leaderboard",outcome="failed"}`, `halley_lease_events_total{event="acquired",function="leaderboard"} 2`,
		`halley_sink_requests_total{function="leaderboard",outcome="throttled",sink="redis"} 0`, `halley_sink_rows_total{function="leaderboard",sink="redis"}`,
		`halley_sink_retries_total{function="leaderboard",sink="redis"} 0`,
		`halley_dead_letters_total{function="leaderboard"} 0`, `halley_read_ahead_bytes`, `halley_checkpoint_age_seconds`,
	} {
		if !strings.Contains(body, says) {
			t.Errorf("/metrics lacks %s", says)
		}
	}
	if status, _ := get(t, a, "/healthz"); status != http.StatusOK {
		t.Errorf("/healthz says %d", status)
	}
	broken.Store(false)
	apptest.Until(t, "ready again", func() bool { status, _ := get(t, a, "/readyz"); return status == http.StatusOK })
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if status, _ := get(t, a, "/other"); status != http.StatusNotFound {
		t.Errorf("/other says %d", status)
	}
}

// A range that failed here and waits for another attempt is as unready as one that is worked on.
func TestRefusedFeedIsNotReady(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	env["HALLEY_STALL_AFTER"] = "1s"
	a := hosttest.Open(t, env)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	apptest.Until(t, "ready", func() bool { status, _ := get(t, a, "/readyz"); return status == http.StatusOK })
	mend := account.Account.Inject(emulator.Fault{Method: http.MethodGet, Path: "/docs$", Header: map[string]string{"A-IM": "."}, Status: http.StatusForbidden})
	defer mend()
	apptest.Until(t, "not ready, with the reason and a metric", func() bool {
		status, body := get(t, a, "/readyz")
		_, metrics := get(t, a, "/metrics")
		return status == http.StatusServiceUnavailable && strings.Contains(body, "feed not readable") && strings.Contains(metrics, `halley_range_stalled_seconds{cause="feed"`)
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A process serves its signals while it runs, and refuses an address that it cannot use.
func TestSignalsAreServedOnTheirAddress(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	env := account.Env()
	env["HALLEY_METRICS_ADDRESS"] = "127.0.0.1:0"
	a := hosttest.Open(t, env)
	var log bytes.Buffer
	a.Log = hosting.JSONLogger(&log, "info")
	err := a.WithProbes(t.Context(), func(context.Context) error {
		var line struct{ Address string }
		if err := json.Unmarshal(log.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
		resp, err := http.Get("http://" + line.Address + "/healthz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("status %s", resp.Status)
		}
		return errors.New("the run ends")
	})
	if err == nil || err.Error() != "the run ends" {
		t.Error(err)
	}
	a.Settings.App.MetricsAddress = "127.0.0.1:99999"
	if err := a.WithProbes(t.Context(), func(context.Context) error { return nil }); err == nil || !strings.Contains(err.Error(), "HALLEY_METRICS_ADDRESS") {
		t.Errorf("an address that cannot be used: %v", err)
	}
}
