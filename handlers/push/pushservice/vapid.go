package pushservice

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"
)

// claims of a VAPID token (RFC 8292 section 2).
type claims struct {
	Audience string `json:"aud"`
	Expiry   int64  `json:"exp"`
	Subject  string `json:"sub"`
}

// verify checks an Authorization header of the vapid scheme (RFC 8292 section
// 3) for a push service at audience. If it is valid, verify returns the public
// key in base64url without padding, and the subject.
func verify(header, audience string, now time.Time) (key, subject string, err error) {
	token, key, err := parameters(header)
	if err != nil {
		return "", "", err
	}
	text, err := verified(token, key)
	if err != nil {
		return "", "", fmt.Errorf("VAPID token: %w", err)
	}
	var c claims
	if err := json.Unmarshal(text, &c); err != nil {
		return "", "", fmt.Errorf("VAPID claims: %w", err)
	}
	return key, c.Subject, c.check(audience, now)
}

// parameters splits "vapid t=TOKEN, k=KEY".
func parameters(header string) (token, key string, err error) {
	scheme, list, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "vapid") {
		return "", "", fmt.Errorf("authorization scheme is %q, not vapid", scheme)
	}
	for parameter := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(parameter), "=")
		switch name {
		case "t":
			token = value
		case "k":
			key = strings.TrimRight(value, "=")
		}
	}
	if token == "" || key == "" {
		return "", "", errors.New("vapid authorization has no t or no k")
	}
	return token, key, nil
}

// verified returns the claims of a token, or an error if its ES256 signature (RFC
// 7518 section 3.4) is invalid.
func verified(token, key string) ([]byte, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("it has %d parts, not 3", len(parts))
	}
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return nil, fmt.Errorf("its part %d: %w", i+1, err)
		}
	}
	if err := checkAlgorithm(decoded[0]); err != nil {
		return nil, err
	}
	if err := checkSignature(parts[0]+"."+parts[1], decoded[2], key); err != nil {
		return nil, err
	}
	return decoded[1], nil
}

func checkAlgorithm(header []byte) error {
	var h struct {
		Algorithm string `json:"alg"`
	}
	if err := json.Unmarshal(header, &h); err != nil {
		return fmt.Errorf("its header: %w", err)
	}
	if h.Algorithm != "ES256" {
		return fmt.Errorf("its algorithm is %q, not ES256", h.Algorithm)
	}
	return nil
}

func checkSignature(signed string, signature []byte, key string) error {
	point, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		return fmt.Errorf("its key: %w", err)
	}
	public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return fmt.Errorf("its key: %w", err)
	}
	if len(signature) != 64 {
		return fmt.Errorf("its signature has %d bytes, not 64", len(signature))
	}
	digest := sha256.Sum256([]byte(signed))
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(public, digest[:], r, s) {
		return errors.New("its signature does not match")
	}
	return nil
}

func (c claims) check(audience string, now time.Time) error {
	expiry := time.Unix(c.Expiry, 0)
	switch {
	case c.Audience != audience:
		return fmt.Errorf("VAPID audience is %q, not %q", c.Audience, audience)
	case !expiry.After(now):
		return fmt.Errorf("VAPID token expired at %s", expiry.UTC().Format(time.RFC3339))
	case expiry.After(now.Add(24 * time.Hour)):
		return errors.New("VAPID token is valid for more than 24 hours")
	}
	return checkSubject(c.Subject)
}

func checkSubject(subject string) error {
	u, err := url.Parse(subject)
	if err != nil || u.Scheme != "mailto" && u.Scheme != "https" || strings.Contains(u.Opaque, ":") {
		return fmt.Errorf("VAPID subject %q is neither a mailto nor an https URL", subject)
	}
	return nil
}
