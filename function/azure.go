package main

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

	"halley/handlers"
)

// exitHosted ends a process that the Functions host started. The host never
// restarts a handler that exits with 0 and gives up after three exits with
// other codes; 200 asks for a restart that is not counted
// (azure-functions-host, HttpWorkerProcess).
const exitHosted = 200

// functionName is the directory of function.json, whose timer is the tick.
const functionName = "function"

// functionsPort is where the Functions host expects its custom handler.
func functionsPort() (port string, hosted bool) {
	return os.LookupEnv("FUNCTIONS_CUSTOMHANDLER_PORT")
}

// serveFunctions is the custom handler: it serves the Functions host until a
// signal. Settings that are refused end it with 1 and the reason in the log.
func serveFunctions(ctx context.Context, port string) int {
	log := newLogger("info")
	listener, err := listen(port)
	if err != nil {
		log.Error("the Functions host cannot be served", zap.Error(err))
		return 1
	}
	defer listener.Close()
	s, err := loadSettings(handlers.All())
	if err == nil {
		err = s.durable("the Functions host")
	}
	if err != nil {
		log.Error("settings are refused", zap.Error(err))
		return 1
	}
	s.warnOfDisks("the Functions host", log)
	return exitCode(serveApp(ctx, s, listener, newLogger(s.App.LogLevel)), log)
}

// exitCode ends a process that served the Functions host.
func exitCode(err error, log *zap.Logger) int {
	if err != nil && !errors.Is(err, errReplace) {
		log.Error("the custom handler ended", zap.Error(err))
		return 1
	}
	return exitHosted
}

// errReplace ends a process that holds handler calls which never return, so
// that the host starts another.
var errReplace = errors.New("the process holds handler calls that do not return")

// listen opens the port of the Functions host, which dials 127.0.0.1 only.
func listen(port string) (net.Listener, error) {
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("FUNCTIONS_CUSTOMHANDLER_PORT=%q is not a port: the Functions host sets it, unset it elsewhere", port)
	}
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
}

// serveApp opens the app, which makes no request yet, and answers the host
// until ctx ends and everything has stopped. errReplace is its error where
// another process is needed; then what the handlers opened stays open for those
// that still run.
func serveApp(ctx context.Context, s *settings, listener net.Listener, log *zap.Logger) error {
	limit, source, err := functionTimeout()
	if err != nil {
		log.Warn("functionTimeout is not known", zap.Error(err), zap.Duration("assumed", limit))
	}
	a, err := openApp(ctx, s, appOptions{grace: min(time.Duration(s.App.StopGrace), margin(limit)/3)}, log)
	if err != nil {
		return err
	}
	log.Info("custom handler", zap.Stringer("address", listener.Addr()), zap.String("mode", string(s.App.Mode)),
		zap.Duration("function_timeout", limit), zap.String("function_timeout_source", source), zap.String("version", version()))
	err = a.serve(ctx, listener, limit)
	if !errors.Is(err, errReplace) {
		err = errors.Join(err, a.Close())
	}
	return err
}

// serve answers the host until ctx ends, or until another process is needed:
// errReplace. All that it started has stopped, unless its error is another.
func (a *application) serve(ctx context.Context, listener net.Listener, limit time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	call, wait := a.ticks(ctx, limit, func() { stop(errReplace) })
	err := serveHTTP(ctx, listener, &customHandler{functions: map[string]function{functionName: call}, log: a.log})
	if err != nil {
		return err // to wait could be in vain: a request was not answered in time
	}
	wait()
	if errors.Is(context.Cause(ctx), errReplace) {
		return errReplace
	}
	return nil
}

// ticks gives what answers a tick in the app's mode. What runs besides ends with
// ctx; wait returns when it has. replace is called when it asks for another process.
func (a *application) ticks(ctx context.Context, limit time.Duration, replace func()) (call function, wait func()) {
	if a.settings.App.Mode == modeTimer {
		d := &drainer{limit: limit, drain: a.Drain}
		return a.replacing(d.tick, replace), d.wait
	}
	leftover := func() bool { return a.leftover.Load() > 0 }
	c := &continuous{run: a.Run, health: a.health, log: a.log, leftover: leftover, replace: replace}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.Run(ctx)
	}()
	return c.tick, func() { <-done }
}

// replacing is call, which drains, and asks for another process when drains have
// left more handler calls behind than a process should hold.
func (a *application) replacing(call function, replace func()) function {
	return func(ctx context.Context, in invocation, log *zap.Logger) ([]string, error) {
		defer func() {
			if n := a.leftover.Load(); n > int64(a.settings.App.MaxStuck) {
				log.Error("too many handler calls do not return; the process is replaced", zap.Int64("stuck", n))
				replace()
			}
		}()
		return call(ctx, in, log)
	}
}

// serveHTTP serves until ctx ends and every request is answered. Requests get
// ctx, so that its end stops their work in good order. There is no write
// timeout, which would cut a long tick, and idle connections outlive the
// host's, which would else be closed under a request.
func serveHTTP(ctx context.Context, listener net.Listener, h http.Handler) error {
	server := &http.Server{
		Handler:        h,
		ReadTimeout:    requestTimeout,
		IdleTimeout:    5 * time.Minute,
		MaxHeaderBytes: 64 << 10,
		BaseContext:    func(net.Listener) context.Context { return ctx },
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
