package redact

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// forget makes Text forget the secrets of a test.
func forget(t *testing.T) {
	t.Helper()
	previous := learned.Load()
	t.Cleanup(func() { learned.Store(previous) })
}

var upperEscape = regexp.MustCompile("%[0-9A-F]{2}")

// A server that repeats a request may write its secret in any of these forms.
func TestTextRemovesLearnedSecretsInEachForm(t *testing.T) {
	forget(t)
	for _, secret := range []string{"hunter2", `p"w\d/<ü>&é+ x`, "k1/k2+k3==", "a%2Fb c?d"} {
		Learn(secret)
		plain, _ := json.Marshal(secret)
		line, _ := json.Marshal(map[string]string{"error": "answer " + string(plain)})
		basic := http.Request{Header: http.Header{}}
		for name, text := range map[string]string{
			"as it is":        "ERR AUTH " + secret + " called without any password configured",
			"query":           "q=" + url.QueryEscape(secret) + "&x",
			"path":            "/a/" + url.PathEscape(secret),
			"user info":       (&url.URL{Host: "h", User: url.UserPassword("u", secret)}).String(),
			"lower case":      upperEscape.ReplaceAllStringFunc(url.QueryEscape(secret), strings.ToLower),
			"JSON":            string(plain),
			"JSON in JSON":    string(line),
			"quoted by Go":    fmt.Sprintf("%q", secret),
			"base64":          base64.StdEncoding.EncodeToString([]byte(secret)),
			"base64url":       base64.RawURLEncoding.EncodeToString([]byte(secret)),
			"base64 in a URL": url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(secret))),
		} {
			clean := Text(text)
			if !strings.Contains(clean, Mark) || len(clean) > len(text)-len(secret)/2+len(Mark) {
				t.Errorf("%s of %q: %s became %s", name, secret, text, clean)
			}
			if again := Text(clean); again != clean {
				t.Errorf("%s became %s, then %s", text, clean, again)
			}
		}
		for _, user := range []string{"u", "us", "use", "user"} {
			basic.SetBasicAuth(user, secret)
			if clean := Text(basic.Header.Get("Authorization")); !strings.Contains(clean, Mark) {
				t.Errorf("base64 of %s:%s became %s", user, secret, clean)
			}
		}
	}
}

func TestLearnTakesValuesApart(t *testing.T) {
	for value, secret := range map[string]string{
		"AccountEndpoint=https://h/;AccountKey=CANARY0+/=;":                      "CANARY0+/=",
		"Endpoint=sb://h/;SharedAccessKeyName=Root;SharedAccessKey=CANARY0=":     "CANARY0=",
		"postgres://user:CANARY0@host:5432/db?sslmode=verify-full":               "CANARY0",
		"postgres://user:CANARY%2F0@host:5432/db":                                "CANARY/0",
		"host=h user=u password=CANARY0 dbname=d":                                "CANARY0",
		"whsec_CANARY0123456789,whsec_SECOND0123456789":                          "whsec_SECOND0123456789",
		`{"type":"service_account","private_key":"-----\nCANARY0123456789\n"}`:   "CANARY0123456789",
		`{"type":"service_account","private_key":"CANARY0","client_email":"me"}`: "CANARY0",
	} {
		forget(t)
		learned.Store(nil)
		Learn(value)
		for _, text := range []string{value, secret} {
			if clean := Text("x " + text + " y"); clean != "x "+Mark+" y" {
				t.Errorf("%s of %s became %s", text, value, clean)
			}
		}
		if text := "host 5432 verify-full service_account Root"; Text(text) != text {
			t.Errorf("%s: %s became %s", value, text, Text(text))
		}
	}
}

func TestLearnURLKeepsTheAddress(t *testing.T) {
	for address, secret := range map[string]string{
		"redis://:CANARY0@cache.example:6379/0":            "CANARY0",
		"redis://me:CANARY%ss/x@cache.example:6379":        "CANARY%ss/x",
		"nats://CANARY0@cache.example:4222":                "CANARY0",
		"https://cache.example/hooks/CANARY0123456789":     "CANARY0123456789",
		"https://cache.example/api/events?code=CANARY0%3D": "CANARY0=",
		"https://cache.example/events?CANARY0123456789":    "CANARY0123456789",
	} {
		forget(t)
		learned.Store(nil)
		LearnURL(address)
		if clean := Text("x " + secret + " y"); clean != "x "+Mark+" y" {
			t.Errorf("%s of %s became %s", secret, address, clean)
		}
		if text := "dial cache.example:6379: /hooks/ and /api/events are not there"; Text(text) != text {
			t.Errorf("%s: %s became %s", address, text, Text(text))
		}
	}
}

// Short secrets would be found everywhere, and numbers of a log line are not secrets.
func TestLearnedSecretsLeaveOtherTextsAlone(t *testing.T) {
	forget(t)
	for _, secret := range []string{"", "short", "redact", "123456", "nothing"} {
		Learn(secret)
	}
	for in, want := range map[string]string{
		"a short [redacted] text":              "a short [redacted] text",
		`{"lsn":1234567,"x":0.123456}`:         `{"lsn":1234567,"x":0.123456}`,
		`{"lsn":123456,"error":"AUTH 123456"}`: `{"lsn":"[redacted]","error":"AUTH [redacted]"}`,
		`{"error":"one\nothing"}`:              `{"error":"one[redacted]"}`,
	} {
		if got := Text(in); got != want {
			t.Errorf("%s became %s, want %s", in, got, want)
		}
	}
}
