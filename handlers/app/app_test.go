package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// prints shows v in every way in which settings get into texts.
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

func TestRedisURL(t *testing.T) {
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

func TestBadRedisURLs(t *testing.T) {
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

func TestLogIsNeverNil(t *testing.T) {
	Env{}.Log().Info("nothing")
	logger := zap.NewExample()
	if (Env{Logger: logger}).Log() != logger {
		t.Error("another logger")
	}
}
