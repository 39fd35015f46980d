// Package remote calls a function in any language with the changes: over HTTP, such as a
// sidecar on loopback, or a command that reads standard input and writes standard output.
// Package documentation outside of Go is docs/handlers/remote.md, the contract.
//
// Effect: one call for each batch, which the function answers with a verdict per change:
// ok, retry or skip. Changes that an answer does not name are handled.
//
// Idempotency is the function's: it is called again with changes that it has handled, in
// the same order for each partition key. The epoch of the call and the LSN of a change
// grow, so that it can refuse an older write of the same document.
//
// Deletes are changes with the operation delete or expire; a soft delete has its document.
//
// Errors: a retry is [trigger.Failed], a skip [trigger.Skip]. The whole batch is delivered
// again if the function answers with an error, a malformed answer, 429, 503 or another
// status, does not answer in time, or ends. The statuses 400, 413 and 422 say that the
// batch can never work: the runtime halves it until one change is alone, which is given up.
package remote

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_REMOTE_.
type Settings struct {
	URL            handlers.URL      `desc:"the function over HTTP: http:// on loopback, https:// anywhere; URL or COMMAND is required"`
	Token          handlers.Secret   `desc:"sent as bearer token in the header authorization, over HTTP"`
	PlainHTTP      handlers.Toggle   `split_words:"true" desc:"allow http:// to other hosts than loopback; documents are then sent in clear text"`
	PoolSize       handlers.Count    `split_words:"true" default:"64" desc:"connections to the function, at most, over HTTP"`
	CAFile         string            `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile       string            `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile        string            `split_words:"true" desc:"its private key, PEM"`
	Command        string            `desc:"the function as a command: a program and its arguments, separated by spaces, or a JSON array of strings; no shell"`
	Processes      handlers.Count    `default:"1" desc:"processes of the command at most; each does one call at a time"`
	RequestTimeout handlers.Interval `split_words:"true" default:"30s" desc:"time for one call"`
	ExitGrace      handlers.Interval `split_words:"true" default:"5s" desc:"time for the command to exit when its input has ended, before it is killed"`
}

// Open returns the handler. It neither connects nor starts the command: the first call does.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	to, err := open(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	h := &handler{transport: to, version: protocolVersion, meter: env.Meter("function")}
	env.BorrowBatches() // a call is encoded before it is made
	env.OfferProbe(handlers.Probe{What: "function at " + to.String(), Try: h.probe})
	return h.handle, to.close, nil
}

func open(env handlers.Env, s Settings) (transport, error) {
	switch {
	case s.URL == "" && s.Command == "":
		return nil, errors.New("URL and COMMAND are empty; set one of them")
	case s.URL != "" && s.Command != "":
		return nil, errors.New("URL and COMMAND are set; set one of them")
	case s.RequestTimeout < handlers.Interval(time.Millisecond):
		return nil, fmt.Errorf("REQUEST_TIMEOUT is %v; set 1ms or more", s.RequestTimeout)
	case s.ExitGrace < 0:
		return nil, fmt.Errorf("EXIT_GRACE is %v; set 0 or more", s.ExitGrace)
	case s.Command != "" && s.Token != "":
		return nil, errors.New("TOKEN is for a URL; remove it, or set URL in place of COMMAND")
	case s.Command != "" && s.CAFile+s.CertFile+s.KeyFile != "":
		return nil, errors.New("CA_FILE, CERT_FILE and KEY_FILE are for a URL; remove them, or set URL in place of COMMAND")
	case s.Command != "":
		return newCommandPool(s.Command, s.Processes, launch{timeout: time.Duration(s.RequestTimeout), grace: time.Duration(s.ExitGrace), log: env.Log()})
	}
	return newEndpoint(s)
}

// transport carries calls to the function. It is safe for concurrent use.
type transport interface {
	// call sends a request and returns its answer. The function has the timeout of the
	// settings to answer; waits before the request do not count.
	call(ctx context.Context, c call) (answer, error)

	// close is called once, after the last call.
	close() error

	String() string
}

// Over returns a handler that exchanges each request, a line of JSON as on a channel, for an
// answer, for programs that carry them in another way. The error of exchange fails the batch.
func Over(exchange func(ctx context.Context, request []byte) (answer []byte, err error)) trigger.Handler {
	h := &handler{transport: exchanger(exchange), version: channelVersion}
	return h.handle
}

// exchanger is the transport of [Over].
type exchanger func(ctx context.Context, request []byte) ([]byte, error)

func (e exchanger) call(ctx context.Context, c call) (answer, error) {
	request, err := c.appendTo(ctx, nil)
	if err != nil {
		return answer{}, err
	}
	text, err := e(ctx, request)
	if err != nil {
		return answer{}, err
	}
	return decodeAnswer(c.number, text)
}

func (e exchanger) close() error   { return nil }
func (e exchanger) String() string { return "function" }

type handler struct {
	transport transport
	version   int // of the protocol that the transport speaks
	calls     atomic.Int64
	meter     *handlers.Meter
}

func (h *handler) handle(ctx context.Context, b trigger.Batch) error {
	began := time.Now()
	a, err := h.transport.call(ctx, h.newCall(b))
	h.meter.Ended(began, err)
	if err == nil {
		h.meter.Wrote(len(b.Changes))
		err = judge(b, a)
	}
	if err != nil {
		return fmt.Errorf("call %v: %w", h.transport, err)
	}
	return nil
}

func (h *handler) newCall(b trigger.Batch) call {
	return call{version: h.version, number: h.calls.Add(1), batch: b}
}

// probeTime bounds the probe, with the start of a command.
const probeTime = 10 * time.Second

// probe calls the function without changes, to which it answers without effect.
func (h *handler) probe(ctx context.Context) error {
	ctx, cancel := answerWithin(ctx, probeTime)
	defer cancel()
	b := trigger.Batch{Function: "probe", Attempt: 1}
	a, err := h.transport.call(ctx, h.newCall(b))
	if err != nil {
		return err
	}
	return judge(b, a)
}

// answerWithin bounds a call, unless d is 0. The error of the call is the cause of the
// context.
func answerWithin(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if d == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("no answer within %v", d))
}
