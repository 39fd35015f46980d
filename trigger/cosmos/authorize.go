package cosmos

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// authorization returns the policies that date and sign each attempt. An empty
// audience means the default scope of the account at base.
func authorization(cred Credential, base *url.URL, audience string, now func() time.Time) []policy.Policy {
	if cred.token == nil {
		return []policy.Policy{&keyPolicy{sign: cred.sign, now: now}}
	}
	return []policy.Policy{bearerPolicy(cred, base, audience), &tokenPolicy{now}}
}

// bearerPolicy returns azcore's policy for tokens, which caches the token, refreshes it early, and drops
// it on 401.
func bearerPolicy(cred Credential, base *url.URL, audience string) policy.Policy {
	if audience == "" {
		audience = "https://" + base.Hostname() + "/.default"
	}
	return runtime.NewBearerTokenPolicy(tokensWithoutCAE{cred.token()}, []string{audience}, &policy.BearerTokenOptions{
		InsecureAllowCredentialWithHTTP: base.Scheme == "http", // loopback only: see NewClient
	})
}

// keyPolicy signs with the account's key. The signatures of a second are kept: they
// cover the date in whole seconds, and ranges of one container share them.
type keyPolicy struct {
	sign func(string) string
	now  func() time.Time

	mu         sync.Mutex // guards the fields below it
	second     int64      // since 1970
	date       []string   // of the second; one value
	signatures map[signedLink][]string
}

// signedLink is the part of a request that a signature covers, except for the date.
type signedLink struct{ method, kind, parent string }

// maxSignatures bounds the signatures that are kept: those of documents are used once.
const maxSignatures = 256

func (p *keyPolicy) Do(req *policy.Request) (*http.Response, error) {
	var op *operation
	req.OperationValue(&op)
	h := req.Raw().Header
	h[headerDate], h["Authorization"] = p.dateAndSign(signedLink{op.method, op.kind, op.parent})
	return req.Next()
}

// authorize implements authorizer.
func (p *keyPolicy) authorize(_ context.Context, op *operation) (date, signature []string, err error) {
	date, signature = p.dateAndSign(signedLink{op.method, op.kind, op.parent})
	return date, signature, nil
}

// refused implements authorizer: there is no other key.
func (p *keyPolicy) refused(context.Context) {}

// dateAndSign returns the date of a request and its Authorization header, as values of a header that
// are not changed in place.
func (p *keyPolicy) dateAndSign(link signedLink) (date, signature []string) {
	// Use the service's time: the service rejects a date that is off by more
	// than 15 minutes.
	now := p.now().UTC()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.signatures == nil || p.second != now.Unix() || len(p.signatures) >= maxSignatures {
		p.second, p.date, p.signatures = now.Unix(), []string{now.Format(http.TimeFormat)}, map[signedLink][]string{}
	}
	signature, known := p.signatures[link]
	if !known {
		signature = []string{url.QueryEscape("type=master&ver=1.0&sig=" + p.sign(stringToSign(link.method, link.kind, link.parent, p.date[0])))}
		p.signatures[link] = signature
	}
	return p.date, signature
}

// stringToSign returns the text that a key signature covers. The resource link
// has no leading slash, is not escaped and keeps its case.
//
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources
func stringToSign(method, kind, link, date string) string {
	return strings.ToLower(method) + "\n" + kind + "\n" + link + "\n" + strings.ToLower(date) + "\n\n"
}

// tokenPolicy converts the bearer token that azcore's policy has set to the
// form that Cosmos DB expects.
type tokenPolicy struct{ now func() time.Time }

func (p *tokenPolicy) Do(req *policy.Request) (*http.Response, error) {
	h := req.Raw().Header
	h.Set(headerDate, p.now().UTC().Format(http.TimeFormat))
	h.Set("Authorization", tokenAuthorization(h.Get("Authorization")))
	return req.Next()
}

// tokenAuthorization converts the value of a bearer token.
func tokenAuthorization(bearer string) string {
	return url.QueryEscape("type=aad&ver=1.0&sig=" + strings.TrimPrefix(bearer, "Bearer "))
}

// tokensWithoutCAE requests tokens without continuous access evaluation (CAE),
// which Cosmos DB does not support.
type tokensWithoutCAE struct{ azcore.TokenCredential }

func (t tokensWithoutCAE) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	o.EnableCAE, o.Claims = false, ""
	return t.TokenCredential.GetToken(ctx, o)
}
