// Package runtimeapi runs a Lambda function from its bootstrap executable. It
// serves the Runtime API, and the part of the Extensions API that aws-lambda-go
// uses, on loopback, starts the process with Lambda's environment and passes it
// invocations. If an invocation exceeds its deadline, the process is killed.
// Status codes, headers and trailers are those of the public Runtime API
// 2018-06-01 on which aws-lambda-go v1.55.1 depends.
package runtimeapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const functionName = "halley"

// Options change a function. If a field is zero, Lambda's default holds.
type Options struct {
	Args        []string          // after the executable's name
	Environment map[string]string // the function's own variables
	Timeout     time.Duration     // of one invocation; 0: 3 s
	Concurrency int               // AWS_LAMBDA_MAX_CONCURRENCY; 0: one invocation at a time
	MaxResponse int64             // bytes; 0: 6 MB
}

// Event is one invocation's input. The payload must be JSON.
type Event struct {
	Payload         []byte
	ClientContext   string // JSON
	CognitoIdentity string // JSON
	TenantID        string
	TraceID         string // if empty, a new root is generated
}

func (e Event) traceID() string {
	if e.TraceID != "" {
		return e.TraceID
	}
	return "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0"
}

// Result is the outcome of an invocation.
type Result struct {
	Payload   []byte
	Err       error         // a *FunctionError, a *TimeoutError, or the end of the process
	Remaining time.Duration // time to the deadline when the answer came
}

// FunctionError is an error that the function reported.
type FunctionError struct {
	Message    string       `json:"errorMessage"`
	Type       string       `json:"errorType"`
	StackTrace []StackFrame `json:"stackTrace"`
}

// StackFrame is one line of a reported stack.
type StackFrame struct {
	Path  string `json:"path"`
	Line  int    `json:"line"`
	Label string `json:"label"`
}

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// TimeoutError is the failure of an invocation when its deadline has passed; its
// process was killed.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("task timed out after %v", e.After) }

// ErrClosed is the failure of invocations when the function is closed.
var ErrClosed = errors.New("function closed")

// Function is one execution environment. Its process starts with the first
// invocation, and again with the next one after its end.
type Function struct {
	path     string
	opts     Options
	api      *api
	address  string
	server   *http.Server
	serving  chan struct{}
	mu       sync.Mutex
	sandbox  *sandbox // nil before the first invocation
	closed   bool
	starts   int
	finished bytes.Buffer // the output of processes that have ended
}

// New serves the Runtime API for the executable at path. The caller must Close
// it.
func New(path string, opts *Options) (*Function, error) {
	f := &Function{path: path, serving: make(chan struct{})}
	if opts != nil {
		f.opts = *opts
	}
	if f.opts.Timeout == 0 {
		f.opts.Timeout = 3 * time.Second
	}
	if f.opts.Concurrency == 0 {
		f.opts.Concurrency = 1
	}
	if f.opts.MaxResponse == 0 {
		f.opts.MaxResponse = 6 << 20
	}
	f.api = &api{
		arn:         "arn:aws:lambda:eu-west-1:123456789012:function:" + functionName,
		timeout:     f.opts.Timeout,
		concurrency: f.opts.Concurrency,
		maxBody:     f.opts.MaxResponse,
		next:        make(chan *call),
		calls:       make(map[string]*call),
		extensions:  make(map[string]*extension),
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("serve the runtime API: %w", err)
	}
	f.address = l.Addr().String()
	f.server = &http.Server{Handler: f.api, MaxHeaderBytes: 4 << 20} // the X-Ray cause may come close to 1 MiB
	go func() {
		defer close(f.serving)
		_ = f.server.Serve(l)
	}()
	return f, nil
}

// Address returns the value of AWS_LAMBDA_RUNTIME_API.
func (f *Function) Address() string { return f.address }

// Starts counts the processes started so far.
func (f *Function) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// Invoke runs one invocation to its end. If Concurrency invocations are running,
// it waits. When ctx ends, it stops to wait for a runtime, but a running
// invocation continues.
func (f *Function) Invoke(ctx context.Context, event Event) Result {
	s, err := f.running()
	if err != nil {
		return Result{Err: err}
	}
	c := newCall(event)
	if err := f.api.hand(ctx, c, s.gone); err != nil {
		if errors.Is(err, errGone) {
			err = s.cause()
		}
		return Result{Err: err}
	}
	timer := time.NewTimer(time.Until(c.deadline))
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		f.api.finish(c, Result{Err: &TimeoutError{f.opts.Timeout}})
		s.kill()
	}
	<-c.done
	return c.result
}

// running returns the current process, or starts one if there is none.
func (f *Function) running() (*sandbox, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	if f.sandbox != nil && !f.sandbox.ended() {
		return f.sandbox, nil
	}
	if f.sandbox != nil {
		f.finished.Write(f.sandbox.output.Bytes())
	}
	s, err := f.startSandbox()
	if err != nil {
		return nil, err
	}
	f.sandbox = s
	f.starts++
	return s, nil
}

// Output returns all output of the processes to stdout and stderr.
func (f *Function) Output() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.sandbox == nil {
		return ""
	}
	return f.finished.String() + f.sandbox.output.String()
}

// Close shuts the environment down. If the process has an extension, it gets
// SIGTERM and half a second to end; otherwise it is killed at once.
func (f *Function) Close() {
	f.mu.Lock()
	f.closed = true
	s := f.sandbox
	f.mu.Unlock()
	if s != nil {
		s.shutdown(f.api.hasExtensions())
	}
	_ = f.server.Close()
	<-f.serving
}

// sandbox is one process.
type sandbox struct {
	cmd    *exec.Cmd
	output *buffer
	gone   chan struct{}
	err    error // the reason of its end; valid when gone is closed
}

func (f *Function) startSandbox() (*sandbox, error) {
	s := &sandbox{cmd: exec.Command(f.path, f.opts.Args...), output: &buffer{}, gone: make(chan struct{})}
	s.cmd.Env = f.environ()
	s.cmd.Dir = filepath.Dir(f.path)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start bootstrap: %w", err)
	}
	go func() {
		defer close(s.gone)
		_ = s.cmd.Wait()
		s.err = &FunctionError{Type: "Runtime.ExitError", Message: "runtime exited: " + s.cmd.ProcessState.String()}
		f.api.mu.Lock()
		if f.api.initError != nil {
			s.err = f.api.initError
		}
		f.api.mu.Unlock()
		f.api.reset(s.err)
	}()
	return s, nil
}

// environ returns the environment of a bootstrap on Lambda's OS-only runtime.
func (f *Function) environ() []string {
	env := []string{
		"AWS_LAMBDA_RUNTIME_API=" + f.address,
		"_HANDLER=bootstrap",
		"LAMBDA_TASK_ROOT=" + filepath.Dir(f.path),
		"LAMBDA_RUNTIME_DIR=/var/runtime",
		"AWS_REGION=eu-west-1",
		"AWS_DEFAULT_REGION=eu-west-1",
		"AWS_LAMBDA_FUNCTION_NAME=" + functionName,
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=128",
		"AWS_LAMBDA_LOG_GROUP_NAME=/aws/lambda/" + functionName,
		"AWS_LAMBDA_LOG_STREAM_NAME=2026/01/05/[$LATEST]0",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_SESSION_TOKEN=test",
		"TZ=:UTC", "LANG=en_US.UTF-8",
		"PATH=" + os.Getenv("PATH"),
		"LD_LIBRARY_PATH=/lib64:/usr/lib64:/var/runtime",
	}
	if f.opts.Concurrency > 1 {
		env = append(env, "AWS_LAMBDA_MAX_CONCURRENCY="+strconv.Itoa(f.opts.Concurrency))
	}
	for name, value := range f.opts.Environment {
		env = append(env, name+"="+value)
	}
	return env
}

func (s *sandbox) ended() bool {
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// cause waits for the end of the process and returns the reason.
func (s *sandbox) cause() error {
	<-s.gone
	return s.err
}

func (s *sandbox) kill() {
	_ = s.cmd.Process.Kill()
	<-s.gone
}

const shutdownBudget = 500 * time.Millisecond // with internal extensions

func (s *sandbox) shutdown(gently bool) {
	if gently {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-s.gone:
		case <-time.After(shutdownBudget):
		}
	}
	s.kill()
}

// buffer is a bytes.Buffer that two goroutines may use.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.b.Bytes())
}

func (b *buffer) String() string { return string(b.Bytes()) }
