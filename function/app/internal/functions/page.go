package functions

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strings"

	"halley/function/app/internal/hosting"
	"halley/function/app/internal/page"
)

// pageFunction is the directory of function.json of the operators' page under the
// Functions host: an HTTP function with the route status/{*path}.
const pageFunction = "status"

// webRequest is the value of an HTTP trigger that is called req (azure-functions-host,
// ScriptInvocationContextExtensions).
type webRequest struct {
	URL, Method string
	Headers     map[string][]string
	Params      map[string]string // of the route
	Body        json.RawMessage   // a string, or null
}

// webAnswer is an answer for the output that is called res. It implements
// [http.ResponseWriter].
type webAnswer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (a *webAnswer) Header() http.Header { return a.header }

func (a *webAnswer) Write(b []byte) (int, error) { return a.body.Write(b) }

func (a *webAnswer) WriteHeader(status int) { a.status = cmp.Or(a.status, status) }

func (a *webAnswer) outputs() map[string]any {
	a.header.Del("Content-Length") // the Functions host sets its own
	headers := map[string]string{}
	for name, values := range a.header {
		headers[name] = strings.Join(values, ", ")
	}
	return map[string]any{"res": map[string]any{"statusCode": cmp.Or(a.status, http.StatusOK), "headers": headers, "body": a.body.String()}}
}

// pageAnswers returns the function that answers the calls of the page. Without a token
// there is no page, and it says so.
func pageAnswers(p *page.Page) webFunction {
	return func(ctx context.Context, in invocation) (map[string]any, error) {
		r, err := webRequestOf(ctx, in)
		if err != nil {
			return nil, err
		}
		a := &webAnswer{header: http.Header{}}
		switch {
		case p == nil:
			hosting.Answer(a, http.StatusServiceUnavailable, hosting.Problem{Error: "the page needs a token: set HALLEY_PAGE_TOKEN"})
		case r.URL.Path == "":
			a.header.Set("Location", path.Base(r.RequestURI)+"/"+strings.TrimSuffix("?"+r.URL.RawQuery, "?"))
			a.status = http.StatusFound
		default:
			p.ServeHTTP(a, r)
		}
		return a.outputs(), nil
	}
}

// webRequestOf returns the request of an invocation, with the path below the route: "" if
// its address lacks the slash at the end, so that relative addresses would miss.
func webRequestOf(ctx context.Context, in invocation) (*http.Request, error) {
	var wrapped webRequest
	if err := json.Unmarshal(unwrap(in.Data["req"]), &wrapped); err != nil {
		return nil, refuse(http.StatusBadRequest, "the binding req is no HTTP request: %v", err)
	}
	at, err := url.Parse(wrapped.URL)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "the request has no address: %v", err)
	}
	var body string
	if json.Unmarshal(wrapped.Body, &body) != nil {
		body = string(wrapped.Body)
	}
	r, err := http.NewRequestWithContext(ctx, wrapped.Method, "/", strings.NewReader(body))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	for name, values := range wrapped.Headers {
		for _, value := range values {
			r.Header.Add(name, value)
		}
	}
	r.Host, r.RequestURI, r.RemoteAddr = at.Host, at.Path, cmp.Or(r.Header.Get("X-Forwarded-For"), "unknown")
	r.Header.Set("X-Forwarded-Proto", cmp.Or(r.Header.Get("X-Forwarded-Proto"), at.Scheme))
	r.URL = &url.URL{Path: "/" + strings.TrimPrefix(wrapped.Params["path"], "/"), RawQuery: at.RawQuery}
	if r.URL.Path == "/" && !strings.HasSuffix(at.Path, "/") {
		r.URL.Path = ""
	}
	return r, nil
}
