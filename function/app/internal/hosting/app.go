// Package hosting opens the enabled functions, groups them into hosts, and runs or drains
// them. It has their logs, their health and their signals.
package hosting

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/metrics"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// App holds the enabled functions and their hosts. Functions share a host if
// they keep their leases in the same container and want the same options.
type App struct {
	Settings *settings.Settings
	options  Options
	Log      *zap.Logger
	accounts account.Clients
	groups   []group
	Opened   map[string]trigger.Function // by the name in the handlers' list
	Hosts    []*trigger.Host
	closers  []func() error
	life     *lifeLog
	metrics  *metrics.Metrics

	telemetry TelemetryHooks
	leftover  atomic.Int64 // handler calls that did not return: their ranges are given up, and they still run
}

// group holds the functions of one host.
type group struct {
	leases    *cosmos.Container
	at        settings.Place
	options   trigger.Options
	functions []trigger.Function
}

// Options say how the app is wired. Commands and hosts of production
// set the grace alone; the command dev sets the others to run on an embedded account
// and to observe the same app.
type Options struct {
	Grace     time.Duration           // for a running handler at a stop
	Transport policy.Transporter      // of requests to Cosmos DB; nil is the network
	Wrap      func(*trigger.Function) // changes an opened function; may be nil
	Observe   func(trigger.Event)     // sees the events of all hosts; may be nil
	Telemetry Telemetry               // of the app, or nil

	HandlerLog *zap.Logger // of the handlers; nil is that of the app
}

// Open opens the handlers and makes the hosts; it makes no request. Close the
// app after use.
func Open(ctx context.Context, s *settings.Settings, options Options, log *zap.Logger) (*App, error) {
	a := &App{Settings: s, options: options, Log: log, accounts: account.NewClients(options.Transport), Opened: map[string]trigger.Function{}, life: newLifeLog(log)}
	a.metrics = metrics.New(a.Status)
	a.accounts.ObserveAttempt = a.metrics.CountRequest
	var err error
	if a.telemetry, err = options.Telemetry.start(ctx, a.metrics.Text); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	for _, f := range s.Functions {
		if err := a.open(ctx, f); err != nil {
			return nil, errors.Join(err, a.Close())
		}
	}
	if err := a.MakeHosts(options.Grace); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// open opens one handler and puts its function into its group.
func (a *App) open(ctx context.Context, f settings.Function) error {
	at, err := a.accounts.Open(f)
	if err != nil {
		return err
	}
	fn := f.TriggerFunction(at.Monitored)
	if fn.DeadLetters, err = a.accounts.OpenDeadLetters(f, a.Log); err != nil {
		return err
	}
	env := a.accounts.Env(f, at.Monitored, cmp.Or(a.options.HandlerLog, a.Log))
	env.Follow = func(c handlers.RangeCallbacks) { followRanges(&fn, c) }
	env.Measure = func(u handlers.SinkUse) { a.metrics.ObserveSink(f.Name, u) }
	env.Borrow = func() { fn.ReuseBuffers = true }
	handler, closer, err := f.Open(ctx, env, f.Own)
	if err != nil {
		return fmt.Errorf("%w (HALLEY_FUNCTIONS selects the handlers that run)", err)
	}
	a.closers = append(a.closers, closer)
	fn.Handler = handler
	if env.FromSnapshot && fn.SnapshotRead == nil {
		a.Log.Warn("the handler removes nothing at the end of a snapshot", zap.String("function", f.Name), zap.String("advice", settings.WithoutRemoval))
	}
	if a.telemetry.Wrap != nil {
		fn.Handler = a.telemetry.Wrap(f.Name, handler)
	}
	if a.options.Wrap != nil {
		a.options.Wrap(&fn)
	}
	a.Opened[f.Name] = fn
	a.metrics.AddFunction(f.Name)
	g := a.groupOf(f, at.Leases)
	g.functions = append(g.functions, fn)
	return nil
}

// followRanges sets the callbacks of a function's handler. One that keeps changes in memory
// says itself which of them may be saved as handled.
func followRanges(fn *trigger.Function, c handlers.RangeCallbacks) {
	fn.Opened, fn.Flush, fn.Closed = c.Opened, c.Flush, c.Closed
	fn.SnapshotRead = c.SnapshotRead
	if c.Flush != nil {
		fn.Checkpoint = trigger.Checkpoint{Manual: true}
	}
}

func (a *App) groupOf(f settings.Function, leases *cosmos.Container) *group {
	g := group{leases: leases, at: f.LeasePlace(), options: f.HostOptions(&a.Settings.App)}
	for i, other := range a.groups {
		if other.at == g.at && other.leases.Client() == g.leases.Client() && reflect.DeepEqual(other.options, g.options) {
			return &a.groups[i]
		}
	}
	a.groups = append(a.groups, g)
	return &a.groups[len(a.groups)-1]
}

// MakeHosts replaces the hosts, none of which may be running.
func (a *App) MakeHosts(grace time.Duration) error {
	a.Hosts = nil
	for _, g := range a.groups {
		o := g.options
		o.StopGrace, o.Logger, o.Observers = grace, runtimeLogger(a.Log), []func(trigger.Event){a.observe, a.life.observe, a.metrics.Observe}
		if a.options.Observe != nil {
			o.Observers = append(o.Observers, a.options.Observe)
		}
		host, err := trigger.New(g.leases, g.functions, &o)
		if err != nil {
			return err
		}
		a.Hosts = append(a.Hosts, host)
	}
	return nil
}

// observe counts handler calls that were left behind. Only the end of the process
// ends them.
func (a *App) observe(e trigger.Event) {
	if e.Kind == trigger.EventReleased && e.Reason == trigger.ClosedStuck {
		a.leftover.Add(1)
	}
}

// Leftover counts the handler calls that did not return.
func (a *App) Leftover() int64 { return a.leftover.Load() }

// Transport is that of requests to Cosmos DB; nil is the network.
func (a *App) Transport() policy.Transporter { return a.options.Transport }

// Close closes the resources of the handlers. Call it when the hosts have stopped.
func (a *App) Close() error {
	var errs []error
	for _, closer := range a.closers {
		errs = append(errs, closer())
	}
	sendTelemetry(context.Background(), a.Log, "stop", a.telemetry.Stop)
	a.closers, a.telemetry = nil, TelemetryHooks{}
	return errors.Join(errs...)
}

// retryHost is the wait before a host whose functions all failed is tried again.
const retryHost = 30 * time.Second

// Run runs all hosts until ctx ends and they have stopped. A host whose functions all
// fail is tried again while another host runs; Run returns an error when all fail.
func (a *App) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var failing atomic.Int64
	err := a.each(func(h *trigger.Host) error {
		for {
			err := h.Run(ctx)
			if err == nil || ctx.Err() != nil {
				return err
			}
			if failing.Add(1) == int64(len(a.Hosts)) {
				stop()
				return err
			}
			a.Log.Error("functions cannot continue; trying again later", zap.Error(err), zap.Duration("wait", retryHost))
			if !Pause(ctx, retryHost) {
				return err
			}
			failing.Add(-1)
		}
	})
	return nameConnections(err, a.Settings.Functions, a.accounts)
}

// Pause reports whether d passed before ctx ended.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// Drain drains all hosts. If one fails, the summary still counts the others.
func (a *App) Drain(ctx context.Context) (trigger.Summary, error) {
	var mu sync.Mutex
	var total trigger.Summary
	err := a.each(func(h *trigger.Host) error {
		s, err := h.Drain(ctx)
		mu.Lock()
		defer mu.Unlock()
		total.Add(s)
		return err
	})
	sendTelemetry(ctx, a.Log, "flush", a.telemetry.Flush)
	return total, err
}

func (a *App) each(do func(*trigger.Host) error) error {
	errs := make([]error, len(a.Hosts))
	var running sync.WaitGroup
	for i, h := range a.Hosts {
		running.Go(func() { errs[i] = do(h) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Health describes the state of each function. It returns an error if a function
// makes no progress at all.
func (a *App) Health() (lines []string, err error) {
	var problems []error
	for _, h := range a.Hosts {
		for _, f := range h.Status().Functions {
			if f.Problem != "" {
				problems = append(problems, fmt.Errorf("function %q makes no progress: %s", f.Name, f.Problem))
			}
			lines = append(lines, describe(f))
		}
	}
	return lines, errors.Join(problems...)
}

// describe returns one line about a function on this host.
func describe(f trigger.FunctionStatus) string {
	var b strings.Builder
	changes, behind, seconds := 0, int64(0), 0.0
	for _, r := range f.Ranges {
		changes += r.Changes
		behind += r.Behind
		seconds = max(seconds, r.BehindSeconds)
		if r.Problem != "" {
			fmt.Fprintf(&b, "; range %s: %s", r.Range, r.Problem)
		}
	}
	return fmt.Sprintf("%s: %d ranges here, %d changes since their acquisition, lag %d transactions and %.0f s%s", f.Name, len(f.Ranges), changes, behind, seconds, b.String())
}

// Status describes the hosts of the app: one for all functions that have their leases
// in the same container and the same intervals.
func (a *App) Status() []trigger.Status {
	all := make([]trigger.Status, len(a.Hosts))
	for i, h := range a.Hosts {
		all[i] = h.Status()
	}
	return all
}
