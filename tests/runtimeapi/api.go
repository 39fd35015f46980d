package runtimeapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	headerRequestID    = "Lambda-Runtime-Aws-Request-Id"
	headerDeadline     = "Lambda-Runtime-Deadline-Ms"
	headerFunctionARN  = "Lambda-Runtime-Invoked-Function-Arn"
	headerTraceID      = "Lambda-Runtime-Trace-Id"
	headerClient       = "Lambda-Runtime-Client-Context"
	headerIdentity     = "Lambda-Runtime-Cognito-Identity"
	headerTenant       = "Lambda-Runtime-Aws-Tenant-Id"
	headerResponseMode = "Lambda-Runtime-Function-Response-Mode"
	headerErrorType    = "Lambda-Runtime-Function-Error-Type" // also a trailer
	trailerErrorBody   = "Lambda-Runtime-Function-Error-Body"
)

// api is the HTTP server: the paths below 2018-06-01/runtime, and the extensions
// that the runtime registers for itself.
type api struct {
	arn         string
	timeout     time.Duration
	concurrency int
	maxBody     int64
	next        chan *call // from Invoke to the runtime that polls

	mu         sync.Mutex       // guards the fields below
	calls      map[string]*call // taken by the current process
	running    int
	initError  *FunctionError
	extensions map[string]*extension
}

// call is one invocation between Invoke and the runtime.
type call struct {
	id         string
	event      Event
	dispatched chan struct{} // closed when a runtime has taken it
	deadline   time.Time     // valid when dispatched is closed
	done       chan struct{}
	result     Result
	ended      bool // under api.mu
	answered   bool // under api.mu
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, found := strings.CutPrefix(r.URL.Path, "/2018-06-01/runtime/")
	invocation, _ := strings.CutPrefix(path, "invocation/")
	switch id, verb, _ := strings.Cut(invocation, "/"); {
	case strings.HasPrefix(r.URL.Path, "/2020-01-01/extension/"):
		a.extension(w, r)
	case !found:
		refuse(w, http.StatusNotFound, "NotFound", r.URL.Path)
	case r.Method == http.MethodGet && path == "invocation/next":
		a.serveNext(w, r)
	case r.Method != http.MethodPost:
		refuse(w, http.StatusMethodNotAllowed, "MethodNotAllowed", r.Method)
	case path == "init/error":
		a.serveInitError(w, r)
	case strings.HasPrefix(path, "restore/"):
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "the function has no snapshot")
	case verb == "response":
		a.serveResponse(w, r, id)
	case verb == "error":
		a.serveError(w, r, id)
	default:
		refuse(w, http.StatusNotFound, "NotFound", r.URL.Path)
	}
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"errorType": kind, "errorMessage": message})
}

func accept(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusAccepted)
	_, _ = io.WriteString(w, `{"status":"OK"}`)
}

// serveNext waits until there is an invocation. If the runtime polls for more
// invocations than its concurrency allows, it gets an error.
func (a *api) serveNext(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	busy := a.running >= a.concurrency
	a.mu.Unlock()
	if busy {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "the last invocation has no response yet")
		return
	}
	select {
	case c := <-a.next:
		a.dispatch(w, c)
	case <-r.Context().Done():
	}
}

// dispatch answers with the invocation. Its timeout begins now.
func (a *api) dispatch(w http.ResponseWriter, c *call) {
	c.deadline = time.Now().Add(a.timeout)
	a.mu.Lock()
	a.calls[c.id] = c
	a.running++
	for _, e := range a.extensions {
		e.send(extensionEvent{EventType: "INVOKE", RequestID: c.id, DeadlineMs: c.deadline.UnixMilli(), InvokedFunctionArn: a.arn})
	}
	a.mu.Unlock()
	close(c.dispatched)
	head := w.Header()
	head.Set("Content-Type", "application/json")
	head.Set(headerRequestID, c.id)
	head.Set(headerDeadline, strconv.FormatInt(c.deadline.UnixMilli(), 10))
	head.Set(headerFunctionARN, a.arn)
	head.Set(headerTraceID, c.event.traceID())
	for name, value := range map[string]string{
		headerClient: c.event.ClientContext, headerIdentity: c.event.CognitoIdentity, headerTenant: c.event.TenantID,
	} {
		if value != "" {
			head.Set(name, value)
		}
	}
	_, _ = w.Write(c.event.Payload)
}

// find returns the call of a post and marks it answered. A call may be answered
// once, even if its deadline has passed.
func (a *api) find(w http.ResponseWriter, id string) *call {
	a.mu.Lock()
	defer a.mu.Unlock()
	c, found := a.calls[id]
	switch {
	case !found:
		refuse(w, http.StatusBadRequest, "InvalidRequestID", fmt.Sprintf("no invocation %q", id))
		return nil
	case c.answered:
		refuse(w, http.StatusForbidden, "InvalidStateTransition", fmt.Sprintf("invocation %q is answered", id))
		return nil
	}
	c.answered = true
	return c
}

// serveResponse reads a response to its end and then its trailers, in which a
// runtime reports a failure in the middle of the stream.
func (a *api) serveResponse(w http.ResponseWriter, r *http.Request, id string) {
	if mode := r.Header.Get(headerResponseMode); mode != "" && mode != "streaming" {
		refuse(w, http.StatusBadRequest, "InvalidResponseMode", mode)
		return
	}
	c := a.find(w, id)
	if c == nil {
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, a.maxBody+1))
	_, _ = io.Copy(io.Discard, r.Body)
	result := Result{Payload: body}
	switch kind := r.Trailer.Get(headerErrorType); {
	case err != nil:
		result = Result{Err: fmt.Errorf("read response: %w", err)}
	case int64(len(body)) > a.maxBody:
		a.finish(c, Result{Err: &FunctionError{Type: "Function.ResponseSizeTooLarge", Message: fmt.Sprintf("response exceeds %d bytes", a.maxBody)}})
		refuse(w, http.StatusRequestEntityTooLarge, "RequestEntityTooLarge", "response too large")
		return
	case kind != "":
		result.Err = trailerError(kind, r.Trailer.Get(trailerErrorBody))
	}
	a.finish(c, result)
	accept(w)
}

func trailerError(kind, body string) error {
	e := &FunctionError{Type: kind}
	if text, err := base64.StdEncoding.DecodeString(body); err == nil {
		_ = json.Unmarshal(text, e)
	}
	return e
}

// serveError reads the report from the body: the error-type header is optional
// and aws-lambda-go leaves it out.
func (a *api) serveError(w http.ResponseWriter, r *http.Request, id string) {
	c := a.find(w, id)
	if c == nil {
		return
	}
	a.finish(c, Result{Err: readError(r)})
	accept(w)
}

func readError(r *http.Request) *FunctionError {
	e := &FunctionError{Type: r.Header.Get(headerErrorType)}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, e)
	}
	if err != nil {
		e.Message = fmt.Sprintf("unreadable error report: %v", err)
	}
	return e
}

func (a *api) serveInitError(w http.ResponseWriter, r *http.Request) {
	e := readError(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) > 0 {
		refuse(w, http.StatusForbidden, "InvalidStateTransition", "initialization is over")
		return
	}
	a.initError = e
	accept(w)
}

// finish ends a call. If the call has already ended, it does nothing.
func (a *api) finish(c *call, r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if c.ended {
		return
	}
	c.ended = true
	if _, found := a.calls[c.id]; found {
		a.running--
		r.Remaining = time.Until(c.deadline)
	}
	c.result = r
	close(c.done)
}

// reset is called when a process has ended: its calls fail with err, and its
// extensions are removed.
func (a *api) reset(err error) {
	a.mu.Lock()
	calls := a.calls
	a.calls, a.extensions = make(map[string]*call), make(map[string]*extension)
	if a.initError != nil {
		err = a.initError
		a.initError = nil
	}
	a.mu.Unlock()
	for _, c := range calls {
		a.finish(c, Result{Err: err})
	}
	a.mu.Lock()
	a.running = 0
	a.mu.Unlock()
}

func newCall(event Event) *call {
	return &call{id: uuid.NewString(), event: event, dispatched: make(chan struct{}), done: make(chan struct{})}
}

// hand passes the call to the runtime, which may still be starting.
func (a *api) hand(ctx context.Context, c *call, gone <-chan struct{}) error {
	select {
	case a.next <- c:
		<-c.dispatched
		return nil
	case <-gone:
		return errGone
	case <-ctx.Done():
		return ctx.Err()
	}
}

var errGone = errors.New("runtime process is gone")
