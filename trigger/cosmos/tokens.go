package cosmos

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// tokenHolder keeps the header of the current token for a second, and then asks azcore's policy again: that
// caches tokens, and refreshes them before they expire.
type tokenHolder struct {
	policy   runtime.Pipeline // ends in echo
	endpoint string
	now      func() time.Time

	mu            sync.Mutex // guards the fields below it, and is never held during I/O
	second        int64      // since 1970
	date          []string   // of the second; one value
	authorization []string   // nil if the token is to be asked for
}

func newTokenHolder(bearer policy.Policy, base *url.URL, now func() time.Time) *tokenHolder {
	return &tokenHolder{endpoint: base.String(), now: now, policy: runtime.NewPipeline(module, version,
		runtime.PipelineOptions{PerRetry: []policy.Policy{bearer}},
		&policy.ClientOptions{Transport: echo{}, Retry: policy.RetryOptions{MaxRetries: -1}, Telemetry: policy.TelemetryOptions{Disabled: true}})}
}

// authorize implements authorizer.
func (h *tokenHolder) authorize(ctx context.Context, _ *operation) (date, authorization []string, err error) {
	now := h.now().UTC()
	h.mu.Lock()
	if h.second == now.Unix() && h.authorization != nil {
		defer h.mu.Unlock()
		return h.date, h.authorization, nil
	}
	h.mu.Unlock()
	bearer, err := h.bearer(ctx)
	if err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.second, h.date = now.Unix(), []string{now.Format(http.TimeFormat)}
	h.authorization = []string{tokenAuthorization(bearer)}
	return h.date, h.authorization, nil
}

// refused implements authorizer: the service has rejected the token, so that the next attempt needs
// another one.
func (h *tokenHolder) refused(ctx context.Context) {
	h.mu.Lock()
	h.authorization = nil
	h.mu.Unlock()
	_, _ = h.bearer(context.WithValue(ctx, refusedKey{}, true)) // the next attempt returns the error
}

// bearer returns the Authorization header of azcore's policy.
func (h *tokenHolder) bearer(ctx context.Context) (string, error) {
	req, err := runtime.NewRequest(ctx, http.MethodGet, h.endpoint)
	if err != nil {
		return "", err
	}
	resp, err := h.policy.Do(req)
	if err != nil {
		return "", err
	}
	return resp.Request.Header.Get("Authorization"), nil
}

// refusedKey is in the context of a request that echo answers with 401.
type refusedKey struct{}

// echo answers requests itself, and its answers name the requests.
type echo struct{}

func (echo) Do(req *http.Request) (*http.Response, error) {
	status := http.StatusOK
	if req.Context().Value(refusedKey{}) != nil {
		status = http.StatusUnauthorized
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody, Request: req}, nil
}
