// Package functions is the contract with the Azure Functions host: its requests, timer,
// queue, page and time limits, and the files of an app that it runs.
package functions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/operatorpage"
	"halley/function/app/internal/settings"
)

// ExitCode is the exit code of a process that the Functions host started. If a
// handler exits with 0 the host never restarts it, and after three exits with
// other codes the host gives up; 200 requests a restart that is not counted
// (azure-functions-host, HttpWorkerProcess).
const ExitCode = 200

// functionName is the directory of function.json, whose timer is the tick.
const functionName = "function"

// Port returns the port on which the Functions host expects its custom
// handler, and whether that host started this process.
func Port() (port string, hosted bool) {
	return os.LookupEnv("FUNCTIONS_CUSTOMHANDLER_PORT")
}

// Serve is the custom handler: it serves the Functions host until a
// signal. If settings are refused, it logs the reason and returns 1.
func Serve(ctx context.Context, p *hosting.Program, port string) int {
	log := hosting.NewLogger("info")
	listener, err := listen(port)
	if err != nil {
		log.Error("could not serve the Functions host", zap.Error(err))
		return 1
	}
	defer listener.Close()
	s, err := settings.Load(p.Source)
	if err == nil {
		err = errors.Join(s.Durable("the Functions host"), packagedForFanout(s, appRoot()))
	}
	if err != nil {
		log.Error("settings refused", zap.Error(err))
		return 1
	}
	s.WarnOfDisks("the Functions host", log)
	return exitCode(serveApp(ctx, p, s, listener, hosting.NewLogger(s.App.LogLevel)), log)
}

// exitCode returns the exit code of a process that served the Functions host.
func exitCode(err error, log *zap.Logger) int {
	if err != nil && !errors.Is(err, errReplace) {
		log.Error("custom handler failed", zap.Error(err))
		return 1
	}
	return ExitCode
}

// errReplace ends a process that holds handler calls which never return. The host
// then starts another.
var errReplace = errors.New("the process holds handler calls that do not return, or a credential that is refused")

// listen opens the port of the Functions host, which dials 127.0.0.1 only.
func listen(port string) (net.Listener, error) {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("FUNCTIONS_CUSTOMHANDLER_PORT=%q is not a port: the Functions host sets it, unset it elsewhere", port)
	}
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
}

// serveApp opens the app, which makes no request yet, and answers the host until
// ctx ends and everything has stopped. It returns errReplace if another process is
// needed. The resources of the handlers then stay open for calls that still run.
func serveApp(ctx context.Context, p *hosting.Program, s *settings.Settings, listener net.Listener, log *zap.Logger) error {
	limit, source, err := functionTimeout()
	if err != nil {
		log.Warn("could not read functionTimeout", zap.Error(err), zap.Duration("assumed", limit))
	}
	options := hosting.Options{Grace: min(time.Duration(s.App.StopGrace), hosting.Margin(limit)/3), Telemetry: p.Telemetry}
	shown := operatorpage.New(s)
	if s.App.PageToken != "" {
		shown.Observe(&options)
	}
	a, err := hosting.Open(ctx, s, options, log)
	if err != nil {
		return err
	}
	status, err := shown.OpenWrapped(p.Name, a)
	if err != nil {
		return errors.Join(err, a.Close())
	}
	defer status.Close()
	log.Info("custom handler started", zap.Stringer("address", listener.Addr()), zap.String("mode", string(s.App.Mode)),
		zap.Duration("function_timeout", limit), zap.String("function_timeout_source", source), zap.String("version", p.Version))
	err = serveHost(ctx, a, listener, limit, map[string]webFunction{pageFunction: pageAnswers(status)})
	if !errors.Is(err, errReplace) {
		err = errors.Join(err, a.Close())
	}
	return err
}

// serveHost answers the host until ctx ends, or until another process is needed, when
// it returns errReplace. If it returns another error, goroutines that it started
// may still run.
func serveHost(ctx context.Context, a *hosting.App, listener net.Listener, limit time.Duration, web map[string]webFunction) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	functions, wait := functionsOf(ctx, a, limit, func() { stop(errReplace) })
	err := serveHTTP(ctx, listener, &customHandler{functions: functions, web: web, log: a.Log})
	if err != nil {
		return err // waiting could take for ever: a request was not answered in time
	}
	wait()
	if errors.Is(context.Cause(ctx), errReplace) {
		return errReplace
	}
	return nil
}

// functionsOf returns the functions that answer the timer and the queue in the app's mode.
// Work in the background ends with ctx, and wait returns when it has ended. replace is
// called if the app needs another process.
func functionsOf(ctx context.Context, a *hosting.App, limit time.Duration, replace func()) (functions map[string]function, wait func()) {
	switch a.Settings.App.Mode {
	case settings.ModeFanout:
		f := &fanout{limit: limit, dispatch: a.Dispatch, drain: a.DrainRange, logMetrics: a.LogMetrics}
		return map[string]function{functionName: f.tick, drainFunction: replacing(a, f.process, replace)}, f.running.Wait
	case settings.ModeTimer:
		d := &timer{Drainer: hosting.Drainer{Drain: a.Drain}, limit: limit, logMetrics: a.LogMetrics}
		return withLeftovers(replacing(a, withoutOutputs(d.tick), replace)), d.Wait
	}
	leftover := func() bool { return a.Leftover() > 0 }
	run := func(ctx context.Context) error {
		return a.WithProbes(ctx, func(ctx context.Context) error { return a.RunTelling(ctx, hosting.ProgressEvery) })
	}
	c := &continuous{run: run, health: a.Health, logMetrics: a.LogMetrics, log: a.Log, leftover: leftover, replace: replace}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	return withLeftovers(withoutOutputs(c.tick)), func() { <-done }
}

// withLeftovers adds the answer to messages that an earlier mode fanout has left.
func withLeftovers(tick function) map[string]function {
	return map[string]function{functionName: tick, drainFunction: withoutOutputs(leftoverMessage)}
}

// replacing wraps call, which drains. If drains have left more than MaxStuck handler
// calls behind, it calls replace.
func replacing(a *hosting.App, call function, replace func()) function {
	return func(ctx context.Context, in invocation, log *zap.Logger) (invocationResult, error) {
		defer func() {
			if n := a.Leftover(); n > int64(a.Settings.App.MaxStuck) {
				log.Error("too many handler calls do not return; replacing the process", zap.Int64("stuck", n))
				replace()
			}
		}()
		return call(ctx, in, log)
	}
}

// serveHTTP serves until ctx ends and every request is answered. Requests get ctx,
// so that their work stops in good order when it ends. A write timeout would cut a
// long drain, so there is none. Idle connections live longer than on the host's
// side: if this side closed one first, a request could fail on it.
func serveHTTP(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:        h,
		ReadTimeout:    hosting.RequestTimeout,
		IdleTimeout:    5 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		// Without it, net/http answers OPTIONS * itself: 200 with an empty body.
		DisableGeneralOptionsHandler: true,
		BaseContext:                  func(net.Listener) context.Context { return ctx },
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve the Functions host: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := server.Shutdown(last)
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
