package hosting

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/text"
	"halley/trigger"
	"halley/trigger/stall"
)

// WithProbes calls run and serves signals meanwhile, if the settings have an address.
func (a *App) WithProbes(ctx context.Context, run func(context.Context) error) error {
	address := string(a.Settings.App.MetricsAddress)
	if address == "" {
		return run(ctx)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("HALLEY_METRICS_ADDRESS=%s: %w", address, err)
	}
	a.Log.Info("serving /metrics, /healthz and /readyz", zap.Stringer("address", listener.Addr()))
	server := &http.Server{Handler: a.Probes(), ReadTimeout: RequestTimeout, WriteTimeout: 30 * time.Second, MaxHeaderBytes: 64 << 10}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.Log.Error("signals are not served any more", zap.Error(err))
		}
	})
	err = run(ctx)
	_ = server.Close() // a reader of metrics can wait for nothing
	serving.Wait()
	return err
}

// Probes serves the metrics and the probes of the process. None of them shows a secret
// or a document.
func (a *App) Probes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", a.serveMetrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { Answer(w, http.StatusOK, probeAnswer{OK: true}) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		problems := a.unready(time.Now())
		status := http.StatusOK
		if len(problems) > 0 {
			status = http.StatusServiceUnavailable
		}
		Answer(w, status, probeAnswer{OK: len(problems) == 0, Problems: problems})
	})
	return mux
}

// serveMetrics writes the metrics in Prometheus' text format.
func (a *App) serveMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write(a.metrics.Text()) // a reader that has gone does not want them
}

// probeAnswer is the answer of a probe.
type probeAnswer struct {
	OK       bool     `json:"ok"`
	Problems []string `json:"problems,omitempty"`
}

// unready returns why the process is not ready: a function makes no progress or has not
// seen its leases yet, or a range has been stalled for longer than HALLEY_STALL_AFTER.
// A range that an operator has paused, or that a limit of its function holds back, is as
// it should be.
func (a *App) unready(now time.Time) (problems []string) {
	for _, status := range a.Status() {
		for _, f := range status.Functions {
			switch {
			case f.Problem != "":
				problems = append(problems, fmt.Sprintf("function %s: %s", f.Name, text.OfError(errors.New(f.Problem))))
			case f.Leases == trigger.LeaseCounts{}:
				problems = append(problems, fmt.Sprintf("function %s: the leases have not been read yet", f.Name))
			}
			for _, r := range f.Ranges {
				if s, stalled := a.stalledFor(f.Name, r, now); stalled {
					problems = append(problems, fmt.Sprintf("function %s, range %s: %s", f.Name, r.Range, text.OfError(errors.New(s.Describe(now)))))
				}
			}
		}
	}
	return problems
}

// stalledFor returns the stall that has lasted longer than its function allows.
func (a *App) stalledFor(function string, r trigger.RangeStatus, now time.Time) (stall.Stall, bool) {
	for _, s := range r.Stalls {
		if s.Kind != stall.Paused && !s.Kind.IsLimit() && now.Sub(s.Since) >= a.Opened[function].WithDefaults().StallAfter {
			return s, true
		}
	}
	return stall.Stall{}, false
}
