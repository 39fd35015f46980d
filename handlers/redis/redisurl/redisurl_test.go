package redisurl

import (
	"bytes"
	"halley/handlers"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestClientOptions(t *testing.T) {
	client, err := Client("rediss://me:p%40ss@cache.example:6380/3")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := client.Options()
	if o.Addr != "cache.example:6380" || o.DB != 3 || o.Username != "me" || o.Password != "p@ss" || o.TLSConfig == nil || !o.ContextTimeoutEnabled {
		t.Errorf("options are %+v", o)
	}
}

func TestBadURLsNameTheFix(t *testing.T) {
	tests := []struct{ url, want string }{
		{"", "is empty; set it to a URL such as redis://"},
		{"localhost:6379", "is not a Redis URL"},
		{"http://cache:6379", "(http://cache:6379: redis: invalid URL scheme: http)"},
		{"redis://cache/one", `invalid database number: "one"`},
		{"redis://me:hunter2/x@cache", "is not a Redis URL; write redis://"},
		{"redis://a/hunter2@cache", "is not a Redis URL; write redis://"},
		{"redis://:hunter2@cache:port", "is not a Redis URL; write redis://"},
		{"redis://:hunter2@cache?hunter=1", "unexpected option"},
	}
	for _, tt := range tests {
		t.Run(tt.url, func(t *testing.T) {
			_, err := Client(handlers.URL(tt.url))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

// TestUnreachableRedisWritesNothingToStderr: if Redis cannot be reached, only the
// command's error says so. The test starts a process, because go-redis keeps the
// stderr of its start.
func TestUnreachableRedisWritesNothingToStderr(t *testing.T) {
	const child = "HALLEY_TEST_REDIS_DOWN"
	if os.Getenv(child) != "" {
		client, err := Client("redis://127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Ping(t.Context()).Err(); err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
			t.Errorf("error is %v", err)
		}
		return
	}
	test := exec.Command(os.Args[0], "-test.run=^TestUnreachableRedisWritesNothingToStderr$")
	test.Env = append(os.Environ(), child+"=1")
	var stderr bytes.Buffer
	test.Stderr = &stderr
	if stdout, err := test.Output(); err != nil || stderr.Len() > 0 {
		t.Errorf("%v: stderr is %q\n%s", err, stderr.String(), stdout)
	}
}
