package fcm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"halley/handlers"
	"halley/handlers/handlerstest"
	"halley/handlers/push"
	"halley/handlers/push/fcm/fcmservice"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/triggertest"
)

var entry = handlers.New("fcm", "", Open)

// stage is the environment of the handler: an account with the subscriptions, Redis, and
// a stub of FCM.
type stage struct {
	t       testing.TB
	service *fcmservice.Service
	env     handlers.Env
	logs    *observer.ObservedLogs
	sinks   handlerstest.Sinks
	handle  trigger.Handler
}

func newStage(t testing.TB, settings map[string]string) *stage {
	t.Helper()
	service, err := fcmservice.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	account, err := service.ServiceAccount()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("HALLEY_FCM_REDIS_URL", redisAddress(t))
	t.Setenv("HALLEY_FCM_KEY_PREFIX", fmt.Sprintf("halley-test:%d:%s:", os.Getpid(), t.Name()))
	t.Setenv("HALLEY_FCM_SERVICE_ACCOUNT", account)
	t.Setenv("HALLEY_FCM_ENDPOINT", service.Endpoint())
	t.Setenv("HALLEY_FCM_ALLOW_PRIVATE_ENDPOINTS", "true")
	for name, value := range settings {
		t.Setenv(name, value)
	}
	w := triggertest.NewWorld(t, nil)
	if err := w.Account().CreateContainer(triggertest.Database, "subscriptions", "/player", 1); err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.InfoLevel)
	s := &stage{t: t, service: service, env: handlerstest.Env(w), logs: logs}
	s.env.Logger, s.env.Measure = zap.New(core), s.sinks.Measure
	s.handle = handlerstest.Under(t, entry, s.env)
	return s
}

func redisAddress(t testing.TB) string { return "redis://" + miniredis.RunT(t).Addr() }

// subscribe gives a player a device and returns its token.
func (s *stage) subscribe(player string) string {
	s.t.Helper()
	token := s.service.Register()
	s.store(push.NewTokenSubscription(player, token))
	return token
}

func (s *stage) store(d push.Subscription) {
	s.t.Helper()
	if _, err := s.container().Upsert(s.t.Context(), cosmos.NewPartitionKey(d.Player), d); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) container() *cosmos.Container {
	return s.env.Container(triggertest.Database, "subscriptions")
}

// play delivers results, "ada 100" each, of the game chess.
func (s *stage) play(results ...string) trigger.Verdict {
	s.t.Helper()
	var changes []trigger.Change
	for i, r := range results {
		player, score, _ := strings.Cut(r, " ")
		changes = append(changes, triggertest.Upsert(fmt.Sprintf(`{"id":"%d","game":"chess","player":%q,"score":%s,"_ts":%d}`, i, player, score, time.Now().Unix()), player))
	}
	return triggertest.Deliver(s.t, s.handle, changes...)
}

// played is play without a failure.
func (s *stage) played(results ...string) {
	s.t.Helper()
	if v := s.play(results...); len(v.Failed) > 0 {
		s.t.Fatal(v)
	}
}

func TestOvertakenPlayerIsNotified(t *testing.T) {
	s := newStage(t, map[string]string{"HALLEY_FCM_TTL": "2h"})
	token := s.subscribe("ada")
	s.store(push.NewSubscription("ada", "https://fcm.googleapis.com/fcm/send/x", push.Keys{})) // of Web Push
	s.played("ada 100")
	s.played("bob 1234567")
	got := s.service.Received()
	if len(got) != 1 {
		t.Fatalf("received %v, logs %v", got, s.logs.All())
	}
	n := got[0]
	if n.Token != token || n.TTL != "7200s" || n.Title != "You were overtaken" || n.Body != "bob has 1234567 in chess" {
		t.Errorf("received %+v", n)
	}
	if n.Data["type"] != "overtaken" || n.Data["by"] != "bob" || n.Data["best"] != "100" || n.Data["tag"] != n.CollapseKey || len(n.CollapseKey) != 32 {
		t.Errorf("data %v", n.Data)
	}
	if s.logs.Len() > 0 {
		t.Errorf("logs %v", s.logs.All())
	}
}

func TestDataAloneWithoutTexts(t *testing.T) {
	c := &channel{ttl: time.Hour}
	encoded, err := json.Marshal(c.message(push.Message{Game: "chess"}, "x", time.Now()))
	if err != nil || strings.Contains(string(encoded), "notification") {
		t.Errorf("%s, %v", encoded, err)
	}
	c.title = "{player} < {by}"
	if m := c.message(push.Message{Player: "ada", By: "{score}", Score: 2}, "x", time.Now()); m.Notification.Title != "ada < {score}" {
		t.Errorf("title %q", m.Notification.Title)
	}
}

// An access token serves many messages, and is fetched again when it is refused.
func TestAccessToken(t *testing.T) {
	s := newStage(t, nil)
	s.subscribe("ada")
	s.played("ada 1")
	for i := range 5 {
		s.played(fmt.Sprintf("p%d %d", i, i+10))
	}
	if n := s.service.Grants(); n != 1 {
		t.Errorf("%d tokens", n)
	}
	s.service.RevokeTokens()
	s.played("bob 1000")
	if s.service.Grants() != 2 || len(s.service.Received()) != 6 {
		t.Errorf("%d tokens, %d received", s.service.Grants(), len(s.service.Received()))
	}
	if total := s.sinks.Of("fcm"); total != (handlerstest.SinkTotal{OK: 6, Rows: 6, Retries: 1}) {
		t.Errorf("measured %+v", total)
	}
}

func TestErrorsOfFCM(t *testing.T) {
	tests := []struct {
		name    string
		answer  fcmservice.Answer
		failed  string // part of the error; "" if the call succeeds
		removed bool
		logged  string
	}{
		{"unregistered", fcmservice.Answer{Status: 404, Code: "UNREGISTERED"}, "", true, "subscription ended"},
		{"another 404", fcmservice.Answer{Status: 404}, "answered 404 Not Found, check the project of the service account", false, ""},
		{"invalid token", fcmservice.Answer{Status: 400, Code: "INVALID_ARGUMENT"}, "", false, "subscription cannot be used"},
		{"another sender", fcmservice.Answer{Status: 403, Code: "SENDER_ID_MISMATCH"}, "", false, "subscription cannot be used"},
		{"no permission", fcmservice.Answer{Status: 403}, "answered 403 Forbidden, give the service account the role", false, ""},
		{"APNs certificate", fcmservice.Answer{Status: 401, Code: "THIRD_PARTY_AUTH_ERROR"}, "", false, ""}, // the second request succeeds
		{"quota", fcmservice.Answer{Status: 429, Code: "QUOTA_EXCEEDED"}, "answered 429 Too Many Requests, retry after 1m0s", false, ""},
		{"quota with a time", fcmservice.Answer{Status: 429, Code: "QUOTA_EXCEEDED", Header: http.Header{"Retry-After": {"7"}}}, "retry after 7s", false, ""},
		{"unavailable", fcmservice.Answer{Status: 503, Code: "UNAVAILABLE", Header: http.Header{"Retry-After": {"3"}}}, "answered 503 Service Unavailable, retry after 3s", false, ""},
		{"internal", fcmservice.Answer{Status: 500, Code: "INTERNAL"}, `answered 500 Internal Server Error: "INTERNAL refused"`, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, nil)
			token := s.subscribe("ada")
			other := s.subscribe("ada")
			s.played("ada 1")
			s.service.Answer(token, tt.answer)
			v := s.play("bob 2")
			if (len(v.Failed) > 0) != (tt.failed != "") || tt.failed != "" && !strings.Contains(v.Err.Error(), tt.failed) {
				t.Errorf("verdict %v, want %q", v, tt.failed)
			}
			notified := false
			for _, n := range s.service.Received() {
				notified = notified || n.Token == other
			}
			if !notified {
				t.Error("the other device was not notified")
			}
			devices, err := push.OpenSubscriptions(s.env, "", "subscriptions", push.Token)
			if err != nil {
				t.Fatal(err)
			}
			left, err := devices.Devices(t.Context(), "ada")
			if err != nil || (len(left) == 1) != tt.removed {
				t.Errorf("%d devices are left, %v", len(left), err)
			}
			if tt.logged != "" && s.logs.FilterMessageSnippet(tt.logged).Len() != 1 {
				t.Errorf("logs %v", s.logs.All())
			}
		})
	}
}

// If Google's token endpoint refuses or cannot be reached, the call fails, and no device
// is given up.
func TestTokenEndpointFails(t *testing.T) {
	s := newStage(t, nil)
	s.subscribe("ada")
	other, err := fcmservice.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file, err := other.ServiceAccount()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	for want, account := range map[string]string{
		"connection refused":     file,
		"invalid JWT signature":  strings.ReplaceAll(file, other.Endpoint(), s.service.Endpoint()),
		"check that the key of ": strings.ReplaceAll(file, other.Endpoint(), s.service.Endpoint()),
	} {
		t.Setenv("HALLEY_FCM_KEY_PREFIX", want+":")
		t.Setenv("HALLEY_FCM_SERVICE_ACCOUNT", account)
		var probe handlers.Probe
		env := s.env
		env.Probe = func(p handlers.Probe) {
			if strings.Contains(p.What, "access token") {
				probe = p
			}
		}
		s.handle = handlerstest.Under(t, entry, env)
		s.played("ada 1")
		v := s.play("bob 2")
		if len(v.Failed) != 1 || !strings.Contains(v.Err.Error(), "fetch access token: ") || !strings.Contains(v.Err.Error(), want) || strings.Contains(v.Err.Error(), "PRIVATE KEY") {
			t.Errorf("verdict %v, want %s", v, want)
		}
		if err := probe.Try(t.Context()); err == nil || !strings.Contains(err.Error(), "correct HALLEY_FCM_SERVICE_ACCOUNT") {
			t.Errorf("probe: %v", err)
		}
	}
}

func TestBadSettings(t *testing.T) {
	s := newStage(t, nil)
	file := os.Getenv("HALLEY_FCM_SERVICE_ACCOUNT")
	tests := []struct{ name, setting, value, want string }{
		{"no account", "SERVICE_ACCOUNT", "", "SERVICE_ACCOUNT is empty"},
		{"path", "SERVICE_ACCOUNT", "hunter2.json", "SERVICE_ACCOUNT is not JSON; set it to the text of the key file, not to its path"},
		{"other JSON", "SERVICE_ACCOUNT", `{"hunter2":1}`, "SERVICE_ACCOUNT lacks project_id"},
		{"no key", "SERVICE_ACCOUNT", strings.ReplaceAll(file, "BEGIN PRIVATE", "BEGIN hunter2"), "SERVICE_ACCOUNT has no RSA key"},
		{"token endpoint", "SERVICE_ACCOUNT", strings.ReplaceAll(file, s.service.Endpoint(), "https://example.com"), "SERVICE_ACCOUNT has a token_uri that is not allowed"},
		{"endpoint", "ENDPOINT", "https://example.com", "ENDPOINT is not allowed as a target"},
		{"negative TTL", "TTL", "-1s", "TTL is -1s; it must be 0 to 672h0m0s"},
		{"long TTL", "TTL", "673h", "TTL is 673h0m0s"},
		{"no container", "SUBSCRIPTIONS_CONTAINER_NAME", "", ""},
		{"no Redis", "REDIS_URL", "", "REDIS_URL is empty"},
		{"top", "TOP", "1001", "TOP is 1001"},
		{"age", "MAX_AGE", "1ms", "MAX_AGE is 1ms"},
		{"timeout", "SEND_TIMEOUT", "-1s", "SEND_TIMEOUT is -1s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("HALLEY_FCM_"+tt.setting, tt.value)
			settings, err := entry.Load()
			if err != nil {
				t.Fatal(err)
			}
			if tt.want == "" {
				settings.(*Settings).SubscriptionsContainerName, tt.want = "", "SUBSCRIPTIONS_CONTAINER_NAME is empty"
			}
			_, _, err = entry.Open(t.Context(), s.env, settings)
			if err == nil || !strings.HasPrefix(err.Error(), "open handler fcm: setting HALLEY_FCM_"+tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
			if text := fmt.Sprintf("%v %+v %#v", settings, settings, settings); strings.Contains(text, "PRIVATE KEY") || strings.Contains(text, "hunter2") {
				t.Error("settings print the key")
			}
		})
	}
}
