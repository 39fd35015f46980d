package push

import (
	"bytes"
	"crypto/ecdh"
	"errors"
	"fmt"
	"io"
	"net/mail"
	"net/url"
	"strings"

	"halley/trigger/redact"
)

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
