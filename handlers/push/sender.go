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
	endpoints endpoints
	vapid     vapid
	ttl       time.Duration
	pauses    pauses
}

func newSender(s Settings) (*sender, error) {
	keys, err := newVAPID(s)
	if err != nil {
		return nil, err
	}
	allowed := endpoints{private: bool(s.AllowPrivateEndpoints), hosts: s.EndpointHosts}
	return &sender{
		client:    allowed.client(time.Duration(s.SendTimeout)),
		endpoints: allowed,
		vapid:     keys,
		ttl:       time.Duration(s.TTL),
		pauses:    pauses{longest: time.Duration(s.MaxAge)},
	}, nil
}

// send notifies one device of o, even if it is paused. It returns errEnded,
// errUnusable, a [*StatusError], or the network's error if there is no answer.
func (s *sender) send(ctx context.Context, o overtaking, device Subscription) error {
	target, err := s.endpoints.check(device.Endpoint)
	if err == nil {
		device.Keys, err = device.Keys.canonical()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errUnusable, err)
	}
	topic := digest(o.Game, o.Player, o.By)
	response, err := s.post(ctx, message(o, topic), topic, device)
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

// maxText is the number of bytes of an answer that are read.
const maxText = 256

// judge reads an answer as RFC 8030 section 5 and 7.3 define it.
func judge(target *url.URL, response *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxText)) // if it is read to its end, the connection can be reused
	switch {
	case response.StatusCode/100 == 2:
		return nil
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusGone:
		return errEnded
	}
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
	public, err := decode(s.VAPIDPublicKey)
	if err != nil || s.VAPIDPublicKey == "" {
		return vapid{}, errors.New("VAPID_PUBLIC_KEY is not a key in base64url; set the public key of the pair that browsers subscribe with")
	}
	if !bytes.Equal(public, private.PublicKey().Bytes()) {
		return vapid{}, errors.New("VAPID_PUBLIC_KEY is not the public key of VAPID_PRIVATE_KEY; set both keys of one pair")
	}
	subject, err := vapidSubject(s.VAPIDSubject)
	return vapid{public: encode(public), private: encode(private.Bytes()), subject: subject}, err
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

// vapidSubject returns s without mailto:, which the library adds.
func vapidSubject(s string) (string, error) {
	address := strings.TrimPrefix(s, "mailto:")
	if u, err := url.Parse(s); err == nil && u.Scheme == "https" && u.Host != "" {
		return s, nil
	}
	if parsed, err := mail.ParseAddress(address); err == nil && parsed.Address == address {
		return address, nil
	}
	return "", fmt.Errorf("VAPID_SUBJECT is %q; set an e-mail address or an https URL", s)
}
