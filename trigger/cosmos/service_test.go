package cosmos

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// key is the well-known key of the Cosmos DB emulator.
const key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

const endpoint = "https://games.documents.azure.com:443/"

// service is a fake account. It answers reads of the account itself, and all
// other requests from a script.
type service struct {
	t      testing.TB
	answer func(n int, req *http.Request) (*http.Response, error) // n counts from 0

	// account answers GET /. If nil, the account has one region, at the
	// endpoint.
	account func(n int, req *http.Request) (*http.Response, error)

	mu           sync.Mutex
	requests     []sent // without account reads
	accountReads []sent
}

// sent is a request that was sent.
type sent struct {
	*http.Request
	body string
	at   time.Time
}

func (s *service) Do(req *http.Request) (*http.Response, error) {
	one := sent{Request: req, at: time.Now()}
	if req.Body != nil {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			s.t.Error(err)
		}
		one.body = string(body)
	}
	s.mu.Lock()
	list, answer := &s.requests, s.answer
	if req.URL.Path == "/" {
		list, answer = &s.accountReads, s.account
	}
	n := len(*list)
	*list = append(*list, one)
	s.mu.Unlock()
	if answer == nil {
		return reply(200, accountBody(endpoint, endpoint)), nil
	}
	return answer(n, req)
}

// accountBody returns an account with write region West US and read regions
// West US and North Europe.
func accountBody(west, north string) string {
	return fmt.Sprintf(`{"id":"games","writableLocations":[{"name":"West US","databaseAccountEndpoint":%q}],`+
		`"readableLocations":[{"name":"West US","databaseAccountEndpoint":%[1]q},{"name":"North Europe","databaseAccountEndpoint":%q}],`+
		`"enableMultipleWriteLocations":false,"userConsistencyPolicy":{"defaultConsistencyLevel":"Session"}}`, west, north)
}

// reply returns an answer; headers alternates names and values.
func reply(status int, body string, headers ...string) *http.Response {
	h := http.Header{}
	h.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{
		Status: http.StatusText(status), StatusCode: status, Header: h,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// script returns the answers in turn, and repeats the last one. A func makes a
// *http.Response, an error is returned.
func script(answers ...any) func(int, *http.Request) (*http.Response, error) {
	return func(n int, req *http.Request) (*http.Response, error) {
		switch a := answers[min(n, len(answers)-1)].(type) {
		case func() *http.Response:
			return a(), nil
		case error:
			return nil, a
		default:
			panic(fmt.Sprintf("script: %T", a))
		}
	}
}

func status(code int, headers ...string) func() *http.Response {
	return func() *http.Response { return reply(code, `{"code":"Code","message":"message"}`, headers...) }
}

func ok(body string, headers ...string) func() *http.Response {
	return func() *http.Response { return reply(200, body, append([]string{"Etag", `"1"`}, headers...)...) }
}

func newService(t testing.TB, answers ...any) *service {
	s := &service{t: t}
	if len(answers) > 0 {
		s.answer = script(answers...)
	}
	return s
}

func (s *service) client(opts *ClientOptions) *Client {
	s.t.Helper()
	if opts == nil {
		opts = &ClientOptions{}
	}
	opts.Transport = s
	cred, err := KeyCredential(key)
	if err != nil {
		s.t.Fatal(err)
	}
	c, err := NewClient(endpoint, cred, opts)
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *service) container() *Container { return s.client(nil).Container("Games", "High Scores") }

// Errors in the form that net/http returns.
var (
	errRefused  = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	errNoHost   = &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "games", IsNotFound: true}}
	errReset    = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}
	errEnded    = &url.Error{Op: "Get", URL: endpoint, Err: io.EOF}
	errOther    = errors.New("somehow")
	onePK       = NewPartitionKey("a")
	_           = azcore.ETag("")
	emptyPage   = `{"_rid":"r","Documents":[],"_count":0}`
	wholeRange  = Range{ID: "0", Min: "", Max: "FF"}
	middleRange = Range{ID: "2", Min: "10", Max: "20"}
)
