package functions

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger"
	"halley/trigger/emulator"
)

// TestStuckHandlersReplaceTheProcess: when too many handlers ignore the end of
// their context, the custom handler stops serving, so that the process ends
// with the code for a restart that is not counted.
func TestStuckHandlersReplaceTheProcess(t *testing.T) {
	for _, mode := range []string{"timer", "continuous"} {
		t.Run(mode, func(t *testing.T) { stuckUntilReplaced(t, mode) })
	}
}

func stuckUntilReplaced(t *testing.T, mode string) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 16)
	release := make(chan struct{})
	defer close(release)
	a := hosttest.OpenWith(t, account.Env("HALLEY_MODE", mode, "HALLEY_MAX_STUCK", "1",
		"HALLEY_HANDLER_TIMEOUT", "50ms", "HALLEY_STUCK_GRACE", "50ms"), hosting.Options{Grace: time.Second, Wrap: func(fn *trigger.Function) {
		fn.Handler = func(context.Context, trigger.Batch) error { <-release; return nil }
	}})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), apptest.Patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- serveHost(ctx, a, listener, time.Minute, nil) }()
	answers(t, "http://"+listener.Addr().String(), done)
	if err := <-done; !errors.Is(err, errReplace) {
		t.Errorf("error %v, want errReplace", err)
	}
}

// answers invokes the function until the server is gone: every tick that
// begins is answered.
func answers(t *testing.T, url string, done chan error) {
	t.Helper()
	for {
		resp, err := http.Post(url+"/function", "application/json", strings.NewReader(timerBody))
		if err != nil {
			return // nobody listens any more
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || len(body) < 2 {
			t.Errorf("a tick was answered with %q, %v", body, err)
		}
		select {
		case err := <-done:
			done <- err
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestExitCodes(t *testing.T) {
	for want, err := range map[int]error{ExitCode: nil, 1: errors.New("port in use")} {
		if got := exitCode(err, zap.NewNop()); got != want {
			t.Errorf("%v ends with %d, want %d", err, got, want)
		}
	}
	if got := exitCode(errReplace, zap.NewNop()); got != ExitCode {
		t.Errorf("a process to be replaced ends with %d", got)
	}
}
