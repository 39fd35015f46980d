package push

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"halley/handlers"
	"halley/handlers/outbound"
	"halley/handlers/push/pushservice"
	"halley/trigger/cosmos"
)

// newService starts a push service with one device and a sender to it.
func newService(t *testing.T, change func(*Settings)) (*pushservice.Service, *sender, Subscription) {
	t.Helper()
	service, err := pushservice.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := service.Close(); err != nil {
			t.Error(err)
		}
	})
	s := settings(t)
	device, err := service.Subscribe(string(s.VAPIDPublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&s)
	}
	from, err := newSender(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(from.client.CloseIdleConnections)
	return service, from, NewSubscription("ada", device.Endpoint, Keys{P256dh: device.P256dh, Auth: device.Auth})
}

var sample = message(overtaking{Game: "chess", Player: "ada", Best: 1, By: "bob", Score: 2})

func TestRefusalsOfPushServices(t *testing.T) {
	service, from, device := newService(t, nil)
	tests := []struct {
		name   string
		answer pushservice.Answer
		want   outbound.StatusError
		text   string
	}{
		{"server error", pushservice.Answer{Status: 500, Text: "down"}, outbound.StatusError{Status: 500, Text: "down"}, `answered 500 Internal Server Error: "down"`},
		{"bad request", pushservice.Answer{Status: 400}, outbound.StatusError{Status: 400}, "answered 400 Bad Request"},
		{"not authorized", pushservice.Answer{Status: 401}, outbound.StatusError{Status: 401}, "check that the browser subscribed with VAPID_PUBLIC_KEY"},
		{"a redirect is not followed", pushservice.Answer{Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, outbound.StatusError{Status: 307}, "answered 307 Temporary Redirect"},
		{"a long answer is cut", pushservice.Answer{Status: 503, Text: strings.Repeat("é", 1<<20)}, outbound.StatusError{Status: 503, Text: strings.Repeat("é", 128)}, "answered 503"},
		{"no text", pushservice.Answer{Status: 503, Text: "\xff\xfe"}, outbound.StatusError{Status: 503, Text: "�"}, "answered 503"},
		{"too many, without a time", pushservice.Answer{Status: 429}, outbound.StatusError{Status: 429}, "answered 429 Too Many Requests"},
		{"too many", pushservice.Answer{Status: 429, Header: http.Header{"Retry-After": {"3"}}}, outbound.StatusError{Status: 429, RetryAfter: 3 * time.Second}, "answered 429 Too Many Requests, retry after 3s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := service.Answer(device.Endpoint, tt.answer); err != nil {
				t.Fatal(err)
			}
			err := from.Send(t.Context(), sample, device)
			got := *refused(t, err)
			tt.want.Server, tt.want.Advice = got.Server, got.Advice
			if got != tt.want {
				t.Errorf("refusal is %+v, want %+v", got, tt.want)
			}
			if !strings.HasPrefix(err.Error(), "push service 127.0.0.1:") || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestAnotherVAPIDKey(t *testing.T) {
	_, from, device := newService(t, func(s *Settings) {
		other := settings(t)
		s.VAPIDPublicKey, s.VAPIDPrivateKey = other.VAPIDPublicKey, other.VAPIDPrivateKey
	})
	err := from.Send(t.Context(), sample, device)
	if refused(t, err).Status != http.StatusForbidden || !strings.Contains(err.Error(), "not the one that the device subscribed with") {
		t.Errorf("error is %v", err)
	}
}

// If a push service does not answer, the batch is held up no longer than
// SEND_TIMEOUT.
func TestSendTimeout(t *testing.T) {
	_, from, device := newService(t, func(s *Settings) { s.SendTimeout = handlers.Interval(50 * time.Millisecond) })
	err := from.Send(t.Context(), sample, device)
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "/push/") {
		t.Errorf("error is %v", err)
	}
}

func TestCancelledContextEndsSending(t *testing.T) {
	_, from, device := newService(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := from.Send(ctx, sample, device); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnusable) {
		t.Errorf("error is %v", err)
	}
}

func TestSendOverHTTPS(t *testing.T) {
	_, from, device := newService(t, nil)
	pushes := 0
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		pushes++
		w.WriteHeader(http.StatusCreated)
	}))
	defer server.Close()
	device.Endpoint = server.URL + "/x"
	if err := from.Send(t.Context(), sample, device); err == nil || errors.Is(err, ErrUnusable) || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate gives %v", err)
	}
	from.client.Transport.(*outbound.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	if err := from.Send(t.Context(), sample, device); err != nil || pushes != 1 {
		t.Errorf("%v, %d pushes", err, pushes)
	}
}

func TestBadSettings(t *testing.T) {
	other := settings(t)
	tests := []struct {
		name   string
		change func(*Settings)
		want   string
	}{
		{"no private key", func(s *Settings) { s.VAPIDPrivateKey = "" }, "VAPID_PRIVATE_KEY is not a P-256 key of 32 bytes"},
		{"private key of another form", func(s *Settings) { s.VAPIDPrivateKey = "-----BEGIN hunter2" }, "VAPID_PRIVATE_KEY is not a P-256 key of 32 bytes"},
		{"zero private key", func(s *Settings) { s.VAPIDPrivateKey = handlers.Secret(strings.Repeat("A", 43)) }, "VAPID_PRIVATE_KEY is not a P-256 key of 32 bytes"},
		{"no public key", func(s *Settings) { s.VAPIDPublicKey = "" }, "VAPID_PUBLIC_KEY is not a key in base64url"},
		{"private key as subject", func(s *Settings) { s.VAPIDSubject = "hunter2" }, "VAPID_SUBJECT is"},
		{"garbled public key", func(s *Settings) { s.VAPIDPublicKey = "!" }, "VAPID_PUBLIC_KEY is not a key in base64url"},
		{"public key of another pair", func(s *Settings) { s.VAPIDPublicKey = other.VAPIDPublicKey }, "VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY"},
		{"no subject", func(s *Settings) { s.VAPIDSubject = "" }, `VAPID_SUBJECT is not a contact for push services; set an e-mail address or an https URL`},
		{"subject with plain http", func(s *Settings) { s.VAPIDSubject = "http://example.com" }, "VAPID_SUBJECT is"},
		{"subject with a name", func(s *Settings) { s.VAPIDSubject = "Ops <ops@example.com>" }, "VAPID_SUBJECT is"},
		{"no Redis", func(s *Settings) { s.RedisURL = "" }, "REDIS_URL is empty"},
		{"no container", func(s *Settings) { s.SubscriptionsContainerName = "" }, "SUBSCRIPTIONS_CONTAINER_NAME is empty"},
		{"top 0", func(s *Settings) { s.Top = 0 }, "TOP is 0; it must be 1 to 1000"},
		{"top of all", func(s *Settings) { s.Top = 1001 }, "TOP is 1001"},
		{"no age", func(s *Settings) { s.MaxAge = 0 }, "MAX_AGE is 0s; it must be at least 1s"},
		{"negative TTL", func(s *Settings) { s.TTL = -1 }, "TTL is -1ns"},
		{"URL as host", func(s *Settings) { s.EndpointHosts = []string{"https://fcm.googleapis.com"} }, `ENDPOINT_HOSTS has "https://fcm.googleapis.com"; write host names`},
		{"space before host", func(s *Settings) { s.EndpointHosts = []string{"a.example", " b.example"} }, `ENDPOINT_HOSTS has " b.example"`},
		{"no time to send", func(s *Settings) { s.SendTimeout = 0 }, "SEND_TIMEOUT is 0s"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := settings(t)
			s.RedisURL = "redis://cache"
			tt.change(&s)
			_, _, err := Open(t.Context(), handlers.Env{Prefix: "HALLEY_PUSH_", Container: noContainer}, s)
			if err == nil || !strings.HasPrefix(err.Error(), "setting HALLEY_PUSH_"+tt.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

// Keys as browsers and older libraries write them, or as users paste them.
func TestKeysInOtherForms(t *testing.T) {
	std := strings.NewReplacer("-", "+", "_", "/")
	for name, form := range map[string]func(string) string{
		"padded":                func(key string) string { return key + strings.Repeat("=", -len(key)&3) },
		"in the other alphabet": std.Replace,
		"in both":               func(key string) string { return std.Replace(key[:10]) + key[10:] },
		"with a line break":     func(key string) string { return key[:5] + "\r\n" + key[5:] },
	} {
		t.Run(name, func(t *testing.T) {
			service, from, device := newService(t, nil)
			device.Keys = Keys{P256dh: form(device.Keys.P256dh), Auth: form(device.Keys.Auth)}
			receiveOne(t, service, from, device)
		})
	}
}

// receiveOne sends the sample and returns what the device received.
func receiveOne(t *testing.T, service *pushservice.Service, from *sender, device Subscription) pushservice.Notification {
	t.Helper()
	sent := make(chan error, 1)
	go func() { sent <- from.Send(t.Context(), sample, device) }()
	select {
	case n := <-service.Notifications():
		if err := <-sent; err != nil {
			t.Error(err)
		}
		return n
	case err := <-sent:
		t.Fatalf("nothing was received: %v", err)
	}
	return pushservice.Notification{}
}

func TestSettingsInOtherForms(t *testing.T) {
	for name, change := range map[string]func(*Settings){
		"padded keys": func(s *Settings) {
			s.VAPIDPublicKey += "="
			s.VAPIDPrivateKey += "="
		},
		"keys in the other alphabet": func(s *Settings) {
			s.VAPIDPublicKey = PublicKey(strings.NewReplacer("-", "+", "_", "/").Replace(string(s.VAPIDPublicKey)))
		},
		"subject without mailto": func(s *Settings) { s.VAPIDSubject = "ops@example.com" },
		"subject is a page":      func(s *Settings) { s.VAPIDSubject = "https://example.com/contact" },
	} {
		t.Run(name, func(t *testing.T) {
			service, from, device := newService(t, change)
			n := receiveOne(t, service, from, device)
			if n.Subject != "mailto:ops@example.com" && n.Subject != "https://example.com/contact" {
				t.Errorf("subject is %s", n.Subject)
			}
		})
	}
}

func noContainer(string, string) *cosmos.Container { return nil }
