package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
)

// exchange is one request and its answer.
type exchange struct {
	fact          string // that asked; "" before and after the facts
	sent          time.Time
	method, path  string
	request       http.Header
	requestBody   []byte
	status        int
	answer        http.Header
	answerBody    []byte
	requestCharge float64
}

// number returns the value of a header of the answer as an LSN, 0 if it is not one.
func (e exchange) number(header string) int64 {
	n, _ := strconv.ParseInt(e.answer.Get(header), 10, 64)
	return n
}

// document addresses a document in a scratch container.
type document struct{ container, id, key string }

// Meter is the policy through which all requests of a verification pass: it counts their
// charges, ends the run at the limit, and knows which documents the run has created. Pass
// it to the client as a policy for each attempt.
type Meter struct {
	mu        sync.Mutex // guards the fields below it; it is not held during a request
	limit     float64
	spent     float64
	exhausted func(error) // ends the run; nil during the cleanup
	newest    exchange
	stored    map[document]bool // created and not deleted
	record    []exchange
	recording bool
	cut       bool // a request got no answer
}

// errLimit ends a run that would cost more than it may.
var errLimit = errors.New("the limit of request units is reached")

type contextKey int

const (
	factKey contextKey = iota
	overrideKey
)

// override changes a request that the client cannot send as the probe needs it.
type override struct {
	method string      // other requests of the call, such as those for the account, are not changed
	header http.Header // "" removes one
	body   []byte      // nil keeps it
}

// with returns a context whose requests of a method have other headers, and another body
// if it is not nil.
func with(ctx context.Context, method string, header map[string]string, body []byte) context.Context {
	o := override{method: method, header: http.Header{}, body: body}
	for name, value := range header {
		o.header.Set(name, value)
	}
	return context.WithValue(ctx, overrideKey, o)
}

func factOf(ctx context.Context) string {
	name, _ := ctx.Value(factKey).(string)
	return name
}

// Do sends a request and keeps its answer.
func (m *Meter) Do(req *policy.Request) (*http.Response, error) {
	raw := req.Raw()
	if err := m.admit(); err != nil {
		return nil, err
	}
	if o, ok := raw.Context().Value(overrideKey).(override); ok && o.method == raw.Method {
		if err := o.apply(req); err != nil {
			return nil, err
		}
	}
	e := exchange{fact: factOf(raw.Context()), sent: time.Now(), method: raw.Method, path: raw.URL.EscapedPath(), request: raw.Header.Clone()}
	if body := req.Body(); body != nil {
		var err error
		if e.requestBody, err = io.ReadAll(body); err != nil {
			return nil, err
		}
		if err := req.RewindBody(); err != nil {
			return nil, err
		}
	}
	resp, err := req.Next()
	if err != nil {
		m.noteCut(e)
		return nil, err
	}
	e.answerBody, err = io.ReadAll(resp.Body)
	_ = resp.Body.Close() // it is read to its end, or err says why not
	if err != nil {
		m.noteCut(e)
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(e.answerBody))
	e.status, e.answer = resp.StatusCode, resp.Header.Clone()
	e.requestCharge, _ = strconv.ParseFloat(e.answer.Get("X-Ms-Request-Charge"), 64)
	m.keep(e)
	return resp, nil
}

func (o override) apply(req *policy.Request) error {
	for name, values := range o.header {
		if values[0] == "" {
			req.Raw().Header.Del(name)
			continue
		}
		req.Raw().Header[name] = values
	}
	if o.body == nil {
		return nil
	}
	return req.SetBody(streaming.NopCloser(bytes.NewReader(o.body)), "application/json")
}

// admit refuses requests beyond the limit, except those of the cleanup.
func (m *Meter) admit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.exhausted == nil || m.spent < m.limit {
		return nil
	}
	m.exhausted(errLimit)
	m.cut = true
	return errLimit
}

func (m *Meter) keep(e exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent += e.requestCharge
	m.newest = e
	if m.recording {
		m.record = append(m.record, e)
	}
	m.follow(e)
}

// follow notes which documents exist because of this run.
func (m *Meter) follow(e exchange) {
	parts := strings.Split(strings.Trim(e.path, "/"), "/") // dbs/D/colls/C/docs[/ID]
	if len(parts) < 5 || parts[4] != "docs" {
		return
	}
	key := e.request.Get("X-Ms-Documentdb-Partitionkey")
	switch {
	case e.method == http.MethodPost && e.status == http.StatusCreated:
		var doc struct{ ID string }
		if json.Unmarshal(e.requestBody, &doc) == nil && doc.ID != "" {
			m.add(document{parts[3], doc.ID, key})
		}
	case e.method == http.MethodPost && e.request.Get("X-Ms-Cosmos-Is-Batch-Request") != "":
		m.followBatch(e, parts[3], key)
	case e.method == http.MethodDelete && len(parts) == 6 && e.status == http.StatusNoContent:
		delete(m.stored, document{parts[3], parts[5], key})
	}
}

// followBatch notes the documents that a batch has created.
func (m *Meter) followBatch(e exchange, container, key string) {
	var operations []struct {
		PartitionKey string
		ResourceBody struct{ ID string }
	}
	var results []struct{ StatusCode int }
	if json.Unmarshal(e.requestBody, &operations) != nil || json.Unmarshal(e.answerBody, &results) != nil || len(operations) != len(results) {
		return
	}
	for i, o := range operations {
		if results[i].StatusCode != http.StatusCreated {
			continue
		}
		if o.PartitionKey != "" {
			m.add(document{container, o.ResourceBody.ID, o.PartitionKey})
			continue
		}
		m.add(document{container, o.ResourceBody.ID, key})
	}
}

func (m *Meter) add(d document) {
	if m.stored == nil {
		m.stored = map[document]bool{}
	}
	m.stored[d] = true
}

// last returns the newest exchange. Only probes that send one request at a time use it.
func (m *Meter) last() exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.newest
}

// charged returns the request units so far.
func (m *Meter) charged() float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// begin sets the limit, and what ends the run when it is reached.
func (m *Meter) begin(limit float64, recording bool, exhausted func(error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.limit, m.recording, m.exhausted = limit, recording, exhausted
}

// finish lifts the limit for the cleanup, and ends the record.
func (m *Meter) finish() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exhausted, m.recording = nil, false
}

// leftovers returns the documents that the run has created in a container and that still exist.
func (m *Meter) leftovers(container string) []document {
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []document
	for d := range m.stored {
		if d.container == container {
			list = append(list, d)
		}
	}
	return list
}

// forget leaves the documents in a container to their time to live.
func (m *Meter) forget(container string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := range m.stored {
		if d.container == container {
			delete(m.stored, d)
		}
	}
}

// recorded returns the exchanges of the record.
func (m *Meter) recorded() []exchange {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record
}

// noteCut notes a request without an answer. If it was to create a document, that document
// may exist.
func (m *Meter) noteCut(e exchange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cut = true
	if e.method == http.MethodPost && e.request.Get("X-Ms-Documentdb-Isquery") == "" {
		e.status = http.StatusCreated
		m.follow(e)
	}
}

// wasCut reports whether a request got no answer since the last call.
func (m *Meter) wasCut() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	cut := m.cut
	m.cut = false
	return cut
}
