package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/handlers"
	"halley/trigger"
)

// checkURL returns an error without any part of the URL that may be a secret.
func checkURL(u handlers.URL, plainHTTP bool) error {
	parsed, err := url.Parse(u.Reveal())
	switch {
	case err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https":
		return fmt.Errorf("URL is %v, which is not the URL of a function; write for example http://127.0.0.1:8080/changes", u)
	case parsed.User != nil:
		return errors.New("URL holds a user; remove it, and set TOKEN")
	case parsed.Scheme == "http" && !plainHTTP && !handlers.IsLoopback(parsed.Hostname()):
		return fmt.Errorf("URL is %v: documents would be sent in clear text; write https://, or set PLAIN_HTTP=true", u)
	}
	return nil
}

// endpoint is a function over HTTP.
type endpoint struct {
	client  *http.Client
	url     handlers.URL
	token   handlers.Secret
	timeout time.Duration

	mutex     sync.Mutex
	notBefore time.Time // the function wants no call until then; mutex guards it
}

// dialTime is for one connection; a call has its own timeout.
const dialTime = 10 * time.Second

func newEndpoint(s Settings) (*endpoint, error) {
	if err := checkURL(s.URL, bool(s.PlainHTTP)); err != nil {
		return nil, err
	}
	config, err := handlers.TLSFiles{CA: s.CAFile, Cert: s.CertFile, Key: s.KeyFile}.Config(strings.HasPrefix(s.URL.Reveal(), "https:"))
	if err != nil {
		return nil, err
	}
	return &endpoint{url: s.URL, token: s.Token, timeout: time.Duration(s.RequestTimeout), client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: dialTime}).DialContext,
			TLSClientConfig:        config,
			TLSHandshakeTimeout:    dialTime,
			MaxResponseHeaderBytes: 64 << 10,
			MaxConnsPerHost:        int(s.PoolSize),
			MaxIdleConnsPerHost:    int(s.PoolSize),
			IdleConnTimeout:        90 * time.Second,
			ForceAttemptHTTP2:      true,
		},
	}}, nil
}

func (e *endpoint) String() string { return e.url.String() }

func (e *endpoint) close() error {
	e.client.CloseIdleConnections()
	return nil
}

// maxAnswer is more than the verdicts on any batch.
const maxAnswer = 4 << 20

// versionHeader tells a server the version of the protocol before it reads the body.
const versionHeader = "Halley-Protocol"

func (e *endpoint) call(ctx context.Context, c call) (answer, error) {
	if err := e.wait(ctx); err != nil {
		return answer{}, err
	}
	ctx, cancel := answerWithin(ctx, e.timeout)
	defer cancel()
	request, err := c.appendTo(ctx, nil) // not used again: the client may still read it after an answer
	if err != nil {
		return answer{}, err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url.Reveal(), bytes.NewReader(request))
	if err != nil {
		return answer{}, withoutURL(err)
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "application/json")
	post.Header.Set(versionHeader, strconv.Itoa(protocolVersion))
	if e.token != "" {
		post.Header.Set("Authorization", "Bearer "+e.token.Reveal())
	}
	response, err := e.client.Do(post)
	if err != nil {
		return answer{}, explain(ctx, withoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusNoContent {
		text, err := readAnswer(response.Body)
		if err != nil {
			return answer{}, explain(ctx, err)
		}
		return decodeAnswer(c.number, text)
	}
	return answer{}, e.refused(response)
}

func readAnswer(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(text) > maxAnswer {
		return nil, malformed("it has more than %d bytes", maxAnswer)
	}
	return text, nil
}

// explain returns err, or why the context has ended.
func explain(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// unusable are the statuses of a batch that can never work.
var unusable = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}

// refused returns the error of an answer with another status than 200 and 204.
func (e *endpoint) refused(response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxShown)) // the part that has arrived is enough
	status := response.StatusCode
	err := fmt.Errorf("status %d %s", status, http.StatusText(status))
	if pause := retryAfter(response.Header); pause > 0 && (status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable) {
		err = fmt.Errorf("%w, retry after %v", err, pause)
		e.pause(pause)
	}
	if text := strings.TrimSpace(strings.ToValidUTF8(string(text), "�")); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if status/100 == 2 || status/100 == 3 {
		err = fmt.Errorf("%w; answer 200 or 204 when the changes are handled, redirects are not followed", err)
	}
	if slices.Contains(unusable, status) {
		return trigger.Skip(err) // names no change: a batch of several is halved
	}
	return err
}

// maxPause is the longest time that the function may ask for.
const maxPause = 5 * time.Minute

// retryAfter reads seconds or a date (RFC 9110 section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return min(time.Duration(max(seconds, 0)), maxPause/time.Second) * time.Second
	}
	if retryTime, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(retryTime), 0), maxPause).Round(time.Millisecond)
	}
	return 0
}

func (e *endpoint) pause(d time.Duration) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if pauseEnd := time.Now().Add(d); pauseEnd.After(e.notBefore) {
		e.notBefore = pauseEnd
	}
}

// wait returns when a pause is over, at once with an error if that is after the deadline.
func (e *endpoint) wait(ctx context.Context) error {
	e.mutex.Lock()
	pause := time.Until(e.notBefore)
	e.mutex.Unlock()
	return sleep(ctx, pause)
}

// sleep returns after d, or at once with an error if the context ends before.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("paused for %v, longer than this call may take", d.Round(time.Millisecond))
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// withoutURL removes the URL from a client's error: its parameters may be keys.
func withoutURL(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}
