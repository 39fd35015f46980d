package app

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// prints returns v in every text form in which a setting may appear.
func prints(t *testing.T, v any) string {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	zap.New(core).Info("m", zap.Any("v", v), zap.Reflect("r", v))
	encoded, err := json.Marshal(map[string]any{"v": v, "in": struct{ V any }{v}})
	if err != nil {
		t.Fatal(err)
	}
	logged, err := json.Marshal(logs.All()[0].ContextMap())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%v %+v %#v %s %q %x %d %v %s %s", v, v, v, v, v, v, v, []any{v}, encoded, logged)
}

func TestSecretsAreNotPrinted(t *testing.T) {
	tests := []struct {
		name string
		v    any
		hide string
		show string
	}{
		{"secret", Secret("hunter2"), "hunter2", "[redacted]"},
		{"in a struct", struct{ Key Secret }{"hunter2"}, "hunter2", "[redacted]"},
		{"Redis password", RedisURL("rediss://me:hunter2@cache:6380/3?client_name=x"), "hunter2", "rediss://[redacted]@cache:6380/3"},
		{"Redis password without host", RedisURL("redis://me:hunter2/x@cache"), "hunter2", "[redacted]"},
		{"Redis password as path", RedisURL("redis://a/hunter2@cache"), "hunter2", "[redacted]"},
		{"no URL", RedisURL("hunter2"), "hunter2", "[redacted]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := prints(t, tt.v)
			if strings.Contains(got, tt.hide) || strings.Contains(got, fmt.Sprintf("%x", tt.hide)) {
				t.Errorf("printed: %s", got)
			}
			if !strings.Contains(got, tt.show) {
				t.Errorf("not told what is there: %s", got)
			}
		})
	}
	if got := Secret("hunter2").Reveal(); got != "hunter2" {
		t.Errorf("revealed %q", got)
	}
	if got := fmt.Sprint(Secret(""), RedisURL("")); strings.Contains(got, "redacted") {
		t.Errorf("empty ones print as %q", got)
	}
}

func TestRedisURLClientOptions(t *testing.T) {
	client, err := RedisURL("rediss://me:p%40ss@cache.example:6380/3").Client()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	o := client.Options()
	if o.Addr != "cache.example:6380" || o.DB != 3 || o.Username != "me" || o.Password != "p@ss" || o.TLSConfig == nil || !o.ContextTimeoutEnabled {
		t.Errorf("options are %+v", o)
	}
}

func TestBadRedisURLsNameTheFix(t *testing.T) {
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
			_, err := RedisURL(tt.url).Client()
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
		client, err := RedisURL("redis://127.0.0.1:1").Client()
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

func TestLogIsNeverNil(t *testing.T) {
	Env{}.Log().Info("nothing")
	logger := zap.NewExample()
	if (Env{Logger: logger}).Log() != logger {
		t.Error("another logger")
	}
}
