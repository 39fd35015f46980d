package functionshost

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/google/uuid"
)

const (
	hostVersion = "4.1037.0.0"
	userAgent   = "Azure-Functions-Host/" + hostVersion
)

// ErrFunctionTimeout is the failure of an invocation that did not end within
// functionTimeout, because the handler was slow or its answer was empty.
var ErrFunctionTimeout = errors.New("timeout value exceeded by function")

// Invocation is one call of a function.
type Invocation struct {
	ID       string
	Function string
	Started  time.Time
	done     chan struct{}
	result   Result
}

// Result is the outcome of an invocation.
type Result struct {
	Err         error // nil: succeeded
	Status      int   // 0: no answer
	Header      http.Header
	Body        []byte
	Outputs     map[string]json.RawMessage
	Logs        []string
	ReturnValue json.RawMessage
	Elapsed     time.Duration
}

// Done is closed when the invocation has ended.
func (i *Invocation) Done() <-chan struct{} { return i.done }

// Result waits for the end of the invocation.
func (i *Invocation) Result() Result {
	<-i.done
	return i.result
}

// Invoke posts one invocation and returns at once. Invocations run concurrently,
// with one request each.
func (h *Host) Invoke(function string, payload Payload) *Invocation {
	if _, found := h.app.functions[function]; !found {
		return failed(function, fmt.Errorf("function %q is not in the app", function))
	}
	i := &Invocation{ID: uuid.NewString(), Function: function, Started: time.Now(), done: make(chan struct{})}
	h.mu.Lock()
	stopping := h.stopping
	if !stopping {
		h.invocations.Add(1)
	}
	h.mu.Unlock()
	if stopping {
		return failed(function, ErrStopped)
	}
	go func() {
		defer h.invocations.Done()
		defer close(i.done)
		i.result = h.invoke(i, payload)
		i.result.Elapsed = time.Since(i.Started)
	}()
	return i
}

// failed returns an invocation that ended before it reached the handler.
func failed(function string, err error) *Invocation {
	i := &Invocation{Function: function, Started: time.Now(), done: make(chan struct{}), result: Result{Err: err}}
	close(i.done)
	return i
}

// invoke waits for the handler and for its answer. When functionTimeout has
// passed, the process is killed, and with it all its other invocations.
func (h *Host) invoke(i *Invocation, payload Payload) Result {
	body, err := payload.encode(i.Function)
	if err != nil {
		return Result{Err: err}
	}
	if _, err := h.handler(h.life); err != nil {
		return Result{Err: err}
	}
	var timeout <-chan time.Time
	if h.app.functionTimeout > 0 {
		timer := time.NewTimer(h.app.functionTimeout - time.Since(i.Started))
		defer timer.Stop()
		timeout = timer.C
	}
	answer, posted := make(chan Result, 1), make(chan struct{})
	go func() {
		defer close(posted)
		answer <- h.post(i, body)
	}()
	defer func() { <-posted }()
	for {
		select {
		case r := <-answer:
			if !errors.Is(r.Err, errHangs) {
				return r
			}
			answer = nil
		case <-timeout:
			h.retire()
			return Result{Err: fmt.Errorf("%w: %v", ErrFunctionTimeout, h.app.functionTimeout)}
		case <-h.life.Done():
			return Result{Err: h.Err()}
		}
	}
}

// post sends the request without a context, as the host does: it ends with an
// answer or when the process ends.
func (h *Host) post(i *Invocation, body []byte) Result {
	var reader io.Reader = bytes.NewReader(body)
	if !h.opts.ContentLength {
		reader = struct{ io.Reader }{reader} // unknown length: chunked
	}
	req, err := http.NewRequest(http.MethodPost, h.url(i.Function), reader)
	if err != nil {
		return Result{Err: err}
	}
	req.Header.Set("X-Azure-Functions-HostVersion", hostVersion)
	req.Header.Set("X-Azure-Functions-InvocationId", i.ID)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Content-Type", "application/json; charset=utf-8")
	resp, err := h.client.Do(req)
	if err != nil {
		return Result{Err: fmt.Errorf("post invocation: %w", err)}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return Result{Status: resp.StatusCode, Err: fmt.Errorf("read the handler's answer: %w", err)}
	}
	return judge(resp.StatusCode, resp.Header, answer)
}

// errHangs marks an answer that does not complete the invocation.
var errHangs = errors.New("2xx without a result: the invocation never completes")

// judge reads an answer as DefaultHttpWorkerService does. If a 2xx has no body,
// there is neither a result nor a failure, so the invocation never completes.
func judge(status int, header http.Header, body []byte) Result {
	r := Result{Status: status, Header: header, Body: body}
	if status < 200 || status > 299 {
		r.Err = fmt.Errorf("handler answered %d: %s", status, body)
		return r
	}
	if len(body) == 0 {
		r.Err = errHangs
		return r
	}
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	if kind != "application/json" {
		r.Err = fmt.Errorf("invalid HttpResponseMessage: content type is %q", header.Get("Content-Type"))
		return r
	}
	var result *struct {
		Outputs     map[string]json.RawMessage
		Logs        []string
		ReturnValue json.RawMessage
	}
	if err := json.Unmarshal(body, &result); err != nil {
		r.Err = fmt.Errorf("invalid HttpResponseMessage: %w", err)
		return r
	}
	if result == nil {
		r.Err = errHangs
		return r
	}
	r.Outputs, r.Logs, r.ReturnValue = result.Outputs, result.Logs, result.ReturnValue
	return r
}
