package push

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/SherClockHolmes/webpush-go"

	"halley/handlers"
)

// tarpit accepts requests and never answers them. It counts them.
func tarpit(t *testing.T) (endpoint string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(stop)
		server.Close()
	})
	return server.URL, requests
}

// subscribeTo gives a player n devices at a server.
func (w *world) subscribeTo(player, server string, n int) {
	w.t.Helper()
	device, err := w.service.Subscribe(string(w.settings.VAPIDPublicKey))
	w.check(err)
	for i := range n {
		w.store(NewSubscription(player, fmt.Sprintf("%s/%d", server, i), Keys{P256dh: device.P256dh, Auth: device.Auth}))
	}
}

// A player whose devices never answer costs one SEND_TIMEOUT, and other players
// get their notifications.
func TestTarpitIsGivenUpAlone(t *testing.T) {
	const timeout = 300 * time.Millisecond
	w := newWorld(t, func(s *Settings) { s.SendTimeout = handlers.Interval(timeout) })
	endpoint, requests := tarpit(t)
	w.subscribeTo("mallory", endpoint, maxDevices)
	w.subscribe("ada")
	w.played("ada 100", "mallory 90")

	began := time.Now()
	expect(t, w.played("bob 120"), "ada 1: bob 120 > 100")
	if took := time.Since(began); took > 5*timeout {
		t.Errorf("the call took %v", took)
	}
	if n := requests.Load(); n != maxDevices {
		t.Errorf("%d requests, want %d", n, maxDevices)
	}
	warnings := w.logs.FilterMessage("devices given up, no answer in time").All()
	if len(warnings) != 1 || warnings[0].ContextMap()["player"] != "mallory" || warnings[0].ContextMap()["total"] != int64(maxDevices) {
		t.Errorf("warnings: %v", warnings)
	}
	expect(t, w.due())

	// The endpoints are not tried again for a while.
	began = time.Now()
	expect(t, w.played("cid 130"), "ada 1: cid 130 > 100")
	if took := time.Since(began); took > timeout/2 {
		t.Errorf("the next call took %v", took)
	}
	if n := requests.Load(); n != maxDevices {
		t.Errorf("%d requests to endpoints that did not answer", n-maxDevices)
	}
	expect(t, w.due())
}

// If the call has less time than SEND_TIMEOUT, devices are given up within it: the
// call must not fail because of them, or the overtaker's result would end as a
// dead letter.
func TestTarpitFitsIntoDeadlineOfCall(t *testing.T) {
	w := newWorld(t, nil) // 5 s
	endpoint, _ := tarpit(t)
	w.subscribeTo("mallory", endpoint, maxDevices)
	w.subscribe("ada")
	w.played("ada 100", "mallory 90")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	received, err := w.deliver(ctx, batch(t, time.Now(), "bob 120"))
	if err != nil || ctx.Err() != nil {
		t.Errorf("%v, %v", err, ctx.Err())
	}
	expect(t, received, "ada 1: bob 120 > 100")
	expect(t, w.due())
}

// Many due notifications of one player stay within the player's budget, also if
// each request is a little faster than the timeout.
func TestPlayerHasTimeBudget(t *testing.T) {
	const timeout = 200 * time.Millisecond
	w := newWorld(t, func(s *Settings) { s.SendTimeout, s.Top = handlers.Interval(timeout), 10 })
	slow := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(timeout * 3 / 4):
		case <-r.Context().Done():
		}
		answer.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(slow.Close)
	w.subscribeTo("mallory", slow.URL, 3)
	w.played("mallory 1")
	began := time.Now()
	var results []string
	for i := range 9 {
		results = append(results, fmt.Sprintf("p%d 100", i))
	}
	expect(t, w.played(results...))
	if took := time.Since(began); took > 5*timeout { // 9 × 3/4 of the timeout without a budget
		t.Errorf("the call took %v", took)
	}
	expect(t, w.due())
}

// A server that accepts and then sends its body slowly does not hold up the call.
func TestBodyOfAcceptedPushIsNotAwaited(t *testing.T) {
	w := newWorld(t, nil)
	drip := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, r *http.Request) {
		answer.WriteHeader(http.StatusCreated)
		answer.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	t.Cleanup(drip.Close)
	w.subscribeTo("mallory", drip.URL, 1)
	w.played("mallory 1")
	began := time.Now()
	expect(t, w.played("bob 120"))
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("the call took %v", took)
	}
}

func TestUnknownHostsAreNotCalled(t *testing.T) {
	for endpoint, allowed := range map[string]bool{
		"https://fcm.googleapis.com/fcm/send/x":                  true,
		"https://updates.push.services.mozilla.com/wpush/v2/x":   true,
		"https://web.push.apple.com/x":                           true,
		"https://wns2-par02p.notify.windows.com/w/?token=x":      true,
		"https://push.example/x":                                 false,
		"https://fcm.googleapis.com:8443/x":                      false,
		"https://fcm.googleapis.com.evil.example/x":              false,
		"https://evilpush.apple.com/x":                           false,
		"https://[::ffff:142.250.185.74]/x":                      false,
		"https://storage.googleapis.com/x":                       false,
		"https://notify.windows.com/x":                           false,
		"https://updates.push.services.mozilla.com.evil.example": false,
	} {
		if _, err := (Settings{}).rules().Check(endpoint); (err == nil) != allowed {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

func TestSwappedVAPIDKeysAreNotPrinted(t *testing.T) {
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%s|%s|%s|%s", PublicKey(public), PublicKey(""), Contact("ops@example.com"), Contact("")); got != public+"||ops@example.com|" {
		t.Errorf("valid values print as %q", got)
	}
	for name, secret := range map[string]string{"private key": private, "padded": private + "=", "public key with a typing error": public[:86] + "!", "point off the curve": strings.Repeat("B", 87)} {
		s := Settings{VAPIDPublicKey: PublicKey(secret), VAPIDPrivateKey: handlers.Secret(public), VAPIDSubject: Contact(secret)}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		_, err = newVAPID(s)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		text := fmt.Sprintf("%v %+v %#v %s %x %s %v", s, s, s, s.VAPIDPublicKey, s.VAPIDPublicKey, encoded, err)
		if strings.Contains(text, secret) || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("%s is printed: %s", name, text)
		}
	}
}
