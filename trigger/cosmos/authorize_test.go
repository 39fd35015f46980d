package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

const vectorDate = "Thu, 27 Apr 2017 00:51:12 GMT"

// The first vector is the example of "Access control on Azure Cosmos DB
// resources" in the REST reference. The others were computed with openssl by
// the steps given there.
func TestStringToSignMatchesReferenceVectors(t *testing.T) {
	const documented = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw=="
	for _, v := range []struct{ key, method, kind, link, want string }{
		{documented, "GET", "dbs", "dbs/ToDoList", "c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu+c+c="},
		{key, "GET", "", "", "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="},
		{key, "POST", "docs", "dbs/Games/colls/High Scores", "d61B0m431kpP1bpxo7SnLXym3mIofw7wNpvQ8xSBudU="},
		{key, "PUT", "docs", "dbs/Games/colls/High Scores/docs/Ä b", "W8YXHeAtVj3rKptEztFA3N5nJyRRUdx0RgpCp3nhXLM="},
	} {
		cred, err := KeyCredential(v.key)
		if err != nil {
			t.Fatal(err)
		}
		if got := cred.sign(stringToSign(v.method, v.kind, v.link, vectorDate)); got != v.want {
			t.Errorf("%s %s: got %s, want %s", v.method, v.link, got, v.want)
		}
	}
}

// Each operation must sign the resource link that the service computes from the
// path: the link of the document, or of its owner if the path is a list.
func TestOperationsSignTheirResource(t *testing.T) {
	const (
		rootSignature       = "gFB1bRB/PLJTG3bCgMuoVgNzOyFvZAamzEtLuSITjRc="
		postSignature       = "d61B0m431kpP1bpxo7SnLXym3mIofw7wNpvQ8xSBudU="
		putSignature        = "W8YXHeAtVj3rKptEztFA3N5nJyRRUdx0RgpCp3nhXLM="
		rangesSignature     = "yqwJxubnfVlrXavdtmKgPgFqbDct6GU7lmH+SleEmMI="
		databasesSignature  = "CHjhNtQltyEuPdWLf2/f+hSkSlYg+7UuFlwMyv8L7mI="
		containersSignature = "RtRHKb1VQyrlT2oehS0Xdon/ZkQNxSjmp+MjdynFQco="
	)
	ctx := context.Background()
	for name, test := range map[string]struct {
		call      func(*Container) error
		path      string
		signature string
	}{
		"create": {func(c *Container) error { _, err := c.Create(ctx, onePK, "{}"); return err },
			"/dbs/Games/colls/High%20Scores/docs", postSignature},
		"query": {func(c *Container) error { _, err := c.queryPage(ctx, Query{Text: "SELECT * FROM c"}); return err },
			"/dbs/Games/colls/High%20Scores/docs", postSignature},
		"replace": {func(c *Container) error { _, err := c.Replace(ctx, "Ä b", onePK, "{}", ""); return err },
			"/dbs/Games/colls/High%20Scores/docs/%C3%84%20b", putSignature},
		"ranges": {func(c *Container) error { _, err := c.Ranges(ctx); return err },
			"/dbs/Games/colls/High%20Scores/pkranges", rangesSignature},
		"create database": {func(c *Container) error { return c.Client().CreateDatabase(ctx, "x") },
			"/dbs", databasesSignature},
		"create container": {func(c *Container) error {
			return c.Client().CreateContainer(ctx, "Games", ContainerDefinition{ID: "x"})
		}, "/dbs/Games/colls", containersSignature},
	} {
		t.Run(name, func(t *testing.T) {
			s := newService(t, status(400))
			c := s.container()
			moment, _ := http.ParseTime(vectorDate)
			c.client.clock.date, c.client.clock.at = moment, time.Now()
			s.account = func(int, *http.Request) (*http.Response, error) {
				return reply(200, accountBody(endpoint, endpoint), "Date", vectorDate), nil
			}
			if err := test.call(c); !isStatus(err, 400) {
				t.Fatal(err)
			}
			for want, req := range map[string]sent{rootSignature: s.accountReads[0], test.signature: s.requests[0]} {
				text, err := url.QueryUnescape(req.Header.Get("Authorization"))
				if err != nil || text != "type=master&ver=1.0&sig="+want || req.Header.Get("x-ms-date") != vectorDate {
					t.Errorf("%s: %s on %s, %v", req.URL, text, req.Header.Get("x-ms-date"), err)
				}
			}
			if got := s.requests[0].URL.EscapedPath(); got != test.path {
				t.Errorf("path %s, want %s", got, test.path)
			}
		})
	}
}

// tokens issues a new token for each request.
type tokens struct {
	asked []policy.TokenRequestOptions
	life  time.Duration
	err   error
}

func (c *tokens) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.asked = append(c.asked, o)
	return azcore.AccessToken{Token: "token+" + strings.Repeat("I", len(c.asked)), ExpiresOn: time.Now().Add(c.life)}, c.err
}

func tokenClient(t *testing.T, s *service, c *tokens, opts ClientOptions) *Container {
	t.Helper()
	opts.Transport = s
	client, err := NewClient(endpoint, TokenCredential(c), &opts)
	if err != nil {
		t.Fatal(err)
	}
	return client.Container("db", "c")
}

func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, c := newService(t, ok("{}")), &tokens{life: time.Hour}
		container := tokenClient(t, s, c, ClientOptions{})
		read := func() {
			if _, err := container.Read(t.Context(), "x", onePK); err != nil {
				t.Fatal(err)
			}
		}
		read()
		read()
		if len(c.asked) != 1 || c.asked[0].Scopes[0] != "https://games.documents.azure.com/.default" || c.asked[0].EnableCAE {
			t.Errorf("asked %+v", c.asked)
		}
		time.Sleep(56 * time.Minute)
		read()
		if len(c.asked) != 2 {
			t.Errorf("asked %d times, want a second token before the first one ends", len(c.asked))
		}
		last := s.requests[len(s.requests)-1].Header
		if got := last.Get("Authorization"); got != "type%3Daad%26ver%3D1.0%26sig%3Dtoken%2BII" || last.Get("x-ms-date") == "" {
			t.Errorf("sent %s", got)
		}
	})
}

func TestTokenAudience(t *testing.T) {
	s, c := newService(t, ok("{}")), &tokens{life: time.Hour}
	if _, err := tokenClient(t, s, c, ClientOptions{Audience: "https://cosmos.azure.com/.default"}).Read(t.Context(), "x", onePK); err != nil {
		t.Fatal(err)
	}
	if got := c.asked[0].Scopes[0]; got != "https://cosmos.azure.com/.default" {
		t.Errorf("scope %s", got)
	}
}

// A rejected token is renewed once; a second rejection is returned to the
// caller.
func TestRejectedTokenIsRenewedOnce(t *testing.T) {
	for name, test := range map[string]struct {
		answers   []any
		wantAsked int
		wantErr   int
	}{
		"expired":   {[]any{status(401), ok("{}")}, 2, 0},
		"not ours":  {[]any{status(401)}, 2, 401},
		"challenge": {[]any{status(401, "WWW-Authenticate", `Bearer realm="x", claims="e30="`), ok("{}")}, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := newService(t, test.answers...), &tokens{life: time.Hour}
			_, err := tokenClient(t, s, c, ClientOptions{}).Create(t.Context(), onePK, "{}")
			if got, _ := Status(err); got != test.wantErr || len(c.asked) != test.wantAsked {
				t.Errorf("asked %d times, %v", len(c.asked), err)
			}
			if errors.Is(err, ErrOutcomeUnknown) {
				t.Error("a write with a renewed token was not applied")
			}
		})
	}
}

func TestRejectedKeyIsNotRetried(t *testing.T) {
	s := newService(t, status(401))
	_, err := s.container().Read(t.Context(), "x", onePK)
	if !isStatus(err, 401) || len(s.requests) != 1 || !strings.Contains(err.Error(), "wrong or rotated key") {
		t.Errorf("%d requests, %v", len(s.requests), err)
	}
}

func TestTokenErrorIsNotRetried(t *testing.T) {
	s, c := newService(t), &tokens{err: errOther}
	_, err := tokenClient(t, s, c, ClientOptions{}).Create(t.Context(), onePK, "{}")
	if !errors.Is(err, errOther) || errors.Is(err, ErrOutcomeUnknown) || len(c.asked) != 1 || len(s.accountReads) != 0 {
		t.Errorf("asked %d times, %v", len(c.asked), err)
	}
}

// A signature is computed once in a second for each kind of request, and is the one
// that would be computed again.
func TestSignaturesAreKeptForTheirSecond(t *testing.T) {
	now, signed := time.Unix(1_700_000_000, 0), 0
	p := &keyPolicy{
		sign: func(text string) string { signed++; return text },
		now:  func() time.Time { return now },
	}
	for step, test := range []struct {
		wait   time.Duration
		of     signedLink
		signed int
	}{
		{0, signedLink{"GET", "docs", "dbs/db/colls/a"}, 1},
		{999 * time.Millisecond, signedLink{"GET", "docs", "dbs/db/colls/a"}, 1},
		{0, signedLink{"GET", "docs", "dbs/db/colls/b"}, 2},
		{0, signedLink{"POST", "docs", "dbs/db/colls/a"}, 3},
		{time.Millisecond, signedLink{"GET", "docs", "dbs/db/colls/a"}, 4},
		{-time.Millisecond, signedLink{"GET", "docs", "dbs/db/colls/a"}, 5},
	} {
		now = now.Add(test.wait)
		dates, signatures := p.dateAndSign(test.of)
		date, got := dates[0], signatures[0]
		want := url.QueryEscape("type=master&ver=1.0&sig=" + stringToSign(test.of.method, test.of.kind, test.of.parent, now.UTC().Format(http.TimeFormat)))
		if got != want || date != now.UTC().Format(http.TimeFormat) || signed != test.signed {
			t.Errorf("step %d: %s of %s after %d signatures, want %s after %d", step, got, date, signed, want, test.signed)
		}
	}
	for i := range 2 * maxSignatures {
		p.dateAndSign(signedLink{"PUT", "docs", fmt.Sprint(i)})
	}
	if len(p.signatures) > maxSignatures {
		t.Errorf("%d signatures are kept", len(p.signatures))
	}
}
