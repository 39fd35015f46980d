package tests

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/SherClockHolmes/webpush-go"

	"halley/tests/long"
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
// lets each command meet each failure of each service. No output may hold them. Of the
// commands, status does not read dead letters, and so no storage. The short form has two
// kinds of failure, and ends commands earlier.
func TestNoCommandShowsSecrets(t *testing.T) {
	t.Parallel()
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
		"HALLEY_PAGE_TOKEN":            planted + " of the page",
		"CosmosDB":                     account.connectionString(),
	}
	commands := map[string][]string{
		"check": {"check"}, "status": {"status"}, "run": {"run"}, "version": {"--version"}, "tick": nil,
		"list": {"deadletters", "list"}, "replay": {"deadletters", "replay", "--yes"}, "dev": {"dev", "--for", "1s"},
	}
	var running sync.WaitGroup
	slots := make(chan struct{}, 40)
	// try runs a command for a time at most, and ends it as soon as it has written until.
	try := func(scenario, command string, most time.Duration, until string, settings map[string]string, wants ...string) {
		env := maps.Clone(base)
		maps.Copy(env, settings)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out := outputOf(t, scenario+" "+command, env, commands[command], most, until)
			secrets := []string{planted, plantedKey, "sp=rwdlac", env["HALLEY_PUSH_VAPID_PUBLIC_KEY"]}
			if command != "dev" { // it prints the key of its own account, which is public
				secrets = append(secrets, emulator.Key)
			}
			for _, secret := range secrets {
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
	services, longest, devTime := failingServices(t), 25*time.Second, patience
	if !long.Wanted() { // a failure that repeats the URL, and an answer that does
		longest, devTime = 8*time.Second, 6*time.Second
		maps.DeleteFunc(services, func(failure, _ string) bool { return failure != "refused" && failure != "403" })
	}
	for failure, service := range services {
		for command := range commands {
			if command == "dev" {
				continue // it has an account of its own
			}
			try("Cosmos DB "+failure, command, 5*time.Second, "account does not answer", map[string]string{
				"CosmosDB":                     "AccountEndpoint=" + service + ";AccountKey=" + plantedKey,
				"HALLEY_LEADERBOARD_REDIS_URL": "redis://:" + planted + "@" + strings.TrimPrefix(service, "http://"),
			})
		}
		for kind, secret := range map[string]string{"SAS": "SharedAccessSignature=" + plantedToken, "key": "AccountName=vault;AccountKey=" + plantedKey} {
			for _, command := range []string{"check", "run", "list", "replay", "tick"} {
				var wants []string
				delivers := command == "run" || command == "tick"
				if delivers && failure != "timeout" {
					wants = append(wants, "dead letter store fails")
				}
				if kind == "SAS" && (failure == "refused" || failure == "DNS") && (delivers || command == "list" && long.Wanted()) {
					wants = append(wants, "?[redacted]") // the error had the URL; list tries for 18 s
				}
				most := longest
				if len(wants) > 0 {
					most = patience
				}
				if failure == "timeout" {
					most = 3 * time.Second // a request to the store has a minute
				}
				try("storage "+kind+" "+failure, command, most, "dead letter store fails", map[string]string{
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
		try("swapped VAPID keys", command, 5*time.Second, "", map[string]string{
			"HALLEY_FUNCTIONS":              "push",
			"HALLEY_PUSH_REDIS_URL":         base["HALLEY_LEADERBOARD_REDIS_URL"],
			"HALLEY_PUSH_VAPID_PUBLIC_KEY":  private,
			"HALLEY_PUSH_VAPID_PRIVATE_KEY": public,
			"HALLEY_PUSH_VAPID_SUBJECT":     "ops@example.com",
		})
	}
	try("sample application", "dev", devTime, "", nil)
	running.Wait()
}

// outputOf runs the binary for a time at most, or until its output has a text, and
// returns its output. Without arguments, the binary is a custom handler that is invoked
// once, and the answer is part of the output.
func outputOf(t *testing.T, name string, env map[string]string, args []string, most time.Duration, until string) string {
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	address := ""
	if args == nil {
		address = freeAddress(t)
		_, env["FUNCTIONS_CUSTOMHANDLER_PORT"], _ = net.SplitHostPort(address)
	}
	p := start(t, name, binaries.halley, env, args...)
	answer := ""
	var invoking sync.WaitGroup
	if args == nil {
		invoking.Go(func() {
			defer cancel()
			answer = p.invoke(t.Context(), address)
		})
	}
	p.awaitText(ctx, until)
	p.end()
	invoking.Wait()
	return p.output.String() + answer
}

// invoke invokes a custom handler as soon as it listens, and returns its answer.
func (p *process) invoke(ctx context.Context, address string) string {
	for !p.ended() {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/function", strings.NewReader(`{"Data":{"timer":{}},"Metadata":{}}`))
		if err != nil {
			return err.Error()
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil { // it does not listen yet
			<-time.After(20 * time.Millisecond)
			continue
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body)
	}
	return ""
}

// awaitText waits until the output has a text, the process has ended or ctx ends. No
// output has the text "".
func (p *process) awaitText(ctx context.Context, text string) {
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-p.exited:
			return
		case <-ctx.Done():
			return
		case <-look.C:
			if text != "" && strings.Contains(p.output.String(), text) {
				return
			}
		}
	}
}

// end stops the process, and kills it if that takes longer than three seconds.
func (p *process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.exited:
	case <-time.After(3 * time.Second):
		p.kill()
	}
}
