package redisurl

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"halley/handlers"
	"halley/handlers/handlerstest"
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

func TestPoolAndTimeoutsAreParameters(t *testing.T) {
	client, err := Client("redis://cache.example?pool_size=7&read_timeout=9s&dial_timeout=8s")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if o := client.Options(); o.PoolSize != 7 || o.ReadTimeout != 9*time.Second || o.DialTimeout != 8*time.Second {
		t.Errorf("options are %+v", o)
	}
}

// The parameters with the files of TLS are for certificates that the system does not know.
func TestFilesOfTLSAreParameters(t *testing.T) {
	t.Parallel()
	config, files := handlerstest.Certificate(t)
	server, err := miniredis.RunTLS(config)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	server.RequireAuth("hunter2")
	ca, pair := "&ca_file="+files.CA, "&cert_file="+files.Cert+"&key_file="+files.Key
	for query, want := range map[string]string{"": "certificate", ca: "certificate required", ca + pair: "", pair: "certificate"} {
		client, err := Client(handlers.URL("rediss://:hunter2@" + server.Addr() + "/0?max_retries=-1" + query))
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Ping(t.Context()).Err(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %q: %v, want %q", query, err, want)
		}
		client.Close()
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
		{"redis://:hunter2@cache?ca_file=/etc/ca.pem", "has parameters that cannot be used: CA_FILE, CERT_FILE or KEY_FILE is set, but the connection is without TLS"},
		{"rediss://:hunter2@cache?ca_file=/none/ca.pem", "has parameters that cannot be used: CA_FILE cannot be read"},
		{"rediss://:hunter2@cache?ca_file=/none/ca.pem&hunter=1", "unexpected option"},
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
	t.Parallel()
	const child = "HALLEY_TEST_REDIS_DOWN"
	if os.Getenv(child) != "" {
		client, err := Client("redis://127.0.0.1:1?max_retries=1")
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
