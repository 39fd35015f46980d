package push

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/SherClockHolmes/webpush-go"

	"halley/handlers/outbound"
)

// sender is the channel of Web Push: it speaks to push services. It is safe for
// concurrent use.
type sender struct {
	*Subscriptions
	client *http.Client
	rules  outbound.Rules
	vapid  vapid
	ttl    time.Duration
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
	}, nil
}

// Send implements [Channel].
func (s *sender) Send(ctx context.Context, m Message, device Subscription) error {
	target, err := s.rules.Check(device.Endpoint)
	if err != nil {
		return fmt.Errorf("%w: its endpoint is %w (setting ENDPOINT_HOSTS lists the hosts)", ErrUnusable, err)
	}
	if device.Keys, err = device.Keys.canonical(); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	response, err := s.post(ctx, m.Encode(), m.Tag, device)
	if errors.Is(err, outbound.ErrRefused) {
		return fmt.Errorf("%w: its endpoint is %w", ErrUnusable, outbound.WithoutURL(err))
	}
	if err != nil {
		return fmt.Errorf("push service %s: %w", target.Host, outbound.WithoutURL(err))
	}
	defer response.Body.Close()
	return judge(target, response)
}

// Close implements [Channel].
func (s *sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
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

// Encode returns the text of the message. It fits into one record, because names have at
// most [game.MaxName] bytes and no control characters.
func (m Message) Encode() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(m) // its fields are strings and finite numbers
	return bytes.TrimSpace(text.Bytes())
}

// judge reads an answer as RFC 8030 section 5 and 7.3 define it. It does not read
// the body of a success: a hostile server could send it slowly.
func judge(target *url.URL, response *http.Response) error {
	switch {
	case response.StatusCode/100 == 2:
		return nil
	case response.StatusCode == http.StatusNotFound, response.StatusCode == http.StatusGone:
		return ErrEnded
	}
	refusal := outbound.ReadRefusal("push service "+target.Host, response)
	if refusal.Status == http.StatusUnauthorized || refusal.Status == http.StatusForbidden {
		refusal.Advice = "check that the browser subscribed with VAPID_PUBLIC_KEY"
	}
	return refusal
}
