package pushservice

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"halley/handlers/loopback"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/SherClockHolmes/webpush-go"
)

// sender is an application server that uses webpush-go.
type sender struct{ private, public string }

func newSender(t *testing.T) sender {
	t.Helper()
	private, public, err := webpush.GenerateVAPIDKeys()
	if err != nil {
		t.Fatal(err)
	}
	return sender{private, public}
}

func start(t *testing.T) *Service {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func subscribe(t *testing.T, s *Service, key string) Device {
	t.Helper()
	d, err := s.Subscribe(key)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// push sends text and returns the answer.
func (s sender) push(t *testing.T, d Device, text string, change func(*webpush.Options)) (status int, header http.Header, body string) {
	t.Helper()
	o := &webpush.Options{Subscriber: "ops@example.com", TTL: 60, Topic: "over", Urgency: webpush.UrgencyHigh,
		VAPIDPublicKey: s.public, VAPIDPrivateKey: s.private, HTTPClient: http.DefaultClient}
	if change != nil {
		change(o)
	}
	response, err := webpush.SendNotificationWithContext(t.Context(), []byte(text),
		&webpush.Subscription{Endpoint: d.Endpoint, Keys: webpush.Keys{Auth: d.Auth, P256dh: d.P256dh}}, o)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(read)
}

func TestDeviceReceivesNotification(t *testing.T) {
	s, from := start(t), newSender(t)
	d := subscribe(t, s, from.public)
	for _, text := range []string{"hello", "", "ends with zeros\x00\x00", strings.Repeat("x", 3993)} {
		received := make(chan Notification, 1)
		go func() { received <- <-s.Notifications() }()
		status, header, body := from.push(t, d, text, nil)
		if status != http.StatusCreated || header.Get("Location") == "" {
			t.Fatalf("answer is %d %v %s", status, header, body)
		}
		n := <-received
		if string(n.Message) != text || n.Endpoint != d.Endpoint || n.TTL != time.Minute ||
			n.Topic != "over" || n.Urgency != "high" || n.Subject != "mailto:ops@example.com" {
			t.Errorf("received %+v", n)
		}
	}
}

func TestQueuedAnswersReplaceDelivery(t *testing.T) {
	s, from := start(t), newSender(t)
	d, other := subscribe(t, s, ""), subscribe(t, s, "")
	err := s.Answer(d.Endpoint, Answer{Status: 410}, Answer{Status: 429, Header: http.Header{"Retry-After": {"7"}}, Text: "slowly"})
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := from.push(t, d, "x", nil); status != 410 {
		t.Errorf("first answer is %d", status)
	}
	go func() { <-s.Notifications() }()
	if status, _, _ := from.push(t, other, "x", nil); status != 201 {
		t.Errorf("answer of the other device is %d", status)
	}
	if status, header, body := from.push(t, d, "x", nil); status != 429 || header.Get("Retry-After") != "7" || body != "slowly" {
		t.Errorf("second answer is %d %v %s", status, header, body)
	}
	go func() { <-s.Notifications() }()
	if status, _, _ := from.push(t, d, "x", nil); status != 201 {
		t.Errorf("third answer is %d", status)
	}
	if err := s.Answer("http://127.0.0.1/elsewhere", Answer{Status: 404}); err == nil {
		t.Error("an unknown endpoint was told to answer")
	}
}

// header changes the headers of a request that webpush-go made.
type header map[string]string

func (h header) Do(r *http.Request) (*http.Response, error) {
	for name, value := range h {
		r.Header.Set(name, value)
		if value == "" {
			r.Header.Del(name)
		}
	}
	return http.DefaultClient.Do(r)
}

func TestInvalidPushesAreRefused(t *testing.T) {
	s, from, stranger := start(t), newSender(t), newSender(t)
	d := subscribe(t, s, from.public)
	foreign := d
	foreign.P256dh = subscribe(t, s, "").P256dh
	with := func(name, value string) func(*webpush.Options) {
		return func(o *webpush.Options) { o.HTTPClient = header{name: value} }
	}
	tests := []struct {
		name   string
		from   sender
		to     Device
		change func(*webpush.Options)
		status int
		text   string
	}{
		{"unknown subscription", from, Device{d.Endpoint + "x", d.P256dh, d.Auth}, nil, 404, "no such subscription"},
		{"no authorization", from, d, with("Authorization", ""), 401, "no Authorization header"},
		{"another scheme", from, d, with("Authorization", "WebPush abc"), 403, `scheme is "WebPush"`},
		{"no key", from, d, with("Authorization", "vapid t=a.b.c"), 403, "no t or no k"},
		{"another server's key", stranger, d, nil, 403, "not the one that the device subscribed with"},
		{"no TTL", from, d, with("TTL", ""), 400, `TTL is "", not a number`},
		{"negative TTL", from, d, with("TTL", "-1"), 400, `TTL is "-1"`},
		{"long topic", from, d, with("Topic", strings.Repeat("t", 33)), 400, "not at most 32 characters"},
		{"topic of other characters", from, d, with("Topic", "a b"), 400, "of base64url"},
		{"another coding", from, d, with("Content-Encoding", "aesgcm"), 400, "not aes128gcm"},
		{"too large", from, d, func(o *webpush.Options) { o.RecordSize = 5000 }, 413, "too large"},
		{"for another device", from, foreign, nil, 400, "decrypt message"},
		{"subject with a doubled scheme", from, d, func(o *webpush.Options) { o.Subscriber = "mailto:ops@example.com" }, 403, "neither a mailto nor an https URL"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := tt.from.push(t, tt.to, "x", tt.change)
			if status != tt.status || !strings.Contains(body, tt.text) {
				t.Errorf("answer is %d %s, want %d %s", status, body, tt.status, tt.text)
			}
		})
	}
	response, err := http.Get(d.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET is answered with %d", response.StatusCode)
	}
}

func TestCloseCutsOffWaitingPushes(t *testing.T) {
	server, err := loopback.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := newService(server)
	arrived := make(chan struct{})
	server.Serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		s.ServeHTTP(w, r)
	}))
	from := newSender(t)
	d := subscribe(t, s, "")
	pushed := make(chan error, 1)
	go func() {
		response, err := webpush.SendNotificationWithContext(context.Background(), []byte("x"),
			&webpush.Subscription{Endpoint: d.Endpoint, Keys: webpush.Keys{Auth: d.Auth, P256dh: d.P256dh}},
			&webpush.Options{Subscriber: "a@b.example", VAPIDPublicKey: from.public, VAPIDPrivateKey: from.private})
		if err == nil {
			err = response.Body.Close()
		}
		pushed <- err
	}()
	<-arrived
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-pushed
}

func TestStartRefusesOtherAddresses(t *testing.T) {
	for _, addr := range []string{"0.0.0.0:0", ":0", "nonsense"} {
		if s, err := Start(addr); err == nil {
			t.Errorf("%s was accepted", addr)
			_ = s.Close()
		}
	}
}

// The example of RFC 8291, appendix A.
func TestDecryptsExampleOfRFC8291(t *testing.T) {
	private, err := ecdh.P256().NewPrivateKey(raw(t, "q1dXpw3UpT5VOmu_cf_v6ih07Aems3njxI-JWgLcM94"))
	if err != nil {
		t.Fatal(err)
	}
	auth := raw(t, "BTBZMqHH6r4Tts7J_aSIgg")
	body := raw(t, "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")
	got, err := decrypt(private, auth, body)
	if want := "When I grow up, I want to be a watermelon"; err != nil || string(got) != want {
		t.Fatalf("got %q, %v", got, err)
	}

	damage := map[string]func(b []byte) []byte{
		"cut":                  func(b []byte) []byte { return b[:len(b)-1] },
		"cut in the header":    func(b []byte) []byte { return b[:50] },
		"flipped bit":          func(b []byte) []byte { b[len(b)-1] ^= 1; return b },
		"another salt":         func(b []byte) []byte { b[0] ^= 1; return b },
		"key of another size":  func(b []byte) []byte { b[20] = 64; return b },
		"key not on the curve": func(b []byte) []byte { b[40] ^= 1; return b },
		"several records":      func(b []byte) []byte { b[18], b[19] = 0, 20; return b },
	}
	for name, harm := range damage {
		if _, err := decrypt(private, auth, harm(bytes.Clone(body))); err == nil {
			t.Errorf("%s: decrypted", name)
		}
	}
}

// The key and token of RFC 8292, section 2.4, whose expiry is 2016-01-23.
func TestVerifiesExampleOfRFC8292(t *testing.T) {
	const (
		header = "vapid t=eyJ0eXAiOiJKV1QiLCJhbGciOiJFUzI1NiJ9.eyJhdWQiOiJodHRwczovL3B1c2guZXhhbXBsZS5uZXQiLCJleHAiOjE0NTM1MjM3NjgsInN1YiI6Im1haWx0bzpwdXNoQGV4YW1wbGUuY29tIn0.i3CYb7t4xfxCDquptFOepC9GAu_HLGkMlMuCGSK2rpiUfnK9ojFwDXb1JrErtmysazNjjvW2L9OkSSHzvoD1oA, k=BA1Hxzyi1RUM1b5wjxsn7nGxAszw2u61m164i3MrAIxHF6YK5h4SDYic-dRuU_RCPCfA5aq9ojSwk5Y2EmClBPs"
		origin = "https://push.example.net"
	)
	expiry := time.Unix(1453523768, 0)
	key, subject, err := verify(header, origin, expiry.Add(-time.Hour))
	if err != nil || subject != "mailto:push@example.com" || !strings.HasPrefix(key, "BA1Hxzyi1RUM") {
		t.Fatalf("got %q, %q, %v", key, subject, err)
	}

	tests := []struct {
		name, header, origin string
		now                  time.Time
		want                 string
	}{
		{"expired", header, origin, expiry, "expired at 2016-01-23T04:36:08Z"},
		{"valid for too long", header, origin, expiry.Add(-25 * time.Hour), "more than 24 hours"},
		{"another push service", header, "https://other.example", expiry.Add(-time.Hour), "audience"},
		{"changed claims", strings.Replace(header, "eyJhdWQi", "eyJhdXQi", 1), origin, expiry.Add(-time.Hour), "signature does not match"},
		{"changed key", strings.Replace(header, "k=BA1H", "k=BA1I", 1), origin, expiry.Add(-time.Hour), "its key"},
		{"cut signature", strings.Replace(header, "zvoD1oA", "zvoA", 1), origin, expiry.Add(-time.Hour), "not 64"},
		{"two parts", "vapid t=a.b, k=c", origin, expiry, "2 parts, not 3"},
		{"not base64", "vapid t=a!.b.c, k=c", origin, expiry, "its part 1"},
		{"no JSON", "vapid t=YQ.YQ.YQ, k=c", origin, expiry, "its header"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, _, err := verify(tt.header, tt.origin, tt.now); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
		})
	}
}

// Tokens with a valid signature and invalid claims.
func TestSignedTokensWithBadClaims(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	const good = `{"aud":"https://push.example","exp":1000,"sub":"https://app.example/contact"}`
	tests := []struct{ name, header, claims, want string }{
		{"good", `{"alg":"ES256"}`, good, ""},
		{"no algorithm", `{"alg":"none"}`, good, `algorithm is "none"`},
		{"no subject", `{"alg":"ES256"}`, `{"aud":"https://push.example","exp":1000}`, "neither a mailto nor an https URL"},
		{"claims of another type", `{"alg":"ES256"}`, `{"exp":"soon"}`, "VAPID claims"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := verify(sign(t, private, tt.header, tt.claims), "https://push.example", time.Unix(900, 0))
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

func sign(t *testing.T, private *ecdsa.PrivateKey, header, claims string) string {
	t.Helper()
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(header)) + "." + encode([]byte(claims))
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, private, digest[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	public, err := private.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("vapid t=%s.%s, k=%s", signed, encode(signature), encode(public))
}

func raw(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
