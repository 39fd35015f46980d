package functions

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"halley/function/app/internal/page"
)

// TestWrappedRequestsReachThePage: the Functions host's invocation becomes the request
// that the viewer sent, and the address without a slash is corrected.
func TestWrappedRequestsReachThePage(t *testing.T) {
	p, err := page.New(page.Options{
		App: "shop", Token: "0123456789abcdef", Recorder: &page.Recorder{}, Private: true, Polled: true,
		Source: page.Source{Look: func(context.Context) page.State { return page.State{} }, DeadLetters: func(context.Context, page.LetterQuery) (page.LetterPage, error) {
			return page.LetterPage{}, nil
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	call := func(p *page.Page, req string) (status int, headers map[string]string, body string) {
		t.Helper()
		outputs, err := pageAnswers(p)(t.Context(), invocation{Data: map[string]json.RawMessage{"req": json.RawMessage(req)}})
		if err != nil {
			t.Fatal(err)
		}
		res := outputs["res"].(map[string]any)
		return res["statusCode"].(int), res["headers"].(map[string]string), res["body"].(string)
	}
	const headers = `"Headers":{"authorization":["Bearer 0123456789abcdef"],"x-forwarded-for":["203.0.113.7:1234"]},`
	for name, test := range map[string]struct {
		req    string
		status int
		has    string
	}{
		"page":          {`{"Url":"https://shop.example/api/status/","Method":"GET",` + headers + `"Params":{},"Body":null}`, 200, "page.js"},
		"data":          {`{"Url":"https://shop.example/api/status/api/v1/status","Method":"GET",` + headers + `"Params":{"path":"api/v1/status"}}`, 200, `"polled":true`},
		"text of JSON":  {`"{\"Url\":\"https://shop.example/api/status/page.css\",\"Method\":\"GET\",\"Params\":{\"path\":\"page.css\"}}"`, 200, "color-scheme"},
		"no token":      {`{"Url":"https://shop.example/api/status/api/v1/status","Method":"GET","Params":{"path":"api/v1/status"}}`, 401, "HALLEY_PAGE_TOKEN"},
		"sign in":       {`{"Url":"https://shop.example/api/status/sign-in","Method":"POST","Params":{"path":"sign-in"},"Body":"token=0123456789abcdef"}`, 303, ""},
		"another site":  {`{"Url":"https://shop.example/api/status/api/v1/plans","Method":"POST","Headers":{"sec-fetch-site":["cross-site"],"authorization":["Bearer 0123456789abcdef"]},"Params":{"path":"api/v1/plans"},"Body":"{}"}`, 403, "origin"},
		"without slash": {`{"Url":"https://shop.example/api/status?token=x","Method":"GET","Params":{}}`, 302, ""},
	} {
		status, got, body := call(p, test.req)
		if status != test.status || !strings.Contains(body, test.has) {
			t.Errorf("%s: status %d, want %d: %s", name, status, test.status, body)
		}
		switch name {
		case "sign in":
			if cookie := got["Set-Cookie"]; !strings.Contains(cookie, "Secure") || !strings.Contains(cookie, "HttpOnly") || strings.Contains(cookie, "Path=") {
				t.Errorf("cookie %q", cookie)
			}
		case "without slash":
			if got["Location"] != "status/?token=x" {
				t.Errorf("location %q", got["Location"])
			}
		}
	}
	if status, _, body := call(nil, `{"Url":"https://shop.example/api/status/","Method":"GET"}`); status != http.StatusServiceUnavailable || !strings.Contains(body, "set HALLEY_PAGE_TOKEN") {
		t.Errorf("without a token: %d %s", status, body)
	}
	if _, err := pageAnswers(p)(t.Context(), invocation{}); err == nil {
		t.Error("an invocation without a request is answered")
	}
}
