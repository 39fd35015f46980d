package cosmos

import (
	"bytes"
	"context"
	"errors"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/log"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

func TestNewClientRejectsInvalidOptions(t *testing.T) {
	cred, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	token := TokenCredential(secretTokens{})
	for name, test := range map[string]struct {
		endpoint string
		cred     Credential
		want     string
	}{
		"nothing":         {"", cred, "must be https://"},
		"a name":          {"games", cred, "must be https://"},
		"other scheme":    {"ftp://games", cred, "must be https://"},
		"control":         {"https://ga\nmes", cred, "must be https://"},
		"user":            {"https://me:secret@games.example/", cred, "no user, path or query"},
		"path":            {"https://games.example/dbs", cred, "no user, path or query"},
		"plain to Azure":  {"http://games.documents.azure.com/", cred, "must begin with https://"},
		"token over http": {"http://games.example/", token, "not sent over http"},
		"no credential":   {endpoint, Credential{}, "no credential"},
		"nil token":       {endpoint, TokenCredential(nil), "no credential"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewClient(test.endpoint, test.cred, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
	for _, endpoint := range []string{endpoint, "https://games.documents.azure.com", "http://localhost:8081/", "http://127.0.0.1:8081"} {
		for _, cred := range []Credential{cred, token} {
			c, err := NewClient(endpoint, cred, nil)
			if err != nil || c.Endpoint() != endpoint {
				t.Errorf("%s: %v", endpoint, err)
			}
		}
	}
}

// The default transport reuses a connection, reads bodies of any length, those of errors too, and
// leaves no goroutine or connection behind.
func TestDefaultTransportReusesConnections(t *testing.T) {
	var connections atomic.Int32
	page := feedPage(2000, 200)
	var server *httptest.Server
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("%s, Accept-Encoding %q", r.Proto, r.Header.Get("Accept-Encoding"))
		}
		if r.URL.Path == "/" {
			w.Write([]byte(accountBody(server.URL, server.URL)))
			return
		}
		if strings.HasSuffix(r.URL.Path, "/docs/absent") {
			http.Error(w, `{"code":"NotFound","message":"`+strings.Repeat("not here ", 2000)+`the end"}`, http.StatusNotFound)
			return
		}
		w.Header()["etag"] = []string{`"1"`}
		if r.Header.Get("x-ms-documentdb-partitionkeyrangeid") == "1" {
			w.WriteHeader(304)
			return
		}
		w.Write(page)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	cred, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(server.URL, cred, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := client.Container("db", "c")
	for range 3 {
		page, err := c.ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
		if err != nil || len(page.Items) != 2000 {
			t.Fatal(err)
		}
		page.Release()
		if page, err = c.ReadFeed(t.Context(), FeedRequest{Range: Range{ID: "1", Max: "FF"}}); err != nil || !page.NotModified {
			t.Fatal(err)
		}
		var answer *Error
		if _, err := c.Read(t.Context(), "absent", NewPartitionKey("absent")); !errors.As(err, &answer) || answer.Code != "NotFound" {
			t.Fatalf("error of a long answer: %v", err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	client.CloseIdleConnections()
}

// A page whose connection closes before its end is an error.
func TestPageOfClosedConnectionIsAnError(t *testing.T) {
	page := feedPage(20, 200)
	var tries atomic.Int32
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Write([]byte(accountBody(server.URL, server.URL)))
			return
		}
		w.Header().Set("etag", `"1"`)
		if tries.Add(1) > 1 {
			w.Write(page)
			return
		}
		w.Write(page[:len(page)/2])
		http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	cred, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(server.URL, cred, &ClientOptions{ClientOptions: azcore.ClientOptions{Retry: policy.RetryOptions{RetryDelay: -1}}})
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	got, err := client.Container("db", "c").ReadFeed(t.Context(), FeedRequest{Range: wholeRange})
	if err != nil || len(got.Items) != 20 || tries.Load() != 2 {
		t.Errorf("%d tries, %v", tries.Load(), err)
	}
}

// A certificate that is not trusted is an error at once, without retries.
func TestUntrustedCertificateIsNotRetried(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = stdlog.New(io.Discard, "", 0) // hides the log of the rejected handshake
	server.StartTLS()
	defer server.Close()
	cred, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	client, err := NewClient(server.URL, cred, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = writeOne(t.Context(), client.Container("db", "c"))
	if err == nil || !strings.Contains(err.Error(), "certificate") || errors.Is(err, ErrOutcomeUnknown) || time.Since(start) > 5*time.Second {
		t.Errorf("after %v: %v", time.Since(start), err)
	}
}

func TestClockFollowsDateHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c clock
		service := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		shows := func(date time.Time) { c.observe(reply(200, "", "Date", date.Format(http.TimeFormat))) }
		want := func(date time.Time) {
			t.Helper()
			if got := c.now(); !got.Equal(date) {
				t.Errorf("clock shows %v, want %v", got, date)
			}
		}
		want(time.Now())
		shows(service)
		want(service)
		time.Sleep(1900 * time.Millisecond)
		want(service.Add(1900 * time.Millisecond))
		shows(service.Add(time.Second)) // behind by the fraction that the header cuts off
		want(service.Add(1900 * time.Millisecond))
		shows(service.Add(3 * time.Second)) // ahead: earlier headers were delayed
		want(service.Add(3 * time.Second))
		shows(service.Add(-10 * time.Minute)) // far behind: the clock was set back
		want(service.Add(-10 * time.Minute))
		c.observe(reply(200, "", "Date", "yesterday"))
		want(service.Add(-10 * time.Minute))
	})
}

// Requests are dated by the service's clock, so a wrong local clock does no
// harm.
func TestRequestsAreDatedByServiceClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := time.Now().Add(2 * time.Hour).UTC()
		s := newService(t, func() *http.Response { return reply(200, "{}", "Date", service.Format(http.TimeFormat)) })
		s.account = func(int, *http.Request) (*http.Response, error) {
			return reply(200, accountBody(endpoint, endpoint), "Date", service.Format(http.TimeFormat)), nil
		}
		c := s.container()
		if err := readOne(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		if got := s.requests[0].Header.Get("x-ms-date"); got != service.Format(http.TimeFormat) || !c.client.Now().Equal(service) {
			t.Errorf("dated %s, clock %v", got, c.client.Now())
		}
	})
}

// azcore's log contains no keys and no resource names.
func TestLogShowsNoSecrets(t *testing.T) {
	var out bytes.Buffer
	log.SetListener(func(_ log.Event, text string) { out.WriteString(text) })
	defer log.SetListener(nil)
	s := newService(t, ok(`{"card":"secret-card"}`, "x-ms-request-charge", "7.25"))
	if _, err := s.containerWith(logged).Replace(context.Background(), "x", NewPartitionKey("secret-pk"), []byte(`{"card":"secret-card"}`), ""); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "7.25") {
		t.Error("the charge is not logged")
	}
	for _, secret := range []string{"secret-pk", "secret-card", "master"} {
		if strings.Contains(out.String(), secret) {
			t.Errorf("%q is logged:\n%s", secret, out.String())
		}
	}
}
