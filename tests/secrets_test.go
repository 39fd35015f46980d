package tests

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/SherClockHolmes/webpush-go"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// planted is a part of every secret in these tests except for keys, which must be
// base64.
const planted = "CANARY"

var (
	plantedKey   = base64.StdEncoding.EncodeToString([]byte("an account key of " + planted + " bytes"))
	plantedToken = "sv=2024-11-04&ss=bq&sp=rwdlac&se=2030-01-01&sig=" + planted + "signature%3D"
)

// failingServices returns, by the kind of failure, a URL without a path at which
// every request fails.
func failingServices(t *testing.T) map[string]string {
	t.Helper()
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		where := "http://user:" + planted + "@" + r.Host + r.URL.String()
		w.Header().Set("x-ms-error-code", "AuthenticationFailed")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(map[string]string{"code": "Forbidden", "message": where + " is forbidden with " + plantedToken})
	}))
	t.Cleanup(echo.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // connects, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	return map[string]string{
		"refused":   "http://" + freeAddress(t),
		"DNS":       "http://no-such-host.invalid",
		"timeout":   "http://" + silent.Addr().String(),
		"malformed": "http://user:" + planted + "x",
		"403":       echo.URL,
	}
}

// TestNoCommandShowsSecrets plants secrets into every setting that takes one, and
// lets each command meet each failure of each service. No output may hold them.
func TestNoCommandShowsSecrets(t *testing.T) {
	account := startAccount(t, 1)
	container := account.client.Container(database, results)
	for player, document := range map[string]string{"ada": `{"id":"good","game":"chess","player":"ada","score":1}`, "bob": `{"id":"poison","player":"bob"}`} {
		_, err := container.Upsert(t.Context(), cosmos.NewPartitionKey(player), json.RawMessage(document))
		account.must(t, err)
	}
	base := map[string]string{
		"HALLEY_FUNCTIONS":             "leaderboard",
		"HALLEY_DATABASE_NAME":         database,
		"HALLEY_CONTAINER_NAME":        results,
		"HALLEY_START_FROM":            "beginning",
		"HALLEY_LEADERBOARD_REDIS_URL": "redis://user:" + planted + "@127.0.0.1:1/0?max_retries=-1",
		"HALLEY_MAX_ATTEMPTS":          "1",
		"HALLEY_RETRY_MIN":             "1ms",
		"HALLEY_LOG_LEVEL":             "debug",
		"CosmosDB":                     account.connectionString(),
	}
	commands := map[string][]string{
		"check": {"check"}, "status": {"status"}, "run": {"run"}, "version": {"--version"}, "tick": nil,
		"list": {"deadletters", "list"}, "replay": {"deadletters", "replay", "--yes"}, "dev": {"dev", "--for", "1s"},
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, 24)
	try := func(scenario, command string, most time.Duration, settings map[string]string, wants ...string) {
		env := maps.Clone(base)
		maps.Copy(env, settings)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out := outputOf(t, scenario+" "+command, env, commands[command], most)
			for _, secret := range []string{planted, plantedKey, emulator.Key, "sp=rwdlac", env["HALLEY_PUSH_VAPID_PUBLIC_KEY"]} {
				if secret != "" && strings.Contains(out, secret) {
					t.Errorf("%s, %s: %q is in the output:\n%s", scenario, command, secret, out)
				}
			}
			for _, want := range wants {
				if !strings.Contains(out, want) {
					t.Errorf("%s, %s: no %q in the output:\n%s", scenario, command, want, out)
				}
			}
		})
	}
	services := failingServices(t)
	for failure, service := range services {
		for command := range commands {
			if command == "dev" {
				continue // it has an account of its own
			}
			try("Cosmos DB "+failure, command, 5*time.Second, map[string]string{
				"CosmosDB":                     "AccountEndpoint=" + service + ";AccountKey=" + plantedKey,
				"HALLEY_LEADERBOARD_REDIS_URL": "redis://:" + planted + "@" + strings.TrimPrefix(service, "http://"),
			})
		}
		for kind, secret := range map[string]string{"SAS": "SharedAccessSignature=" + plantedToken, "key": "AccountName=vault;AccountKey=" + plantedKey} {
			for _, command := range []string{"check", "run", "list", "replay", "tick"} {
				var wants []string
				if kind == "SAS" && (failure == "refused" || failure == "DNS") && (command == "list" || command == "run" || command == "tick") {
					wants = []string{"?[redacted]"} // the error had the URL
				}
				try("storage "+kind+" "+failure, command, 25*time.Second, map[string]string{
					"HALLEY_DEAD_LETTERS":           "queue:dead",
					"HALLEY_LEASE_CONTAINER_PREFIX": fmt.Sprintf("%s-%s-%s", kind, failure, command),
					"AzureWebJobsStorage":           "BlobEndpoint=" + service + "/v;QueueEndpoint=" + service + "/v;" + secret,
				}, wants...)
			}
		}
	}
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"check", "run", "list"} {
		try("swapped VAPID keys", command, 5*time.Second, map[string]string{
			"HALLEY_FUNCTIONS":              "push",
			"HALLEY_PUSH_REDIS_URL":         base["HALLEY_LEADERBOARD_REDIS_URL"],
			"HALLEY_PUSH_VAPID_PUBLIC_KEY":  private,
			"HALLEY_PUSH_VAPID_PRIVATE_KEY": public,
			"HALLEY_PUSH_VAPID_SUBJECT":     "ops@example.com",
		})
	}
	try("sample application", "dev", 25*time.Second, nil)
	running.Wait()
}

// outputOf runs the binary for a time and returns its output. Without arguments,
// the binary is a custom handler that is invoked once, and the answer is part of
// the output.
func outputOf(t *testing.T, name string, env map[string]string, args []string, most time.Duration) string {
	address := ""
	if args == nil {
		address = freeAddress(t)
		_, port, _ := net.SplitHostPort(address)
		env["FUNCTIONS_CUSTOMHANDLER_PORT"] = port
	}
	p := start(t, name, binaries.halley, env, args...)
	answer := ""
	if address != "" {
		client := http.Client{Timeout: most}
		for !p.ended() && answer == "" {
			resp, err := client.Post((&url.URL{Scheme: "http", Host: address, Path: "/function"}).String(), "application/json", strings.NewReader(`{"Data":{"timer":{}},"Metadata":{}}`))
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				answer = string(body)
			} else if !strings.Contains(err.Error(), "refused") {
				break // no answer in time
			}
		}
	}
	wait := func(d time.Duration) bool {
		select {
		case <-p.exited:
			return true
		case <-time.After(d):
			return false
		}
	}
	if address != "" {
		most = 0
	}
	if !wait(most) {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		if !wait(3 * time.Second) {
			p.kill()
		}
	}
	return p.output.String() + answer
}
