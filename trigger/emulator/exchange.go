package emulator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"halley/trigger/emulator/binaryjson"
)

// maxBody is the service's limit on one request, which a batch may fill.
const maxBody = maxDocument + 64<<10

// maxDrained is how much more of a request is read if it is too large, so that the
// client sees the answer.
const maxDrained = 64 << 20

// errDropped is the error of a request if a fault ends its connection.
var errDropped = &net.OpError{Op: "read", Net: "tcp", Err: fmt.Errorf("dropped by the emulator: %w", syscall.ECONNRESET)}

// call is one request on its way to an answer.
type call struct {
	catalog *catalog
	ctx     context.Context
	request *http.Request
	method  string
	header  http.Header // names in canonical form
	target  target
	region  int // index of the region that the request was sent to
	body    []byte
	began   time.Time // when the account received the request
	now     time.Time
	ticket  uint64 // the answer waits until the store has written this ticket
	ended   error  // not nil if the operation stopped because ctx ended

	activity string
	endpoint string   // of the account, for this caller
	regional []string // those of its regions, for a request for the account
	metadata bool     // the master partition answers, unless a range is reached
	reached  *replica // the range that has refused the request; nil = none
}

// Do answers req in process. The answer's body is complete. It returns an error if
// a fault drops the connection, the account is closed or req's context ends.
func (a *Account) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	if a.closed.Load() {
		return nil, errClosed
	}
	if req.Method == "" { // which means GET in a client's request
		get := *req
		get.Method = http.MethodGet
		req = &get
	}
	r, fault, err := a.exchange(req)
	if err != nil {
		return nil, err
	}
	answer := r.http(req, a.now())
	if fault.truncates() {
		answer.Body = io.NopCloser(io.MultiReader(bytes.NewReader(r.body[:fault.keep(len(r.body))]), broken{}))
	}
	return answer, nil
}

// http is the response as net/http clients see it.
func (r *response) http(req *http.Request, now time.Time) *http.Response {
	header := make(http.Header, len(r.header)+2)
	values := make([]string, 0, len(r.header)+2) // of all fields, in one allocation
	set := func(name, value string) {
		values = append(values, value)
		header[name] = values[len(values)-1 : len(values) : len(values)]
	}
	for _, f := range r.header {
		set(canonicalAnswerName(f.name), f.value)
	}
	set("Content-Length", strconv.Itoa(len(r.body)))
	set("Date", now.UTC().Format(http.TimeFormat))
	return &http.Response{
		Status:     strconv.Itoa(r.status) + " " + http.StatusText(r.status),
		StatusCode: r.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        header,
		Body:          io.NopCloser(bytes.NewReader(r.body)),
		ContentLength: int64(len(r.body)),
		Request:       req,
	}
}

// broken is the rest of a body when its connection has ended.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// answerNames maps the header names that answers have, which are few, to their canonical forms.
var answerNames sync.Map

// canonicalAnswerName returns the canonical form of a header name that answers have.
func canonicalAnswerName(name string) string {
	if form, ok := answerNames.Load(name); ok {
		return form.(string)
	}
	form := canonical(name)
	answerNames.Store(name, form)
	return form
}

// ServeHTTP answers over a real connection. It takes the path as it was sent, so
// it must not stand behind an [http.ServeMux].
func (a *Account) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Date", a.now().UTC().Format(http.TimeFormat))
	if a.closed.Load() {
		write(w, fail(http.StatusServiceUnavailable, 0, "%v", errClosed).response())
		return
	}
	if strings.HasPrefix(req.URL.Path, managementPath) {
		write(w, a.manage(req))
		return
	}
	if err := a.checkOrigin(req); err != nil {
		write(w, asFailure(err).response())
		return
	}
	r, fault, err := a.exchange(req)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if !fault.truncates() {
		write(w, r)
		return
	}
	fullLength := len(r.body)
	r.body = r.body[:fault.keep(fullLength)]
	w.Header().Set("Content-Length", strconv.Itoa(fullLength))
	write(w, r)
	_ = http.NewResponseController(w).Flush() // the abort below is the point
	panic(http.ErrAbortHandler)
}

// write sends r. It gives up on a client that does not take the answer.
func write(w http.ResponseWriter, r *response) {
	connection := http.NewResponseController(w)
	_ = connection.SetWriteDeadline(time.Now().Add(bodyTimeout)) // recorders in tests have none
	defer func() { _ = connection.SetWriteDeadline(time.Time{}) }()
	header := w.Header()
	header["Content-Type"] = nil // else net/http would add a second one in its own spelling
	for _, f := range r.header {
		header[f.name] = []string{f.value}
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body) // a client that went away does not want the rest
}

// exchange turns a request into an answer. It also returns the fault that matched,
// which may still truncate the answer's body; nil if none did.
func (a *Account) exchange(req *http.Request) (*response, *Fault, error) {
	if strings.HasPrefix(req.URL.Path, managementPath) {
		return a.manage(req), nil, nil
	}
	c := &call{catalog: a.catalog, endpoint: a.advertised(req), region: a.regionOf(req), ctx: req.Context(), request: req, method: req.Method, header: canonicalHeader(req.Header), began: time.Now()}
	reserved := c.bodyLimit()
	if err := a.bodies.Acquire(c.ctx, reserved); err != nil {
		return nil, nil, err
	}
	defer a.bodies.Release(reserved)
	c.activity = a.activityID(c.header)
	failed := c.read()
	if c.target.kind == kindAccount {
		c.regional = a.regionEndpoints(c.endpoint)
	}
	fault := a.faults.match(req, c.header, c.target.kind, a.options.Regions[c.region])
	if err := c.wait(a.options.Latency + fault.delay()); err != nil {
		return nil, nil, err
	}
	if fault.drops(DropBefore) {
		return nil, nil, errDropped
	}
	r := fault.answer()
	if r == nil {
		r = c.answer(failed)
	}
	if c.ended != nil {
		return nil, nil, c.ended
	}
	if fault.drops(DropAfter) {
		return nil, nil, errDropped
	}
	if a.options.Manners.HideCommitted {
		r.header = slices.DeleteFunc(r.header, func(f field) bool { return f.name == "x-ms-global-committed-lsn" })
	}
	return c.complete(r), fault, nil
}

// bodyLimit is how many bytes the request's body may take in memory.
func (c *call) bodyLimit() int64 {
	if n := c.request.ContentLength; n >= 0 && n <= maxBody {
		return n
	}
	return maxBody + 1
}

// read takes path and body from the request. If it fails, its error is the answer.
func (c *call) read() error {
	var err error
	if c.target, err = parseTarget(c.request.URL.EscapedPath()); err != nil || c.request.Body == nil {
		return err
	}
	c.body, err = io.ReadAll(io.LimitReader(c.request.Body, maxBody+1))
	if err != nil {
		return badRequest("The request body could not be read: %v.", err)
	}
	if len(c.body) > maxBody {
		// If a server stops reading, it resets the connection, often before its
		// client has read the answer.
		_, _ = io.CopyN(io.Discard, c.request.Body, maxDrained)
		return tooLarge()
	}
	return c.readBinary()
}

// readBinary makes JSON text of a body in the binary form of the SDKs. Answers are text,
// which they accept.
func (c *call) readBinary() error {
	if len(c.body) == 0 || c.body[0] != binaryjson.Preamble {
		return nil
	}
	text, err := binaryjson.Decode(c.body, maxBody)
	switch {
	case errors.Is(err, binaryjson.ErrTooLong):
		return tooLarge()
	case err != nil:
		return badRequest("The request body is not valid in the binary form of JSON: %v.", err)
	}
	c.body = text
	return nil
}

// wait returns nil when d has passed, or an error if the request's context ends
// first.
func (c *call) wait(d time.Duration) error {
	if d <= 0 {
		return c.ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.ctx.Err()
	}
}

// answer runs the operation, unless reading the request failed with err, and
// returns when the outcome is on disk.
func (c *call) answer(err error) *response {
	c.now = c.catalog.now()
	var r *response
	if c.method == http.MethodOptions {
		return reply(http.StatusForbidden, []byte(`{"code":"Forbidden"}`))
	}
	if err == nil {
		err = c.authorize()
	}
	if err == nil {
		r, err = c.dispatch()
	}
	if stored := c.catalog.store.wait(c.ticket); stored != nil {
		err = fail(http.StatusServiceUnavailable, 0, "The emulator cannot write its data: %v.", stored)
	}
	if err == nil && c.metadata && r.get("lsn") == "" {
		r.stamp(c.catalog.masterReplica(), c.writes())
	}
	if err == nil {
		return r
	}
	if cause := context.Cause(c.ctx); cause != nil && errors.Is(err, cause) {
		c.ended = err
	}
	return c.refusal(asFailure(err))
}

// activityID is the one that the client sent, else one of the account's own.
func (a *Account) activityID(header http.Header) string {
	if sent := header.Get("X-Ms-Activity-Id"); sent != "" {
		return sent
	}
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", a.seed, a.calls.Add(1))
}

// complete adds the headers that every answer has, and those of the answers of partitions
// (recorded answers of a hosted account, October 2026).
func (c *call) complete(r *response) *response {
	r.set("content-type", "application/json")
	r.set("x-ms-gatewayversion", "version=2.14.0")
	r.set("server", "Microsoft-HTTPAPI/2.0")
	if c.request.TLS == nil { // else a browser would refuse other servers of localhost for a year
		r.set("strict-transport-security", "max-age=31536000")
	}
	if c.target.kind != kindAccount || r.status != http.StatusOK {
		r.set("x-ms-activity-id", c.activity)
	}
	if r.get("lsn") == "" {
		return r
	}
	r.set("cache-control", "no-store, no-cache")
	r.set("pragma", "no-cache")
	r.set("x-ms-schemaversion", "1.21")
	r.set("x-ms-serviceversion", "version=2.14.0.0")
	r.set("x-ms-number-of-read-regions", strconv.Itoa(len(c.catalog.options.Regions)-1))
	// The SDK for Rust reads it as a number with a fraction.
	r.set("x-ms-request-duration-ms", strconv.FormatFloat(time.Since(c.began).Seconds()*1000, 'f', 3, 64))
	return r
}

// canonicalHeader gives all names the form that Header.Get expects.
func canonicalHeader(h http.Header) http.Header {
	for name := range h {
		if canonical(name) != name {
			return recanonicalized(h)
		}
	}
	return h
}

func recanonicalized(h http.Header) http.Header {
	c := make(http.Header, len(h))
	for name, values := range h {
		c[canonical(name)] = values
	}
	return c
}
