package functions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"runtime/debug"
	"strings"

	"go.uber.org/zap"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/text"
	"halley/handlers"
)

const (
	maxInvocation = 1 << 20 // bytes of one invocation; a timer's has some hundred
	maxTraceField = 128     // bytes of a header that goes into log fields
)

// invocation is the body that the Functions host posts to call a function.
type invocation struct {
	Data     map[string]json.RawMessage // by binding name
	Metadata map[string]json.RawMessage
}

// invocationResult is the answer to the Functions host. Both keys are always set: if
// a 2xx body were empty, the host would hang until functionTimeout.
type invocationResult struct {
	Outputs map[string]any
	Logs    []string
}

// function answers one invocation. ctx ends when the caller disconnects or the
// process stops.
type function func(ctx context.Context, in invocation, log *zap.Logger) (invocationResult, error)

// webFunction answers an invocation of an HTTP function with the values of its outputs.
type webFunction func(ctx context.Context, in invocation) (outputs map[string]any, err error)

// withoutOutputs makes a function of a call that has no outputs.
func withoutOutputs(call func(ctx context.Context, in invocation, log *zap.Logger) (logs []string, err error)) function {
	return func(ctx context.Context, in invocation, log *zap.Logger) (invocationResult, error) {
		logs, err := call(ctx, in, log)
		return invocationResult{Logs: logs}, err
	}
}

// customHandler is the HTTP side of the contract of Azure Functions custom
// handlers: GET / says ready, POST /<function> is one invocation.
type customHandler struct {
	functions map[string]function
	web       map[string]webFunction // HTTP functions
	log       *zap.Logger
}

// refusal is an error that is answered with a 4xx status.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func refuse(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

// ServeHTTP always answers with JSON. If it refuses a request, no function runs.
func (h *customHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	log := h.log.With(traceFields(r)...)
	defer func() {
		if v := recover(); v != nil {
			log.Error("invocation panicked", zap.String("panic", fmt.Sprint(v)), zap.ByteString("stack", debug.Stack()))
			hosting.Answer(w, http.StatusInternalServerError, hosting.Problem{Error: "the invocation panicked"})
		}
	}()
	result, err := h.serve(w, r, log)
	var refused *refusal
	switch {
	case err == nil:
		hosting.Answer(w, http.StatusOK, result)
	case errors.As(err, &refused):
		log.Warn("request refused", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err))
		hosting.Answer(w, refused.status, hosting.Problem{Error: text.OfError(err)})
	default:
		log.Error("invocation failed", zap.String("path", r.URL.Path), zap.Error(err))
		hosting.Answer(w, http.StatusInternalServerError, hosting.Problem{Error: text.OfError(err)})
	}
}

func (h *customHandler) serve(w http.ResponseWriter, r *http.Request, log *zap.Logger) (any, error) {
	if !handlers.IsLoopback(r.Host) {
		return nil, refuse(http.StatusMisdirectedRequest, "host %q is not this handler: the Functions host calls 127.0.0.1", r.Host)
	}
	if r.URL.EscapedPath() == "/" {
		return h.ready(w, r)
	}
	name := strings.TrimPrefix(r.URL.EscapedPath(), "/")
	call, web := h.functions[name], h.web[name]
	if call == nil && web == nil {
		return nil, refuse(http.StatusNotFound, "no function at %s: a function's path is / and the name of its directory", r.URL.EscapedPath())
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, refuse(http.StatusMethodNotAllowed, "method %s: invoke a function with POST", r.Method)
	}
	in, err := readInvocation(w, r)
	if err != nil {
		return nil, err
	}
	if web != nil {
		outputs, err := web(r.Context(), in)
		return invocationResult{Outputs: outputs, Logs: []string{}}, err
	}
	result, err := call(r.Context(), in, log)
	if err != nil {
		return nil, err
	}
	if result.Outputs == nil {
		result.Outputs = map[string]any{}
	}
	result.Logs = append([]string{}, result.Logs...)
	return result, nil
}

// ready answers the host's readiness and health pings.
func (h *customHandler) ready(w http.ResponseWriter, r *http.Request) (any, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		return nil, refuse(http.StatusMethodNotAllowed, "method %s: / answers GET; a function's path is / and the name of its directory", r.Method)
	}
	return map[string]bool{"ready": true}, nil
}

// readInvocation reads the body, sent with a length or in chunks.
func readInvocation(w http.ResponseWriter, r *http.Request) (invocation, error) {
	var in invocation
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || media != "application/json" || !utf8Charset(params["charset"]) {
		return in, refuse(http.StatusUnsupportedMediaType, "content type %q: send application/json; charset=utf-8", r.Header.Get("Content-Type"))
	}
	body, err := readBody(w, r)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(unwrap(body), &in); err != nil {
		return in, refuse(http.StatusBadRequest, `body is not {"Data":{…},"Metadata":{…}}: %v`, err)
	}
	return in, nil
}

func utf8Charset(charset string) bool { return charset == "" || strings.EqualFold(charset, "utf-8") }

// readBody reads at most maxInvocation bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxInvocation))
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil:
		return body, nil
	case errors.As(err, &tooLarge):
		return nil, refuse(http.StatusRequestEntityTooLarge, "body is over %d bytes: an invocation of a timer has some hundred", maxInvocation)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, refuse(http.StatusRequestTimeout, "request did not arrive within %v", hosting.RequestTimeout)
	}
	return nil, refuse(http.StatusBadRequest, "read body: %v", err)
}

// unwrap decodes JSON strings that hold JSON, up to two levels: depending on type
// and version, the host encodes the value of a binding as text once or twice.
func unwrap(raw json.RawMessage) json.RawMessage {
	for range 2 {
		var s string
		if trimmed := bytes.TrimSpace(raw); len(trimmed) == 0 || trimmed[0] != '"' {
			return raw
		}
		if json.Unmarshal(raw, &s) != nil || !json.Valid([]byte(s)) {
			return raw
		}
		raw = json.RawMessage(s)
	}
	return raw
}

// traceFields correlate log lines with the invocation in the host's telemetry.
func traceFields(r *http.Request) []zap.Field {
	var fields []zap.Field
	for _, h := range []struct{ header, field string }{
		{"X-Azure-Functions-InvocationId", "invocation"},
		{"Traceparent", "traceparent"},
	} {
		if v := r.Header.Get(h.header); v != "" {
			fields = append(fields, zap.String(h.field, v[:min(len(v), maxTraceField)]))
		}
	}
	return fields
}
