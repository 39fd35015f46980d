package functionshost

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExitZeroIsNeverRestarted(t *testing.T) {
	h := start(t, Options{})
	if r := within(t, h.FireTimer("exit0", Timer{})); r.Err == nil {
		t.Error("the invocation that ended the process succeeded")
	}
	eventually(t, "the process is gone", func() bool { return h.PID() == 0 })
	for range 2 {
		r := within(t, h.FireTimer("ok", Timer{}))
		if r.Err == nil || !strings.Contains(r.Err.Error(), "refused") {
			t.Errorf("later invocation: %v, want connection refused", r.Err)
		}
	}
	if h.Starts() != 1 || h.Err() != nil {
		t.Errorf("starts %d, host error %v; want 1, none", h.Starts(), h.Err())
	}
}

func TestExit200RestartsWithoutError(t *testing.T) {
	h := start(t, Options{})
	for n := 1; n <= 5; n++ {
		within(t, h.FireTimer("exit200", Timer{}))
		eventually(t, "restart", func() bool { return h.Starts() == n+1 })
	}
	if r := within(t, h.FireTimer("ok", Timer{})); r.Err != nil {
		t.Errorf("after five intentional exits: %v", r.Err)
	}
}

func TestThirdErrorStopsTheHost(t *testing.T) {
	h := start(t, Options{})
	for n := range 3 {
		if h.Err() != nil {
			t.Fatalf("host stopped after %d errors: %v", n, h.Err())
		}
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := within(t, h.FireTimer("crash", Timer{})); r.Err == nil {
			t.Error("an invocation survived its process")
		}
		if n < 2 {
			eventually(t, "restart", func() bool { return h.Starts() == n+2 })
		}
	}
	<-h.Stopped()
	if !errors.Is(h.Err(), errRestartsExceeded) || !strings.Contains(h.Err().Error(), "about to crash") {
		t.Errorf("host error %v, want the exceeded count with the last stderr line", h.Err())
	}
	if r := within(t, h.FireTimer("ok", Timer{})); r.Err == nil {
		t.Error("a stopped host ran an invocation")
	}
}

func TestErrorsOutsideWindowAreNotCounted(t *testing.T) {
	var b bucket
	now := time.Now()
	for i := range 10 {
		if b.add(now.Add(time.Duration(i) * restartRetryWindow)) {
			t.Fatalf("error %d, half an hour after the one before, stopped the host", i+1)
		}
	}
	if b.add(now.Add(9*restartRetryWindow+time.Minute)) || !b.add(now.Add(9*restartRetryWindow+2*time.Minute)) {
		t.Error("the third error within half an hour each did not stop the host")
	}
}

func TestExitMessageHasLastThreeErrorLines(t *testing.T) {
	h := start(t, Options{Settings: map[string]string{"FAKE_HANDLER": "fails"}})
	<-h.Stopped()
	if err := h.Err().Error(); !strings.Contains(err, "exit status 3; two; three; four") {
		t.Errorf("host error %q", err)
	}
	if h.Starts() != 3 {
		t.Errorf("starts %d, want 3", h.Starts())
	}
}

func TestHandlerThatNeverListensStopsTheHost(t *testing.T) {
	h := start(t, Options{Settings: map[string]string{"FAKE_HANDLER": "deaf"}, InitializationTimeout: 50 * time.Millisecond})
	r := within(t, h.FireTimer("ok", Timer{}))
	if r.Err == nil {
		t.Error("an invocation succeeded without a handler")
	}
	<-h.Stopped()
}

func TestExecutableNeedsItsRunBit(t *testing.T) {
	root := writeApp(t, plainHost, fakeFunctions())
	path := filepath.Join(root, "handler")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := startApp(t, root, Options{})
	<-h.Stopped()
	if !errors.Is(h.Err(), os.ErrPermission) {
		t.Errorf("host error %v, want permission denied", h.Err())
	}
}

func TestCrashFailsRunningInvocations(t *testing.T) {
	h := start(t, Options{})
	held := h.FireTimer("hold", Timer{})
	if r := within(t, h.FireTimer("ok", Timer{})); r.Err != nil {
		t.Fatalf("invocations do not run beside each other: %v", r.Err)
	}
	before := h.PID()
	h.Crash()
	if r := within(t, held); r.Err == nil {
		t.Error("an invocation survived its process")
	}
	if r := within(t, h.FireTimer("ok", Timer{})); r.Err != nil {
		t.Errorf("after the restart: %v", r.Err)
	}
	if h.PID() == before || h.PID() == 0 {
		t.Errorf("process %d after %d", h.PID(), before)
	}
}

func TestPortSurvivesRestart(t *testing.T) {
	h := start(t, Options{})
	first := environment(t, within(t, h.FireTimer("echo", Timer{})))
	h.Crash()
	second := environment(t, within(t, h.FireTimer("echo", Timer{})))
	for _, name := range []string{"FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT", "FUNCTIONS_APP_ROOT_PATH"} {
		if first[name] == "" || first[name] != second[name] {
			t.Errorf("%s: %q, then %q", name, first[name], second[name])
		}
	}
	for _, name := range []string{"FUNCTIONS_CUSTOMHANDLER_WORKER_ID", "FUNCTIONS_HTTPWORKER_ID"} {
		if first[name] == "" || first[name] == second[name] {
			t.Errorf("%s: %q, then %q, must be new for each process", name, first[name], second[name])
		}
	}
}

func environment(t *testing.T, r Result) map[string]string {
	t.Helper()
	var echo struct{ Environment []string }
	if err := json.Unmarshal(r.Outputs["echo"], &echo); err != nil {
		t.Fatalf("%v: %v", err, r.Err)
	}
	env := make(map[string]string)
	for _, entry := range echo.Environment {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

func TestTwoHostsOnOneApp(t *testing.T) {
	root := writeApp(t, plainHost, fakeFunctions())
	old := startApp(t, root, Options{})
	held := old.FireTimer("hold", Timer{})
	if err := old.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	young := startApp(t, root, Options{})
	if r := within(t, young.FireTimer("ok", Timer{})); r.Err != nil {
		t.Fatal(r.Err)
	}
	if old.URL() == young.URL() {
		t.Error("two hosts gave their handlers one port")
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); old.Stop() }()
	eventually(t, "old host refuses", func() bool { return errors.Is(within(t, old.FireTimer("ok", Timer{})).Err, ErrStopped) })
	freed := old.invokeAnyway(t, "free") // the host may be gone before this one is answered
	if r := within(t, held); r.Err != nil {
		t.Errorf("the running invocation was not waited for: %v", r.Err)
	}
	<-stopped
	within(t, freed)
}

// invokeAnyway posts to the handler although the host rejects new invocations.
func (h *Host) invokeAnyway(t *testing.T, function string) *Invocation {
	t.Helper()
	i := &Invocation{Function: function, done: make(chan struct{})}
	go func() { defer close(i.done); i.result = h.post(i, []byte("{}")) }()
	return i
}

func TestStopKillsAfterItsGrace(t *testing.T) {
	h := start(t, Options{StopGrace: 30 * time.Millisecond})
	slow := h.FireTimer("slow", Timer{})
	if err := h.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.Stop()
	if r := within(t, slow); r.Err == nil {
		t.Error("an invocation outlived the host")
	}
	if slices.ContainsFunc(h.Lines(), func(l Line) bool { return l.Text == "request cancelled" }) {
		t.Error("the host cancelled a request")
	}
	if h.PID() != 0 {
		t.Error("a process is left")
	}
}

func TestReadyEndsWithItsContext(t *testing.T) {
	h := start(t, Options{Settings: map[string]string{"FAKE_HANDLER": "deaf"}})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := h.Ready(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Ready: %v", err)
	}
}

func TestLevelsOfOutputLines(t *testing.T) {
	errorsOnly := []Line{{Warning, true, "a warning"}, {Error, true, "plain words"}, {Error, true, "it failed"},
		{System, true, "LanguageWorkerConsoleLog internal"}, {Error, true, "unfinished"}, {Information, false, "error on stdout"}}
	mixed := slices.Clone(errorsOnly)
	mixed[1].Level, mixed[4].Level = Information, Information
	for _, test := range []struct {
		host string
		want []Line
	}{
		{plainHost, errorsOnly},
		{strings.Replace(plainHost, `"handler"`, `"handler","useStdErrorStreamForErrorsOnly":false`, 1), mixed},
	} {
		h := startApp(t, writeApp(t, test.host, fakeFunctions()), Options{})
		within(t, h.FireTimer("babble", Timer{}))
		eventually(t, "restart", func() bool { return h.Starts() == 2 })
		for _, want := range test.want {
			if !slices.Contains(h.Lines(), want) {
				t.Errorf("no line %+v in %+v", want, h.Lines())
			}
		}
	}
}

func TestScheduleNeverOverlapsItself(t *testing.T) {
	h := start(t, Options{})
	stop, results := make(chan struct{}), make(chan Result)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.Schedule("ok", time.Millisecond, stop, func(r Result) { results <- r })
	}()
	for range 3 {
		if r := <-results; r.Err != nil {
			t.Error(r.Err)
		}
	}
	close(stop)
	for {
		select {
		case <-results:
		case <-ended:
			return
		}
	}
}
