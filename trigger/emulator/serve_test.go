package emulator

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve serves an account until the test ends and returns its endpoint.
func serve(t *testing.T, a *Account, o ServeOptions) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	o.Ready = func(endpoint string) { ready <- endpoint }
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	go func() { done <- a.Serve(ctx, o) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case endpoint := <-ready:
		return endpoint
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
	return ""
}

// A connection that a client opened in advance does not delay the end.
func TestServeEndsDespiteUnusedConnections(t *testing.T) {
	_, a := newItems(t, 1, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- a.Serve(ctx, ServeOptions{Addr: "127.0.0.1:0", Ready: func(endpoint string) { ready <- endpoint }})
	}()
	address := strings.TrimSuffix(strings.TrimPrefix(<-ready, "http://"), "/")
	unused, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer unused.Close()
	resp, err := http.Get("http://" + address + "/_emulator/state") // accepted after the other one
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	began := time.Now()
	cancel()
	if err := <-done; err != nil || time.Since(began) > stopGrace/2 {
		t.Errorf("ended after %v: %v", time.Since(began), err)
	}
}

func TestServeHTTP(t *testing.T) {
	_, a := newItems(t, 1, nil)
	endpoint := serve(t, a, ServeOptions{})
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{t: t, do: (&http.Client{Transport: transport}).Do, endpoint: strings.TrimSuffix(endpoint, "/")}
	account := c.expect("200", "GET", "/", "").decode(t)
	if got := account["writableLocations"].([]any)[0].(map[string]any); got["databaseAccountEndpoint"] != endpoint || got["name"] != "South Central US" {
		t.Errorf("the account is at %v, want %s", got, endpoint)
	}
	if account["id"] == "localhost" {
		t.Error("the account's id is localhost")
	}
	c.create("a", "k")
	var reused bool
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	resp, err := c.do(c.request("GET", items+"/a", "", pk("k")).WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if !reused {
		t.Error("the connection was not kept alive")
	}
	if !strings.Contains(a.ConnectionString(), endpoint) {
		t.Errorf("connection string %q lacks %s", a.ConnectionString(), endpoint)
	}
}

func TestTooLargeOnTheWire(t *testing.T) {
	_, a := newItems(t, 1, nil)
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{t: t, do: (&http.Client{Transport: transport}).Do, endpoint: strings.TrimSuffix(serve(t, a, ServeOptions{}), "/")}
	for range 5 {
		c.expect("413", "POST", items, strings.Repeat("x", 8<<20), pk("k")...)
	}
	exact := maxDocument - len(`{"id":"a","pk":"k","v":""}`)
	c.expect("201", "POST", items, `{"id":"a","pk":"k","v":"`+strings.Repeat("x", exact)+`"}`, pk("k")...)
}

// TestHeaderNamesOnTheWire reads the answer as bytes: Python's azure-cosmos 3
// keeps header names as they come.
func TestHeaderNamesOnTheWire(t *testing.T) {
	c, a := newItems(t, 1, nil)
	c.create("a", "k")
	endpoint, _ := url.Parse(serve(t, a, ServeOptions{}))
	conn, err := net.Dial("tcp", endpoint.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	req := c.request("GET", items, "", with(feedHeader, "Connection", "close"))
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\n", items, endpoint.Host)
	if err := req.Header.Write(conn); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(conn, "\r\n")
	seen := map[string]int{}
	lines := bufio.NewScanner(conn)
	for lines.Scan(); lines.Scan() && lines.Text() != ""; {
		name, _, _ := strings.Cut(lines.Text(), ":")
		seen[name]++
	}
	for _, name := range []string{"etag", "x-ms-session-token", "x-ms-request-charge", "content-type", "lsn"} {
		if seen[name] != 1 {
			t.Errorf("header %s was sent %d times, among %v", name, seen[name], seen)
		}
	}
	for name, n := range seen {
		if n != 1 || strings.EqualFold(name, "content-type") && name != "content-type" {
			t.Errorf("header %s was sent %d times", name, n)
		}
	}
}

// TestServeBothSchemes: one port serves HTTP and HTTPS, whichever its endpoint names, and tells
// each client an endpoint in the scheme and under the host that it has used.
func TestServeBothSchemes(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		_, a := newItems(t, 1, nil)
		file := filepath.Join(t.TempDir(), "cert.pem")
		scheme, address, _ := strings.Cut(strings.TrimSuffix(serve(t, a, ServeOptions{TLS: encrypted, CertOut: file}), "/"), "://")
		if (scheme == "https") != encrypted {
			t.Errorf("TLS %v: the endpoint is one of %s", encrypted, scheme)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			t.Fatalf("%s is no PEM certificate", text)
		}
		for _, endpoint := range []string{"http://" + address, "https://" + address, "https://" + strings.Replace(address, "127.0.0.1", "localhost", 1)} {
			for _, protocol := range []int{1, 2} {
				transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, Protocols: new(http.Protocols)}
				transport.Protocols.SetHTTP1(protocol == 1)
				transport.Protocols.SetHTTP2(protocol == 2)
				transport.Protocols.SetUnencryptedHTTP2(protocol == 2)
				c := &client{t: t, do: (&http.Client{Transport: transport}).Do, endpoint: endpoint}
				resp, err := c.do(c.request("GET", "/", "", nil))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.TLS != nil && resp.TLS.PeerCertificates[0].IsCA { // the SDK for Rust would refuse it
					t.Error("the certificate of the server is one of an authority")
				}
				if resp.ProtoMajor != protocol || !strings.Contains(string(body), `"`+endpoint+`/"`) {
					t.Errorf("%s over %s: %s", endpoint, resp.Proto, body)
				}
				transport.CloseIdleConnections()
			}
		}
	}
}

func TestServeRefuses(t *testing.T) {
	_, a := newClient(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, tt := range []struct {
		options ServeOptions
		names   string
	}{
		{ServeOptions{Addr: "0.0.0.0:0"}, "remote"},
		{ServeOptions{Addr: ":0"}, "remote"},
		{ServeOptions{Addr: "192.0.2.1:0"}, "remote"},
		{ServeOptions{Addr: "localhost"}, "host:port"},
		{ServeOptions{Addr: taken.Addr().String()}, "in use"},
		{ServeOptions{Addr: "127.0.0.1:0", CertOut: filepath.Join(t.TempDir(), "no", "file")}, "certificate"},
	} {
		if err := a.Serve(t.Context(), tt.options); err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("%+v: %v, want an error that names %q", tt.options, err, tt.names)
		}
	}
}

func TestClosedAccount(t *testing.T) {
	c, a := newClient(t, nil)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.try("GET", "/", ""); err == nil {
		t.Error("a closed account answers in process")
	}
	outside := &client{t: t, do: http.DefaultClient.Do, endpoint: strings.TrimSuffix(serve(t, a, ServeOptions{}), "/")}
	outside.expect("503", "GET", "/", "")
	http.DefaultClient.CloseIdleConnections()
}

// TestProxyStaysInUse asks for the account through a proxy and as localhost: each
// client is told to go on where it is.
func TestProxyStaysInUse(t *testing.T) {
	_, a := newClient(t, nil)
	endpoint := serve(t, a, ServeOptions{})
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
	}})
	defer proxy.Close()
	for _, address := range []string{proxy.URL, strings.TrimSuffix(strings.Replace(endpoint, "127.0.0.1", "localhost", 1), "/"), strings.TrimSuffix(endpoint, "/")} {
		if got := tellsEndpoint(t, address, ""); got != address+"/" {
			t.Errorf("a client of %s is told %s", address, got)
		}
	}
}

// tellsEndpoint is the endpoint that the account tells a client, with a Host unless it
// is "".
func tellsEndpoint(t *testing.T, address, host string) string {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c := &client{t: t, endpoint: address, do: func(req *http.Request) (*http.Response, error) {
		req.Host = host
		return (&http.Client{Transport: transport}).Do(req)
	}}
	location := c.expect("200", "GET", "/", "").decode(t)["readableLocations"].([]any)[0]
	return location.(map[string]any)["databaseAccountEndpoint"].(string)
}

func TestAdvertisedURL(t *testing.T) {
	_, a := newClient(t, nil)
	if got := serve(t, a, ServeOptions{Advertise: "https://cosmos.test:8443"}); got != "https://cosmos.test:8443/" || a.Endpoint() != got {
		t.Fatalf("the endpoint is %s", got)
	}
}

func TestAdvertisedURLIsToldToAll(t *testing.T) {
	_, a := newClient(t, nil)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := taken.Addr().String()
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	serve(t, a, ServeOptions{Addr: addr, Advertise: "http://cosmos.test/"})
	for _, host := range []string{"", "localhost", "cosmos.test"} {
		if got := tellsEndpoint(t, "http://"+addr, host); got != "http://cosmos.test/" {
			t.Errorf("with the Host %q: %s", host, got)
		}
	}
	for _, bad := range []string{"cosmos.test", "ftp://cosmos.test", "https://", "https://a/path", "https://a?b"} {
		if err := a.Serve(t.Context(), ServeOptions{Addr: "127.0.0.1:0", Advertise: bad}); err == nil || !strings.Contains(err.Error(), "advertise") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// TestServeHTTP2: clients may speak HTTP/2, with prior knowledge or as TLS negotiates it.
func TestServeHTTP2(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		_, a := newItems(t, 1, nil)
		endpoint := serve(t, a, ServeOptions{TLS: encrypted})
		transport := &http.Transport{Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		transport.Protocols.SetHTTP2(encrypted)
		transport.Protocols.SetUnencryptedHTTP2(!encrypted)
		do := func(req *http.Request) (*http.Response, error) {
			resp, err := (&http.Client{Transport: transport}).Do(req)
			if err == nil && resp.ProtoMajor != 2 {
				t.Errorf("TLS %v: the answer is in %s", encrypted, resp.Proto)
			}
			return resp, err
		}
		c := &client{t: t, do: do, endpoint: strings.TrimSuffix(endpoint, "/")}
		c.create("a", "k")
		c.expect("200", "GET", items+"/a", "", pk("k")...)
		c.expect("413", "POST", items, strings.Repeat("x", 8<<20), pk("k")...)
		account := c.expect("200", "GET", "/", "").decode(t)
		if got := account["writableLocations"].([]any)[0].(map[string]any)["databaseAccountEndpoint"]; got != endpoint {
			t.Errorf("the account is at %v, want %s", got, endpoint)
		}
		a.Inject(Fault{Method: "DELETE", Count: 1, Drop: DropBefore})
		if _, err := c.try("DELETE", items+"/a", "", pk("k")...); err == nil {
			t.Errorf("TLS %v: a dropped request has an answer", encrypted)
		}
		c.expect("204", "DELETE", items+"/a", "", pk("k")...)
		transport.CloseIdleConnections()
	}
}
