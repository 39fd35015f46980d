package functions

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"halley/function/app/internal/apptest"
	"halley/function/app/internal/hosting"
	"halley/function/app/internal/hosttest"
	"halley/trigger/emulator"
)

// hosted serves the app of env as the custom handler; stop ends it and gives
// its error.
func hosted(t *testing.T, env map[string]string) (url string, stop func() error, logged *apptest.Lines) {
	t.Helper()
	s, err := hosttest.Load(t, env)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	logged = &apptest.Lines{}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- serveApp(ctx, hosttest.Program(), s, listener, hosting.JSONLogger(logged, s.App.LogLevel))
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + listener.Addr().String(), stop, logged
}

// tick invokes the function as the host does and gives its logs.
func tick(t *testing.T, url string) (status int, logs []string) {
	t.Helper()
	resp, err := http.Post(url+"/function", "application/json; charset=utf-8", strings.NewReader(timerBody))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Outputs map[string]any
		Logs    []string
	}
	if err := json.Unmarshal(data, &body); err != nil || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("answer %s of type %q: %v", data, resp.Header.Get("Content-Type"), err)
	}
	return resp.StatusCode, body.Logs
}

func TestTimerInvocationDrains(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	account.Write(t, 0, 12)
	url, stop, logged := hosted(t, account.Env())
	status, logs := tick(t, url)
	if status != http.StatusOK || !strings.Contains(strings.Join(logs, " "), "12 changes") {
		t.Errorf("tick: %d %q", status, logs)
	}
	if got := account.OnBoard(t); got != 12 {
		t.Errorf("%d players on the board, want 12", got)
	}
	if status, logs := tick(t, url); status != http.StatusOK || !strings.Contains(strings.Join(logs, " "), "2 idle") {
		t.Errorf("idle tick: %d %q", status, logs)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	logged.CheckJSON(t)
}

// TestReadyWithoutAnAccount: readiness must not wait for the account, and a
// tick that cannot reach it fails with JSON.
func TestReadyWithoutAnAccount(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	defer account.Inject(emulator.Fault{Status: 403, Message: "blocked by the firewall"})()
	url, _, _ := hosted(t, account.Env())
	resp, err := http.Get(url)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET /: %v %v", resp, err)
	}
	resp.Body.Close()
	if status, _ := tick(t, url); status != http.StatusInternalServerError {
		t.Errorf("tick without an account: %d, want 500", status)
	}
}

func TestContinuousMode(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	url, stop, _ := hosted(t, account.Env("HALLEY_MODE", "continuous"))
	account.Write(t, 0, 6)
	deadline := time.After(apptest.Patience)
	for account.OnBoard(t) < 6 {
		select {
		case <-deadline:
			t.Fatal("the changes did not arrive without a tick")
		case <-time.After(10 * time.Millisecond):
		}
	}
	status, logs := tick(t, url)
	if status != http.StatusOK || !strings.Contains(strings.Join(logs, " "), "leaderboard") {
		t.Errorf("health tick: %d %q", status, logs)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

func TestContinuousInvocationFailsWithoutProgress(t *testing.T) {
	account := apptest.ServeAccount(t, emulator.ServeOptions{})
	url, _, _ := hosted(t, account.Env("HALLEY_MODE", "continuous", "HALLEY_LEASE_CONTAINER_NAME", "missing"))
	deadline := time.After(apptest.Patience)
	for {
		if status, _ := tick(t, url); status == http.StatusInternalServerError {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the tick never failed although there is no lease container")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestServeEndsWithItsListener(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
	if err := serveHTTP(t.Context(), listener, http.NotFoundHandler()); err == nil {
		t.Error("serving a closed listener is no error")
	}
}

func TestFunctionsHostIsRecognized(t *testing.T) {
	t.Setenv("FUNCTIONS_CUSTOMHANDLER_PORT", "7072")
	if port, hosted := Port(); !hosted || port != "7072" {
		t.Errorf("Port() = %q, %v", port, hosted)
	}
}

func TestListen(t *testing.T) {
	for _, port := range []string{"", "0", "-1", "65536", "http", "80:80"} {
		if l, err := listen(port); err == nil || !strings.Contains(err.Error(), "FUNCTIONS_CUSTOMHANDLER_PORT") {
			t.Errorf("port %q: %v, %v", port, l, err)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, err := listen(port); err == nil {
		t.Error("a port in use was opened")
	}
	l.Close()
	again, err := listen(port)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if !again.Addr().(*net.TCPAddr).IP.IsLoopback() {
		t.Errorf("listens on %v", again.Addr())
	}
}
