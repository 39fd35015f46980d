package runtimeapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// The test binary, started again as the bootstrap, is the function.
func TestMain(m *testing.M) {
	if mode := os.Getenv("FAKE_FUNCTION"); mode != "" {
		bootstrap(mode)
		return
	}
	os.Exit(m.Run())
}

// together lets four concurrent invocations meet in one process.
var together sync.WaitGroup

func bootstrap(mode string) {
	switch mode {
	case "exit":
		fmt.Println("cannot start")
		os.Exit(4)
	case "initerror":
		reportInitError()
		os.Exit(1)
	case "sigterm":
		lambda.StartWithOptions(serve, lambda.WithEnableSIGTERM(func() { fmt.Println("told to stop") }))
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		lambda.StartWithOptions(serve, lambda.WithEnableSIGTERM())
	case "four":
		together.Add(4)
	}
	lambda.Start(serve)
}

func reportInitError() {
	url := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/init/error"
	resp, err := http.Post(url, "application/json", strings.NewReader(`{"errorType":"Settings","errorMessage":"no connection"}`))
	if err != nil || resp.StatusCode != http.StatusAccepted {
		panic(fmt.Sprint(resp, err))
	}
}

type command struct{ Do string }

func serve(ctx context.Context, c command) (any, error) {
	lc, _ := lambdacontext.FromContext(ctx)
	switch c.Do {
	case "fail":
		return nil, errors.New("as told")
	case "panic":
		panic("as told")
	case "exit":
		os.Exit(7)
	case "slow":
		<-ctx.Done()
		<-context.Background().Done()
	case "stream":
		return io.MultiReader(strings.NewReader("half"), failingReader{}), nil
	case "big":
		return strings.Repeat("x", 2000), nil
	case "meet":
		together.Done()
		together.Wait()
	}
	deadline, _ := ctx.Deadline()
	return map[string]any{
		"id": lc.AwsRequestID, "arn": lc.InvokedFunctionArn, "tenant": lc.TenantID,
		"client": lc.ClientContext.Client.AppTitle, "identity": lc.Identity.CognitoIdentityID,
		"left": time.Until(deadline).Milliseconds(), "trace": ctx.Value("x-amzn-trace-id"),
		"name": lambdacontext.FunctionName, "memory": lambdacontext.MemoryLimitInMB, "pid": os.Getpid(),
	}, nil
}

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errors.New("torn") }

func start(t *testing.T, mode string, opts Options) *Function {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts.Environment = map[string]string{"FAKE_FUNCTION": mode}
	f, err := New(self, &opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

func do(t *testing.T, f *Function, what string) Result {
	t.Helper()
	return f.Invoke(t.Context(), Event{Payload: []byte(`{"do":"` + what + `"}`)})
}

func TestInvokePassesEventAndContext(t *testing.T) {
	f := start(t, "serve", Options{Timeout: 10 * time.Second})
	r := f.Invoke(t.Context(), Event{
		Payload:         []byte(`{}`),
		ClientContext:   `{"client":{"app_title":"board"}}`,
		CognitoIdentity: `{"cognitoIdentityId":"someone"}`,
		TenantID:        "blue",
		TraceID:         "Root=1-2-3",
	})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var got struct {
		ID, ARN, Tenant, Client, Identity, Trace, Name string
		Left, Memory, PID                              int
	}
	if err := json.Unmarshal(r.Payload, &got); err != nil {
		t.Fatal(err)
	}
	if got.ID == "" || !strings.HasSuffix(got.ARN, ":function:halley") || got.Tenant != "blue" || got.Client != "board" ||
		got.Identity != "someone" || got.Trace != "Root=1-2-3" || got.Name != "halley" || got.Memory != 128 {
		t.Errorf("the function saw %+v", got)
	}
	if got.Left < 9000 || got.Left > 10000 || r.Remaining <= 0 || r.Remaining > 10*time.Second {
		t.Errorf("time left %d ms in the function, %v at the answer; timeout is 10 s", got.Left, r.Remaining)
	}
	if second := do(t, f, ""); second.Err != nil || f.Starts() != 1 {
		t.Errorf("a warm invocation: %v with %d starts", second.Err, f.Starts())
	}
}

func TestFunctionErrorsAreReported(t *testing.T) {
	f := start(t, "serve", Options{MaxResponse: 1000})
	for _, test := range []struct {
		do, kind, message string
		stack             bool
	}{
		{"fail", "errorString", "as told", false},
		{"stream", "errorString", "torn", false},
		{"big", "Function.ResponseSizeTooLarge", "1000 bytes", false},
		{"panic", "string", "as told", true},
		{"exit", "Runtime.ExitError", "exit status 7", false},
	} {
		r := do(t, f, test.do)
		var e *FunctionError
		if !errors.As(r.Err, &e) || e.Type != test.kind || !strings.Contains(e.Message, test.message) || (len(e.StackTrace) > 0) != test.stack {
			t.Errorf("%s: %#v, want %s: %s", test.do, r.Err, test.kind, test.message)
		}
		if again := retried(t, f); again.Err != nil {
			t.Errorf("after %s: %v", test.do, again.Err)
		}
	}
}

// retried invokes until the process that exits after a panic or a refused
// answer is gone; what meets it on its way out fails with it.
func retried(t *testing.T, f *Function) Result {
	t.Helper()
	r := do(t, f, "")
	for e := (*FunctionError)(nil); errors.As(r.Err, &e) && e.Type == "Runtime.ExitError"; {
		r = do(t, f, "")
	}
	return r
}

func TestDeadlineKills(t *testing.T) {
	f := start(t, "serve", Options{Timeout: 300 * time.Millisecond})
	if r := do(t, f, ""); r.Err != nil {
		t.Fatal(r.Err)
	}
	r := do(t, f, "slow")
	var timeout *TimeoutError
	if !errors.As(r.Err, &timeout) {
		t.Errorf("slow: %v, want a timeout", r.Err)
	}
	if r := do(t, f, ""); r.Err != nil || f.Starts() != 2 {
		t.Errorf("after the timeout: %v with %d starts, want a second process", r.Err, f.Starts())
	}
}

func TestProcessThatCannotStart(t *testing.T) {
	f := start(t, "exit", Options{})
	if r := do(t, f, ""); r.Err == nil || !strings.Contains(r.Err.Error(), "exit status 4") {
		t.Errorf("%v, want the exit status", r.Err)
	}
	if !strings.Contains(f.Output(), "cannot start") {
		t.Errorf("output %q", f.Output())
	}
	if f := start(t, "initerror", Options{}); true {
		if r := do(t, f, ""); r.Err == nil || r.Err.Error() != "Settings: no connection" {
			t.Errorf("%v, want the reported init error", r.Err)
		}
	}
}

func TestInvocationsRunConcurrently(t *testing.T) {
	f := start(t, "four", Options{Concurrency: 4})
	results := make(chan Result, 4)
	for range 4 {
		go func() { results <- do(t, f, "meet") }()
	}
	ids := make(map[string]bool)
	for range 4 {
		r := <-results
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		var got struct{ ID string }
		if err := json.Unmarshal(r.Payload, &got); err != nil {
			t.Fatal(err)
		}
		ids[got.ID] = true
	}
	if len(ids) != 4 || f.Starts() != 1 {
		t.Errorf("%d distinct ids in %d processes, want 4 in 1", len(ids), f.Starts())
	}
}

func TestShutdownSendsSIGTERMToExtensions(t *testing.T) {
	for _, test := range []struct {
		mode string
		told bool
	}{{"sigterm", true}, {"deaf", false}, {"serve", false}} {
		f := start(t, test.mode, Options{})
		if r := do(t, f, ""); r.Err != nil {
			t.Fatal(r.Err)
		}
		f.Close()
		if told := strings.Contains(f.Output(), "told to stop"); told != test.told {
			t.Errorf("%s: told to stop %v, want %v", test.mode, told, test.told)
		}
		if r := do(t, f, ""); !errors.Is(r.Err, ErrClosed) {
			t.Errorf("%s: invoked after Close: %v", test.mode, r.Err)
		}
	}
}
