package functionshost

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The test binary, started again by the host under test, is the handler.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE_HANDLER"); mode != "" {
		fakeHandler(mode)
		return
	}
	os.Exit(m.Run())
}

// fakeHandler behaves as the name of the invoked function says.
func fakeHandler(mode string) {
	switch mode {
	case "deaf":
		select {}
	case "fails":
		fmt.Fprintln(os.Stderr, "one\ntwo\nthree\nfour")
		os.Exit(3)
	}
	fmt.Println("serving", strings.Join(os.Args[1:], " "))
	l, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("FUNCTIONS_CUSTOMHANDLER_PORT"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	free := make(chan struct{})
	panic(http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		answer(w, r, body, free)
	})))
}

func answer(w http.ResponseWriter, r *http.Request, body []byte, free chan struct{}) {
	w.Header().Set("Content-Type", "application/json")
	switch name := strings.TrimPrefix(r.URL.Path, "/"); name {
	case "echo":
		inner, _ := json.Marshal(map[string]any{
			"headers": r.Header, "framing": r.TransferEncoding, "length": r.ContentLength,
			"path": r.URL.Path, "method": r.Method, "body": json.RawMessage(body),
			"environment": os.Environ(), "args": os.Args[1:],
		})
		fmt.Fprintf(w, `{"outputs":{"echo":%s},"LOGS":["said"],"returnValue":7}`, inner)
	case "empty":
	case "nothing":
		w.WriteHeader(http.StatusNoContent)
	case "null":
		io.WriteString(w, "null")
	case "untyped":
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "{}")
	case "garbled":
		io.WriteString(w, "{")
	case "refuse":
		w.WriteHeader(http.StatusInternalServerError)
		io.WriteString(w, "no")
	case "hold":
		<-free
		io.WriteString(w, "{}")
	case "free":
		free <- struct{}{}
		io.WriteString(w, "{}")
	case "slow":
		<-r.Context().Done()
		fmt.Println("request cancelled")
	case "exit0":
		os.Exit(0)
	case "exit200":
		os.Exit(200)
	case "crash":
		fmt.Fprintln(os.Stderr, "about to crash")
		os.Exit(2)
	case "babble":
		fmt.Fprint(os.Stderr, "a warning\nplain words\nit failed\nLanguageWorkerConsoleLog internal\nunfinished")
		fmt.Println("error on stdout")
		os.Exit(200)
	default:
		io.WriteString(w, "{}")
	}
}

const timer = `{"bindings":[{"type":"timerTrigger","direction":"in","name":"t","schedule":"*/10 * * * * *"}]}`

// writeApp writes an app directory whose executable is this test binary.
func writeApp(t *testing.T, hostJSON string, functions map[string]string) string {
	t.Helper()
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(root, "handler")); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"host.json": hostJSON}
	for name, text := range functions {
		files[filepath.Join(name, "function.json")] = text
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const plainHost = `{"version":"2.0","functionTimeout":"00:05:00","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`

// fakeFunctions are all functions of the fake handler, each with a timer.
func fakeFunctions() map[string]string {
	functions := make(map[string]string)
	for _, name := range []string{"echo", "empty", "nothing", "null", "untyped", "garbled", "refuse", "hold", "free",
		"slow", "exit0", "exit200", "crash", "babble", "ok"} {
		functions[name] = timer
	}
	return functions
}

// start runs a host on the fake handler until the test ends.
func start(t *testing.T, opts Options) *Host {
	t.Helper()
	return startApp(t, writeApp(t, plainHost, fakeFunctions()), opts)
}

func startApp(t *testing.T, root string, opts Options) *Host {
	t.Helper()
	if opts.Settings == nil {
		opts.Settings = map[string]string{}
	}
	if opts.Settings["FAKE_HANDLER"] == "" {
		opts.Settings["FAKE_HANDLER"] = "serve"
	}
	h, err := Start(root, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// within returns the result of an invocation that has to end soon.
func within(t *testing.T, i *Invocation) Result {
	t.Helper()
	select {
	case <-i.Done():
		return i.Result()
	case <-time.After(10 * time.Second):
		t.Fatalf("invocation of %s did not end", i.Function)
		return Result{}
	}
}

// eventually polls a condition that no channel announces.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for !condition() {
		select {
		case <-deadline:
			t.Fatalf("never came true: %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
