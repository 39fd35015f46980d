package handlers

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestURLsShowNoSecrets(t *testing.T) {
	for _, test := range []struct {
		url  URL
		show string
	}{
		{"", ""},
		{"https://example.com", "https://example.com"},
		{"https://example.com:8443/", "https://example.com:8443"},
		{"rediss://me:hunter2@cache:6380/3?client_name=x", "rediss://[redacted]@cache:6380/[redacted]"},
		{"nats://hunter2@nats:4222", "nats://[redacted]@nats:4222"},
		{"https://example.com/hooks/hunter2", "https://example.com/[redacted]"},
		{"https://example.com?code=hunter2", "https://example.com/[redacted]"},
		{"https://example.com#hunter2", "https://example.com/[redacted]"},
		{"redis://me:hunter2/x@cache", "[redacted]"}, // passwords that are not percent-encoded
		{"redis://hunter2/x@cache", "[redacted]"},
		{"redis://hunter2?x@cache", "[redacted]"},
		{"mqtt://hunter2#x@broker", "[redacted]"},
		{"hunter2", "[redacted]"},
		{"//hunter2", "[redacted]"},
	} {
		encoded, err := json.Marshal(struct{ URL URL }{test.url})
		if err != nil {
			t.Fatal(err)
		}
		settings := struct {
			One  URL
			List []URL
		}{test.url, []URL{test.url}}
		got := fmt.Sprintf("%v %+v %#v %s %q %x %d %+v %#v %s", test.url, test.url, test.url, test.url, test.url, test.url, test.url, settings, settings, encoded)
		if strings.Contains(got, "hunter2") || strings.Contains(got, fmt.Sprintf("%x", "hunter2")) {
			t.Errorf("%s is printed: %s", string(test.url), got)
		}
		if got := test.url.String(); got != test.show {
			t.Errorf("%s is shown as %s, want %s", string(test.url), got, test.show)
		}
	}
	if got := URL("https://me:hunter2@a/b").Reveal(); got != "https://me:hunter2@a/b" {
		t.Errorf("revealed %s", got)
	}
}
