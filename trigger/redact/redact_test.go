package redact

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

const canary = "CANARYcanary0123456789"

func TestTextKeepsWhatIsNotSecret(t *testing.T) {
	for _, s := range []string{
		"", "no URL", "https://games.documents.azure.com:443/", "see https://example.com/a/b.",
		`Get "https://vault.blob.core.windows.net/dead": dial tcp: lookup failed`,
		"endpoint http://127.0.0.1:8081/: refused", "http://[::1]:8081/x", "redis://cache:6379/0",
		"write https://{account}.documents.azure.com:443/ (https://learn.microsoft.com/x)",
		"redis://host/3", "a key=value pair, a token= and sig=", "lease://",
	} {
		if got := Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestTextRemovesSecrets(t *testing.T) {
	for in, want := range map[string]string{
		`Get "https://v.blob.core.windows.net/dead?sv=1&sig=CANARY": dial tcp`: `Get "https://v.blob.core.windows.net/dead?[redacted]": dial tcp`,
		`Get \"https://h/p?sig=CANARY\": dial`:                                 `Get \"https://h/p?[redacted]\": dial`,
		`{"error":"Get \"https://h/p?sig=CANARY\": dial","n":1}`:               `{"error":"Get \"https://h/p?[redacted]\": dial","n":1}`,
		`{"error":"at https://h/p?sig=CANARY","n":1}`:                          `{"error":"at https://h/p?[redacted]","n":1}`,
		`{"e":"{\"u\":\"https://u:CANARY@h/p\"}"}`:                             `{"e":"{\"u\":\"https://[redacted]@h/p\"}"}`,
		"https://user:CANARY@host/path":                                        "https://[redacted]@host/path",
		"https://CANARY@host":                                                  "https://[redacted]@host",
		"redis://:CANARY@cache:6379/0?x=CANARY":                                "redis://[redacted]@cache:6379/0?[redacted]",
		"redis://me:CANARY/x@cache":                                            "redis://[redacted]@cache",
		"redis://a/CANARY@cache":                                               "redis://[redacted]@cache",
		"redis://me:CANARY?x@cache":                                            "redis://[redacted]",
		"redis://me:CANARY#x@cache":                                            "redis://[redacted]",
		`parse "redis://me:CANARY x\"y@cache": invalid userinfo`:               `parse "redis://[redacted]@cache": invalid userinfo`,
		`parse "redis://:CANARY": invalid port ":CANARY" after host`:           `parse "redis://[redacted]": invalid port "[redacted]" after host`,
		"(https://h/p?x=CANARY), then":                                         "(https://h/p?[redacted]), then",
		"https://h/p#CANARY":                                                   "https://h/p?[redacted]",
		"https://h/p?a=1&u=https://CANARY@x":                                   "https://h/p?[redacted]",
		"<Url>https://h/p?sv=1&amp;sig=CANARY</Url>":                           "<Url>https://h/p?[redacted]</Url>",
		"sv=2024&sp=rw&sig=CANARY%3D&se=1":                                     "sig=[redacted]",
		"type%3dmaster%26ver%3d1.0%26sig%3dCANARY%3d":                          "type%3dmaster%26ver%3d1.0%26sig%3d[redacted]",
		"AccountEndpoint=https://h/;AccountKey=CANARY==;":                      "AccountEndpoint=https://h/;AccountKey=[redacted];",
		"BlobEndpoint=https://h/;SharedAccessSignature=sv=1&sig=CANARY":        "BlobEndpoint=https://h/;sig=[redacted]",
		`{"m":"with sv=1\u0026sp=rw\u0026sig=CANARY%3D\u0026se=1"}`:            `{"m":"with sig=[redacted]"}`,
		`{"e":"{\"m\":\"sv=1\\u0026sig=CANARY%3D\"}"}`:                         `{"e":"{\"m\":\"sig=[redacted]\"}"}`,
		"sv=2024&sig=[redacted]CANARY%3D&se=1":                                 "sig=[redacted]",
		"AccountKey=[redacted]CANARY==;":                                       "AccountKey=[redacted];",
		`\u0026sig=CANARY`:                                                     `\u0026sig=[redacted]`,
		"Authorization: Bearer CANARY.x-y_z":                                   "Authorization: Bearer [redacted]",
		"two\nhttps://h/?q=CANARY\nlines":                                      "two\nhttps://h/?[redacted]\nlines",
	} {
		got := Text(in)
		if got != want {
			t.Errorf("%s\nbecame %s\nwant   %s", in, got, want)
		}
		if repeated := Text(got); repeated != got {
			t.Errorf("%s\nbecame %s\nthen   %s", in, got, repeated)
		}
	}
}

func TestErrorsOfHTTPClientsAreClean(t *testing.T) {
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer slow.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, target := range map[string]string{
		"refused":   "http://" + closed.Addr().String() + "/dead?sv=1&sig=" + canary,
		"DNS":       "https://no-such-host.invalid/dead?sv=1&sig=" + canary,
		"timeout":   slow.URL + "/dead?sv=1&sig=" + canary,
		"user info": "http://user:" + canary + "@" + closed.Addr().String() + "/",
		"malformed": "https://user:" + canary + " x@host/\x7f",
		"port":      "https://host:" + canary,
		"scheme":    "tcp://host?sig=" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
			if err == nil {
				_, err = http.DefaultClient.Do(req)
			}
			if err == nil {
				t.Fatal("no error")
			}
			err = Error(fmt.Errorf("outer: %w", err))
			var found *url.Error
			if !errors.As(err, &found) {
				t.Fatalf("no *url.Error in %v", err)
			}
			for _, text := range []string{err.Error(), fmt.Sprintf("%v %+v %q", err, err, err), found.Error(), found.URL} {
				if strings.Contains(text, canary) {
					t.Errorf("secret in %s", text)
				}
			}
		})
	}
}

func TestErrorKeepsItsChain(t *testing.T) {
	if Error(nil) != nil {
		t.Error("nil became an error")
	}
	if err := errors.New("plain"); Error(err) != err {
		t.Error("an error without secrets was wrapped")
	}
	cause := &url.Error{Op: "Get", URL: "https://h?sig=" + canary, Err: context.DeadlineExceeded}
	err := Error(fmt.Errorf("a: %w", errors.Join(errors.New("b"), cause)))
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), canary) {
		t.Errorf("error is %v", err)
	}
	if cause.URL != "https://h?sig="+canary {
		t.Error("an error that others may share was changed")
	}
}

func FuzzTextKeepsJSON(f *testing.F) {
	f.Add(`Get "https://u:p@h/p?q='x' y": no`)
	f.Add("redis://a\\\"b@c \\ \" x")
	f.Add(`://x\\\`)
	f.Add(`sig="x" AccountKey=\"`)
	f.Fuzz(func(t *testing.T, s string) {
		if cleaned := Text(s); Text(cleaned) != cleaned {
			t.Errorf("%q became %q, then %q", s, cleaned, Text(cleaned))
		}
		line, err := json.Marshal(map[string]string{"error": s, "next": "x"})
		if err != nil {
			t.Skip()
		}
		var decoded map[string]string
		if err := json.Unmarshal([]byte(Text(string(line))), &decoded); err != nil || decoded["next"] != "x" {
			t.Errorf("%s became %s: %v", line, Text(string(line)), err)
		}
	})
}
