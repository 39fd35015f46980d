package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"
)

// logged makes a client use azcore's pipeline.
var logged = &ClientOptions{ClientOptions: azcore.ClientOptions{Logging: policy.LogOptions{AllowedHeaders: []string{"x-ms-charge"}}}}

func (s *service) containerWith(opts *ClientOptions) *Container {
	copied := *opts
	return s.client(&copied).Container("Games", "High Scores")
}

// Requests are the same with azcore's pipeline and without it, also those of a second attempt.
func TestRequestsAreThoseOfThePipeline(t *testing.T) {
	calls := map[string]func(context.Context, *Container) error{
		"poll": func(ctx context.Context, c *Container) error {
			_, err := c.ReadFeed(ctx, FeedRequest{Range: Range{ID: "0", Max: "FF"}, Continuation: `"7"`, MaxItems: 10, SessionToken: "0:-1#7"})
			return err
		},
		"replace": func(ctx context.Context, c *Container) error {
			_, err := c.Replace(ctx, "Ä b", onePK, []byte(`{"id":"Ä b"}`), `"e1"`)
			return err
		},
		"query": func(ctx context.Context, c *Container) error {
			_, err := c.queryPage(ctx, Query{Text: "SELECT * FROM c"})
			return err
		},
		"database": func(ctx context.Context, c *Container) error { return c.Client().CreateDatabase(ctx, "x") },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			type request struct {
				Method, URL, Host, Body string
				Length                  int64
				Header                  http.Header
			}
			requestsWith := func(cred Credential, opts *ClientOptions) (found []request) {
				s := newService(t, status(429, "x-ms-retry-after-ms", "1", "Date", vectorDate), ok("{}", "Date", vectorDate))
				s.account = func(int, *http.Request) (*http.Response, error) {
					return reply(200, accountBody(endpoint, endpoint), "Date", vectorDate), nil
				}
				copied := *opts
				copied.Transport = s
				client, err := NewClient(endpoint, cred, &copied)
				if err != nil {
					t.Fatal(err)
				}
				c := client.Container("Games", "High Scores")
				moment, _ := http.ParseTime(vectorDate)
				c.client.clock.date, c.client.clock.at = moment, time.Now()
				_ = call(t.Context(), c) // the answer is not what each call wants
				if isDirect := c.client.direct != nil; isDirect != (opts != logged) {
					t.Errorf("a client with %+v is direct: %t", opts.Logging, isDirect)
				}
				if s.requests[0].Header.Set("Marked", "true"); s.requests[1].Header.Get("Marked") != "" {
					t.Error("two attempts have one header: the first may still be read while the second changes it")
				}
				s.requests[0].Header.Del("Marked")
				for _, sent := range s.requests {
					header := sent.Header.Clone()
					header.Del("Content-Length") // azcore sets it, and net/http by the length
					found = append(found, request{sent.Method, sent.URL.String(), sent.Host, sent.body, sent.ContentLength, header})
				}
				return found
			}
			for _, credential := range []func() Credential{
				func() Credential { return must(KeyCredential(key)) },
				func() Credential { return TokenCredential(&tokens{life: time.Hour}) },
			} {
				direct, piped := requestsWith(credential(), &ClientOptions{}), requestsWith(credential(), logged)
				if diff := cmp.Diff(piped, direct); diff != "" || len(direct) != 2 {
					t.Errorf("%d requests; with the pipeline and without it:\n%s", len(direct), diff)
				}
			}
		})
	}
}

// Each attempt is observed once, with what was sent and what came, with azcore's pipeline and
// without it.
func TestAttemptsAreObserved(t *testing.T) {
	for _, options := range []*ClientOptions{{}, logged} {
		s := newService(t, status(429, "x-ms-retry-after-ms", "1"), errRefused, ok("{}"))
		var observed []string
		opts := *options
		opts.ObserveAttempt = func(req *http.Request, resp *http.Response, err error) {
			if req.URL.Path == "/" {
				return // the account
			}
			outcome := fmt.Sprint(err)
			if resp != nil {
				outcome = fmt.Sprint(resp.StatusCode)
			}
			observed = append(observed, req.Method+" "+outcome+" "+fmt.Sprint(req.Header.Get("Authorization") != ""))
		}
		c := s.containerWith(&opts)
		if _, err := c.Read(t.Context(), "x", onePK); err != nil {
			t.Fatal(err)
		}
		want := []string{"GET 429 true", "GET " + errRefused.Error() + " true", "GET 200 true"}
		if diff := cmp.Diff(want, observed); diff != "" || (c.client.direct != nil) != (options != logged) {
			t.Errorf("direct: %t, observed:\n%s", c.client.direct != nil, diff)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// The header of a token is kept for a second: azcore's policy is asked again after it, and at once if
// the service has rejected the token.
func TestTokenIsKeptForItsSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		bearer := policyFunc(func(req *policy.Request) (*http.Response, error) {
			asked++
			req.Raw().Header.Set("Authorization", fmt.Sprint("Bearer ", asked))
			return req.Next()
		})
		h := newTokenHolder(bearer, &url.URL{Scheme: "https", Host: "games.example"}, time.Now)
		for step, test := range []struct {
			wait    time.Duration
			refused bool
			want    string
		}{{0, false, "1"}, {999 * time.Millisecond, false, "1"}, {time.Millisecond, false, "2"}, {0, true, "4"}} {
			time.Sleep(test.wait)
			if test.refused {
				h.refused(t.Context())
			}
			date, got, err := h.authorize(t.Context(), nil)
			if want := tokenAuthorization("Bearer " + test.want); err != nil || got[0] != want || date[0] != time.Now().UTC().Format(http.TimeFormat) {
				t.Errorf("step %d: %s of %s, want %s: %v", step, got, date, want, err)
			}
		}
	})
}

// What azcore's pipeline is for keeps it in use.
func TestPoliciesKeepThePipeline(t *testing.T) {
	none := policyFunc(func(req *policy.Request) (*http.Response, error) { return req.Next() })
	t.Setenv("AZURE_SDK_GO_LOGGING", "")
	for name, test := range map[string]struct {
		opts azcore.ClientOptions
		env  string
		want bool
	}{
		"plain":       {want: true},
		"application": {opts: azcore.ClientOptions{Telemetry: policy.TelemetryOptions{ApplicationID: "shop"}}, want: true},
		"per call":    {opts: azcore.ClientOptions{PerCallPolicies: []policy.Policy{none}}},
		"per try":     {opts: azcore.ClientOptions{PerRetryPolicies: []policy.Policy{none}}},
		"log":         {env: "all"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("AZURE_SDK_GO_LOGGING", test.env)
			s := newService(t, ok("{}"))
			c := s.containerWith(&ClientOptions{ClientOptions: test.opts})
			if _, err := c.Read(t.Context(), "x", onePK); err != nil || (c.client.direct != nil) != test.want {
				t.Errorf("direct: %t, %v", c.client.direct != nil, err)
			}
			if name == "application" && s.requests[0].Header.Get("User-Agent")[:5] != "shop " {
				t.Errorf("the client is called %q", s.requests[0].Header.Get("User-Agent"))
			}
		})
	}
}

// policyFunc is a policy of the caller.
type policyFunc func(*policy.Request) (*http.Response, error)

func (f policyFunc) Do(req *policy.Request) (*http.Response, error) { return f(req) }
