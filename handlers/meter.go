package handlers

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"halley/trigger/cosmos"
)

// SinkUse is a use of a sink by a handler: a request that has ended, rows that
// were written, a request that is repeated, or several of these. With none of them it only
// tells that the handler uses the sink.
type SinkUse struct {
	Sink     string        // its kind, such as redis
	Outcome  SinkOutcome   // of the request that has ended; "" if there is none
	Duration time.Duration // of that request
	Rows     int           // rows, documents, keys or messages that the sink has taken
	Retries  int           // requests that repeat one of the same call
}

// SinkOutcome is how a request to a sink has ended.
type SinkOutcome string

// The outcomes of requests.
const (
	SinkOK        SinkOutcome = "ok"
	SinkConflict  SinkOutcome = "conflict"  // a condition of the write does not hold, as if the sink has a newer version
	SinkThrottled SinkOutcome = "throttled" // the sink takes fewer requests than it gets
	SinkTimeout   SinkOutcome = "timeout"   // no answer in time
	SinkError     SinkOutcome = "error"     // another refusal, or no connection
)

// SinkOutcomes are all outcomes.
var SinkOutcomes = []SinkOutcome{SinkOK, SinkConflict, SinkThrottled, SinkTimeout, SinkError}

// Meter measures a handler's requests to one sink. A nil Meter measures nothing. It is safe
// for concurrent use.
type Meter struct {
	sink string
	take func(SinkUse)
}

// Meter returns the meter of a sink of the handler, by its kind. A handler makes it in Open.
func (e Env) Meter(sink string) *Meter {
	if e.Measure == nil {
		return nil
	}
	m := &Meter{sink, e.Measure}
	m.tell(SinkUse{})
	return m
}

func (m *Meter) tell(u SinkUse) {
	if m != nil {
		u.Sink = m.sink
		m.take(u)
	}
}

// Ended measures a request that has ended with an error, or nil. An error that has a method
// Throttled tells with it whether the sink has throttled the request.
func (m *Meter) Ended(began time.Time, err error) {
	m.tell(SinkUse{Outcome: outcomeOf(err), Duration: time.Since(began)})
}

// Wrote counts rows that the sink has taken.
func (m *Meter) Wrote(rows int) { m.tell(SinkUse{Rows: rows}) }

// Retried counts a request that the handler repeats within a call.
func (m *Meter) Retried() { m.tell(SinkUse{Retries: 1}) }

func outcomeOf(err error) SinkOutcome {
	var refusal interface{ Throttled() bool }
	var timed net.Error
	throttled, _ := cosmos.IsThrottled(err)
	switch {
	case err == nil:
		return SinkOK
	case throttled, errors.As(err, &refusal) && refusal.Throttled():
		return SinkThrottled
	case cosmos.IsConflict(err), cosmos.IsPreconditionFailed(err):
		return SinkConflict
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return SinkTimeout
	}
	return SinkError
}

// Transport returns a transport that measures each request, until its answer begins.
func (m *Meter) Transport(next http.RoundTripper) http.RoundTripper {
	if m == nil {
		return next
	}
	return meteredTransport{next, m}
}

type meteredTransport struct {
	http.RoundTripper
	meter *Meter
}

// RoundTrip implements [http.RoundTripper].
func (t meteredTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	began := time.Now()
	response, err := t.RoundTripper.RoundTrip(r)
	outcome := outcomeOf(err)
	if err == nil {
		outcome = outcomeOfStatus(response.StatusCode)
	}
	t.meter.tell(SinkUse{Outcome: outcome, Duration: time.Since(began)})
	return response, err
}

// CloseIdleConnections is called by the method of [http.Client] with this name.
func (t meteredTransport) CloseIdleConnections() {
	if closer, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

func outcomeOfStatus(status int) SinkOutcome {
	switch {
	case status < http.StatusBadRequest:
		return SinkOK
	case status == http.StatusConflict, status == http.StatusPreconditionFailed:
		return SinkConflict
	case status == http.StatusTooManyRequests, status == http.StatusServiceUnavailable:
		return SinkThrottled
	}
	return SinkError
}
