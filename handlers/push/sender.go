package push

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/SherClockHolmes/webpush-go"

	"halley/handlers/outbound"
	"halley/trigger/redact"
)

var (
	errEnded    = errors.New("subscription has ended")
	errUnusable = errors.New("subscription can never work")
)

// Message is the JSON text of a notification, which the service worker shows.
type Message struct {
	Type   string  `json:"type"` // "overtaken"
	Game   string  `json:"game"`
	Player string  `json:"player"` // the overtaken player, who gets the message
	Best   float64 `json:"best"`   // their best score
	By     string  `json:"by"`     // the player with the new score
	Score  float64 `json:"score"`  // the new score
	At     int64   `json:"at"`     // time of the result, in seconds since 1970
	Tag    string  `json:"tag"`    // the tag option of showNotification; the same if the message is repeated
}

// StatusError is a push service's refusal of a notification.
type StatusError struct {
	Host       string // of the push service; the endpoint itself is a secret
	Status     int
	RetryAfter time.Duration // from the header Retry-After; 0 if there is none
	Text       string        // the beginning of the answer
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("push service %s answered %d %s", e.Host, e.Status, http.StatusText(e.Status))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		text += ", check that the browser subscribed with VAPID_PUBLIC_KEY"
	}
	if e.Text != "" {
		text += fmt.Sprintf(": %q", e.Text)
	}
	return text
}

// sender speaks to push services. It is safe for concurrent use.
type sender struct {
	client    *http.Client
	rules     outbound.Rules
	vapid     vapid
	ttl       time.Duration
	pauses    pauses
	cooldowns cooldowns
}

func newSender(s Settings) (*sender, error) {
	keys, err := newVAPID(s)
	if err != nil {
		return nil, err
	}
	return &sender{
		client: s.rules().Client(time.Duration(s.SendTimeout)),
		rules:  s.rules(),
		vapid:  keys,
		ttl:    time.Duration(s.TTL),
		pauses: pauses{longest: time.Duration(s.MaxAge)},
	}, nil
}

// send notifies one device of o, even if it is paused. It returns errEnded,
// errUnusable, a [*StatusError], or the network's error if there is no answer.
func (s *sender) send(ctx context.Context, o overtaking, device Subscription) error {
	target, err := s.rules.Check(device.Endpoint)
	if err != nil {
		return fmt.Errorf("%w: its endpoint is %w (setting ENDPOINT_HOSTS lists the hosts)", errUnusable, err)
	}
	if device.Keys, err = device.Keys.canonical(); err != nil {
		return fmt.Errorf("%w: %w", errUnusable, err)
	}
	topic := digest(o.Game, o.Player, o.By)
	response, err := s.post(ctx, message(o, topic), topic, device)
	if errors.Is(err, outbound.ErrRefused) {
		return fmt.Errorf("%w: its endpoint is %w", errUnusable, withoutURL(err))
	}
	if err != nil {
		return fmt.Errorf("push service %s: %w", target.Host, withoutURL(err))
	}
	defer response.Body.Close()
	err = judge(target, response)
	var refusal *StatusError
	if errors.As(err, &refusal) {
		s.pauses.add(device.Endpoint, refusal)
	}
	return err
}

func (s *sender) post(ctx context.Context, text []byte, topic string, device Subscription) (*http.Response, error) {
	return webpush.SendNotificationWithContext(ctx, text,
		&webpush.Subscription{Endpoint: device.Endpoint, Keys: webpush.Keys{Auth: device.Keys.Auth, P256dh: device.Keys.P256dh}},
		&webpush.Options{
			HTTPClient:      s.client,
			Subscriber:      s.vapid.subject,
			Topic:           topic,
			TTL:             int(s.ttl / time.Second),
			Urgency:         webpush.UrgencyNormal,
			VAPIDPublicKey:  s.vapid.public,
			VAPIDPrivateKey: s.vapid.private,
		})
}

// message encodes o. It fits into one record, because names have at most
// [game.MaxName] bytes and no control characters.
func message(o overtaking, tag string) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	m := Message{Type: "overtaken", Game: o.Game, Player: o.Player, Best: o.Best, By: o.By, Score: o.Score, At: o.At, Tag: tag}
	_ = encoder.Encode(m) // its fields are strings and finite numbers
	return bytes.TrimSpace(text.Bytes())
}

// maxText is the number of bytes of a refusal that are read.
const maxText = 256

// judge reads an answer as RFC 8030 section 5 and 7.3 define it. It does not read
// the body of a success: a hostile server could send it slowly.
func judge(target *url.URL, response *http.Response) error {
	switch {
	case response.StatusCode/100 == 2:
		return nil
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusGone:
		return errEnded
	}
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxText)) // the part that has arrived is enough
	return &StatusError{
		Host:       target.Host,
		Status:     response.StatusCode,
		RetryAfter: retryAfter(response.Header),
		Text:       strings.ToValidUTF8(string(text), "�"),
	}
}

// retryAfter reads seconds or a date (RFC 9110 section 10.2.3).
func retryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return min(time.Duration(max(seconds, 0)), 1<<31) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(time.Until(at), 0).Round(time.Second)
	}
	return 0
}

// withoutURL removes the endpoint from a client's error. An endpoint is a secret:
// it suffices to send a push.
func withoutURL(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}

// vapid holds the application server's keys (RFC 8292).
type vapid struct{ public, private, subject string }

func newVAPID(s Settings) (vapid, error) {
	private, err := vapidPrivateKey(s)
	if err != nil {
		return vapid{}, err
	}
	public, err := decode(string(s.VAPIDPublicKey))
	if err != nil || s.VAPIDPublicKey == "" {
		return vapid{}, errors.New("VAPID_PUBLIC_KEY is not a key in base64url; set the public key of the pair that browsers subscribe with")
	}
	if !bytes.Equal(public, private.PublicKey().Bytes()) {
		return vapid{}, errors.New("VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY; set both keys of one pair")
	}
	subject, ok := s.VAPIDSubject.subject()
	if !ok {
		return vapid{}, errors.New("VAPID_SUBJECT is not a contact for push services; set an e-mail address or an https URL")
	}
	return vapid{public: encode(public), private: encode(private.Bytes()), subject: subject}, nil
}

func vapidPrivateKey(s Settings) (*ecdh.PrivateKey, error) {
	private, err := decode(s.VAPIDPrivateKey.Reveal())
	if err == nil {
		var key *ecdh.PrivateKey
		if key, err = ecdh.P256().NewPrivateKey(private); err == nil {
			return key, nil
		}
	}
	return nil, errors.New("VAPID_PRIVATE_KEY is not a P-256 key of 32 bytes in base64url; generate a pair, for example with `npx web-push generate-vapid-keys`")
}

// redacted is printed in place of a value that may be a secret.
const redacted = "[redacted]"

// PublicKey is the public VAPID key. If the value is not a public key, it may be
// the private key in the wrong setting, so it prints as [redacted].
type PublicKey string

// String returns the key if it is a P-256 point, else [redacted].
func (k PublicKey) String() string {
	public, err := decode(string(k))
	if err == nil {
		_, err = ecdh.P256().NewPublicKey(public)
	}
	if k != "" && err != nil {
		return redacted
	}
	return string(k)
}

// Format prints String under every verb.
func (k PublicKey) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }

// MarshalText returns String, which also covers encoding/json and zap.
func (k PublicKey) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Contact is the subject of the VAPID token: an e-mail address, with or without
// mailto:, or an https URL. Any other value prints as [redacted], because it may
// be a key in the wrong setting.
type Contact string

// String returns the contact if it is valid, else [redacted].
func (c Contact) String() string {
	if _, ok := c.subject(); c != "" && !ok {
		return redacted
	}
	return redact.Text(string(c))
}

// Format prints String under every verb.
func (c Contact) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }

// MarshalText returns String, which also covers encoding/json and zap.
func (c Contact) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// subject returns the contact without mailto:, which the library adds. ok is
// false if the contact is not valid.
func (c Contact) subject() (subject string, ok bool) {
	if u, err := url.Parse(string(c)); err == nil && u.Scheme == "https" && u.Host != "" {
		return string(c), true
	}
	address := strings.TrimPrefix(string(c), "mailto:")
	parsed, err := mail.ParseAddress(address)
	return address, err == nil && parsed.Address == address
}
