package cosmos

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Each error names the operation, the answer and the fix.
func TestErrorTexts(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		headers []string
		body    string
		want    []string
	}{
		"wrong key": {401, nil, `{"code":"Unauthorized","message":"The input authorization token can't serve the request.\r\nActivityId: 1"}`,
			[]string{"401 Unauthorized: The input authorization token can't serve the request. (wrong or rotated key"}},
		"permission": {403, []string{"x-ms-substatus", "5302"}, `{"code":"Forbidden","message":"Request blocked by Auth games : Request is blocked because principal [x] does not have required RBAC permissions to perform action [Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed] on resource [dbs/a]."}`,
			[]string{"403/5302 Forbidden", "grant the identity a role with the data action Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed: az cosmosdb sql role assignment create ", ` --principal-id x --scope "/dbs/Games/colls/High Scores")`}},
		"permission of an unknown principal": {403, nil, `{"code":"Forbidden","message":"Missing Microsoft.DocumentDB/databaseAccounts/readMetadata."}`,
			[]string{"the data action Microsoft.DocumentDB/databaseAccounts/readMetadata: ", "--principal-id PRINCIPAL "}},
		"firewall": {403, nil, `{"code":"Forbidden","message":"Request originated from IP 1.2.3.4 through public internet."}`,
			[]string{"check the account's firewall"}},
		"clock": {403, nil, `{"code":"Forbidden","message":"The authorization token is not valid at the current time."}`,
			[]string{"correct the clock"}},
		"no container": {404, []string{"x-ms-substatus", "1003"}, `{"code":"NotFound","message":"Message: {\"Errors\":[\"Owner resource does not exist\"]}"}`,
			[]string{"404/1003 NotFound", `create it, or correct the names: database "Games", container "High Scores"`}},
		"no document": {404, nil, `{"code":"NotFound","message":"gone"}`, []string{"read document dbs/Games/colls/High Scores/docs/x: 404 NotFound: gone"}},
		"key differs": {400, []string{"x-ms-substatus", "1001"}, `{"code":"BadRequest","message":"m"}`, []string{"400/1001 BadRequest: m (the partition key of the request differs"}},
		"too large":   {413, nil, `{"code":"RequestEntityTooLarge","message":"m"}`, []string{"2 MB"}},
		"conflict":    {409, nil, `{"code":"Conflict","message":"m"}`, []string{"409 Conflict: m"}},
		"no body":     {412, nil, ``, []string{": 412 Precondition Failed"}},
		"proxy":       {407, []string{"Content-Type", "text/html"}, `<html>who are you</html>`, []string{"407 Proxy Authentication Required: the answer is not from Cosmos DB (content type text/html): check the endpoint and any proxy"}},
		"hostile":     {400, nil, `{"code":"Bad\u001b[31m","message":"a\u0007b\u202ec\ud800"}`, []string{"400 Bad [31m: a b c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, func() *http.Response { return reply(test.status, test.body, test.headers...) })
			_, err := s.container().Read(t.Context(), "x", onePK)
			for _, want := range append(test.want, "read document dbs/Games/colls/High Scores/docs/x: ") {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got  %v\nwant %s", err, want)
				}
			}
			if strings.ContainsAny(err.Error(), "\r\n\x1b\x07") {
				t.Errorf("control characters in %q", err)
			}
		})
	}
}

func TestErrorMessageIsBounded(t *testing.T) {
	long := strings.Repeat("ä", maxMessage)
	s := newService(t, func() *http.Response { return reply(400, `{"code":"c","message":"`+long+`"}`) })
	_, err := s.container().Read(t.Context(), "x", onePK)
	var e *Error
	if !errors.As(err, &e) || len(e.Message) > maxMessage+len("…") || !strings.HasSuffix(e.Message, "ä…") {
		t.Errorf("%d bytes: %v", len(e.Message), err)
	}
}

func TestErrorFields(t *testing.T) {
	s := newService(t, status(412, "x-ms-substatus", "7", "x-ms-activity-id", "act", "x-ms-retry-after-ms", "1.5"))
	err := writeOne(t.Context(), s.container())
	var e *Error
	want := Error{Op: "replace document dbs/Games/colls/High Scores/docs/x", Status: 412, SubStatus: 7, Code: "Code", Message: "message", ActivityID: "act", RetryAfter: 1500 * time.Microsecond, Account: s.container().Client().Endpoint()}
	if errors.As(err, &e) {
		e.owner = ""
	}
	if e == nil || *e != want {
		t.Errorf("%+v", e)
	}
}

func TestIsStatus(t *testing.T) {
	err := fmt.Errorf("outer: %w", errors.Join(errOther, &Error{Status: 410, SubStatus: 1002}))
	for _, test := range []struct {
		status int
		subs   []int
		want   bool
	}{{410, nil, true}, {410, []int{1002}, true}, {410, []int{1007, 1002}, true}, {410, []int{0}, false}, {404, nil, false}, {0, nil, false}} {
		if got := isStatus(err, test.status, test.subs...); got != test.want {
			t.Errorf("status %d %v: %v", test.status, test.subs, got)
		}
	}
	if s, sub := Status(errOther); s != 0 || sub != 0 || isStatus(errOther, 0) || isStatus(nil, 0) {
		t.Errorf("an error without one has %d/%d", s, sub)
	}
}

func TestStatusPredicates(t *testing.T) {
	predicates := map[string]func(error) bool{
		"not found": IsNotFound, "document not found": IsDocumentNotFound, "conflict": IsConflict, "precondition failed": IsPreconditionFailed,
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{&Error{Status: 404}, "document not found, not found"},
		{&Error{Status: 404, SubStatus: 1002}, "not found"},
		{&Error{Status: 404, SubStatus: 1003}, "not found"},
		{&Error{Status: 409}, "conflict"},
		{&Error{Status: 412}, "precondition failed"},
		{&Error{Status: 410, SubStatus: 1002}, ""},
		{errOther, ""},
		{nil, ""},
	} {
		var hold []string
		for name, holds := range predicates {
			if holds(test.err) {
				hold = append(hold, name)
			}
		}
		slices.Sort(hold)
		if got := strings.Join(hold, ", "); got != test.want {
			t.Errorf("%v is %q, want %q", test.err, got, test.want)
		}
	}
}

// Errors contain no key, signature or document, also if the service repeats
// them.
func TestErrorsShowNoSecrets(t *testing.T) {
	s := newService(t, status(400))
	_, err := s.container().Create(t.Context(), NewPartitionKey("secret-pk"), map[string]string{"id": "x", "card": "secret-card"})
	text := fmt.Sprintf("%v %+v %#v", err, err, err)
	for _, secret := range []string{"secret-pk", "secret-card", key[:8], "sig"} {
		if strings.Contains(text, secret) {
			t.Errorf("%q in %s", secret, text)
		}
	}
}

// TestErrorsDoNotShowSecretsOfURLs: the text of an answer and the URL of a proxy
// may hold a token or a password.
func TestErrorsDoNotShowSecretsOfURLs(t *testing.T) {
	const canary = "CANARYsecret"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, `{"code":"Forbidden","message":"request to https://u:%s@%s/?sig=%s with %s"}`, canary, r.Host, canary, r.Header.Get("Authorization"))
	}))
	defer echo.Close()
	cred, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	for name, proxy := range map[string]string{
		"answer":          "",
		"malformed proxy": "http://u:" + canary + " x@proxy",
		"unreachable":     "http://u:" + canary + "@127.0.0.1:1",
	} {
		client := &http.Client{Transport: &http.Transport{Proxy: func(*http.Request) (*url.URL, error) {
			if proxy == "" {
				return nil, nil
			}
			return url.Parse(proxy)
		}}}
		c, err := NewClient(echo.URL, cred, &ClientOptions{ClientOptions: azcore.ClientOptions{Transport: client, Retry: policy.RetryOptions{MaxRetries: -1}}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Account(t.Context())
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		var answer *Error
		if errors.As(err, &answer) {
			err = fmt.Errorf("%w: %s", err, answer.Message)
		}
		if text := err.Error(); strings.Contains(text, canary) || strings.Contains(text, "sig%3") && !strings.Contains(text, "sig%3D[redacted]") {
			t.Errorf("%s: %s", name, text)
		}
		client.CloseIdleConnections()
	}
}

// endless is a body without an end, which counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	if e.read > 64<<20 {
		return 0, errors.New("more than 64 MB were read")
	}
	e.read += len(p)
	return len(p), nil
}

func (*endless) Close() error { return nil }

// A proxy that answers an error without an end takes neither the memory nor the time of a host.
func TestBodiesOfErrorsAreReadInPart(t *testing.T) {
	body := &endless{}
	s := newService(t, func() *http.Response {
		answer := reply(http.StatusForbidden, "")
		answer.Body, answer.ContentLength = body, -1
		return answer
	})
	_, err := s.container().Read(t.Context(), "id", onePK)
	if !isStatus(err, http.StatusForbidden) || body.read > 2*maxErrorBody {
		t.Errorf("%v after %d bytes", err, body.read)
	}
}
