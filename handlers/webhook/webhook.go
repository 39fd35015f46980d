// Package webhook posts every change to an URL, signed as the Standard Webhooks
// specification says (https://www.standardwebhooks.com).
//
// Each change is one POST with a JSON object {type, timestamp, data} and the headers
// webhook-id, webhook-timestamp and webhook-signature: see [Payload]. Receivers verify
// it with the library of their language.
//
// # Idempotency
//
// The webhook-id is the same whenever the same change is posted: it is derived from the
// function, its container, the document's id and partition key, and the version of the
// document, not from ranges, owners or attempts. A change may be posted again after a
// crash, a failure, a handover, a split or a replay; a receiver that drops an id that it
// has processed has processed every change once.
//
// # Order and deletes
//
// Changes of one partition key are posted one after the other, in the order of the
// feed; after a failure, the later changes of the key wait. Keys are posted in parallel.
// A host that paused for longer than its lease lasts may post its last change late: if
// data.epoch, then data.lsn is less than what the receiver has stored for the document,
// the message is older.
//
// A delete is posted if the function sees it: as a soft delete (SOFT_DELETE_PROPERTY),
// or in all-versions mode, in which a document that expired by its time to live has the
// type of its own "expired".
//
// # Failures
//
//   - A status of 2xx is a success. The answer's body is ignored.
//   - 400, 413, 415 and 422 refuse this message: it is dead-lettered at once.
//   - 410 says that the receiver wants no more messages. Changes are dead-lettered
//     without a request for five minutes; then one is tried again. Replay the dead
//     letters when the receiver is back.
//   - Everything else fails the change, and it is posted again after a backoff, up to
//     the attempts and the age that the function's settings allow: other 4xx and 3xx,
//     because they are mended at the URL or the secret and not in the document; 5xx;
//     and no answer. Redirects are not followed. After 429, 502, 503, 504 or no answer
//     the call posts nothing more.
//   - If an answer has Retry-After, nothing is posted until then. The next call waits
//     for that time if its deadline allows, and fails at once otherwise.
//
// Both pauses, after Retry-After and after 410, are kept in the memory of one process:
// each other host posts until it gets such an answer itself, and so does a new process.
//
// The URL is the operator's, and only its host is called, at a public address over
// https: see package outbound. URL and secrets are never printed.
package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"halley/handlers"
	"halley/handlers/outbound"
	"halley/trigger"
)

// Settings of the handler, read with the prefix HALLEY_WEBHOOK_.
type Settings struct {
	URL     handlers.URL    `desc:"https URL that gets a POST for each change; required"`
	Secrets handlers.Secret `desc:"signing secrets of the form whsec_ and base64, separated by spaces or commas; each signs, so that a receiver can change from one to the next; required"`

	Event          string            `default:"document" desc:"first part of the type of messages: document makes document.changed, .created, .replaced, .deleted and .expired"`
	Parallel       handlers.Count    `default:"8" desc:"partition keys of a batch that are posted at the same time, 1 to 100"`
	RequestTimeout handlers.Interval `split_words:"true" default:"15s" desc:"time for one request; a receiver that takes longer has failed"`
	PoolSize       handlers.Count    `split_words:"true" default:"64" desc:"connections to the receiver, at most"`
	CAFile         string            `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile       string            `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile        string            `split_words:"true" desc:"its private key, PEM"`

	AllowPrivateEndpoint handlers.Toggle `split_words:"true" desc:"for development: a receiver on a private or loopback address with any port, http:// on loopback"`
}

var eventRule = regexp.MustCompile(`^[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+)*$`)

// validate checks the settings that have no other check. Its error begins with the
// name of the setting.
func (s Settings) validate() error {
	switch {
	case s.URL == "":
		return errors.New("URL is empty; set it to the https URL of the receiver")
	case !eventRule.MatchString(s.Event):
		return fmt.Errorf("EVENT is %q; write letters, digits and _, with dots between the parts, such as order or shop.order", s.Event)
	case s.Parallel < 1 || s.Parallel > 100:
		return fmt.Errorf("PARALLEL is %d; it must be 1 to 100", s.Parallel)
	case s.RequestTimeout <= 0:
		return fmt.Errorf("REQUEST_TIMEOUT is %v; it must be positive", s.RequestTimeout)
	}
	if _, err := s.rules().Check(s.URL.Reveal()); err != nil {
		return fmt.Errorf("URL is %w; set a public https URL, or ALLOW_PRIVATE_ENDPOINT for development", err)
	}
	return nil
}

// rules allow the host of the URL alone.
func (s Settings) rules() outbound.Rules {
	r := outbound.Rules{Private: bool(s.AllowPrivateEndpoint)}
	if parsed, err := url.Parse(s.URL.Reveal()); err == nil {
		r.Hosts = []string{parsed.Hostname()}
	}
	return r
}

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	w, err := open(env, s)
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	w.meter = env.Meter("webhook")
	w.client.Transport = w.meter.Transport(w.client.Transport)
	env.OfferProbe(w.probe(env.Prefix))
	return w.handle, w.close, nil
}

func open(env handlers.Env, s Settings) (*sender, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	keys, err := parseSecrets(s.Secrets)
	if err != nil {
		return nil, fmt.Errorf("SECRETS %w", err)
	}
	target, err := s.rules().Check(s.URL.Reveal())
	if err != nil {
		return nil, err
	}
	config, err := handlers.TLSFiles{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}.Config(target.Scheme == "https")
	if err != nil {
		return nil, err
	}
	return &sender{
		client:    s.rules().ClientOf(outbound.Connections{Timeout: time.Duration(s.RequestTimeout), Most: int(s.PoolSize), TLS: config}),
		url:       s.URL.Reveal(),
		server:    "webhook receiver " + target.Host,
		keys:      keys,
		event:     s.Event,
		container: env.Database + "/" + env.ContainerName,
		parallel:  int(s.Parallel),
		pauses:    outbound.Pauses{Longest: longestPause},
		log:       env.Log(),
	}, nil
}

// probe asks the receiver for its options, which has no effect. Every answer will do.
func (w *sender) probe(prefix string) handlers.Probe {
	return handlers.Probe{What: w.server, Try: func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodOptions, w.url, nil)
		if err != nil {
			return outbound.WithoutURL(err)
		}
		response, err := w.client.Do(request)
		if err != nil {
			return fmt.Errorf("%w: start the receiver, or correct %sURL", outbound.WithoutURL(err), prefix)
		}
		return response.Body.Close()
	}}
}

func (w *sender) close() error {
	w.client.CloseIdleConnections()
	return nil
}
