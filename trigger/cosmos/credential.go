package cosmos

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"halley/trigger/redact"
)

// Credential authenticates the requests of a [Client]. It prints as [redacted]
// everywhere. The zero value is not a credential: [NewClient] rejects it.
type Credential struct {
	// The key is held in a closure, so that packages which print structs by
	// reflection cannot reach it.
	sign  func(text string) (signature string)
	token func() azcore.TokenCredential
}

// KeyCredential returns a credential from a primary or secondary key of the
// account, in base64 as the portal shows it. Errors never contain the key.
func KeyCredential(key string) (Credential, error) {
	redact.Learn(key)
	secret, err := base64.StdEncoding.DecodeString(strings.TrimSpace(key))
	if err != nil || len(secret) == 0 {
		return Credential{}, fmt.Errorf("account key of %d characters is not base64: copy the whole key, to the last '='", len(key))
	}
	return Credential{sign: func(text string) string {
		mac := hmac.New(sha256.New, secret)
		io.WriteString(mac, text)
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}}, nil
}

// TokenCredential returns a credential that requests Entra ID tokens from c,
// for example a credential of package azidentity. Tokens are cached and
// refreshed before they expire.
func TokenCredential(c azcore.TokenCredential) Credential {
	if c == nil {
		return Credential{}
	}
	return Credential{token: func() azcore.TokenCredential { return c }}
}

func (c Credential) isZero() bool { return c.sign == nil && c.token == nil }

// Format prints [redacted] under every verb.
func (Credential) Format(s fmt.State, _ rune) { io.WriteString(s, redact.Mark) }

// String returns [redacted].
func (Credential) String() string { return redact.Mark }

// MarshalText returns [redacted], which also covers encoding/json and zap.
func (Credential) MarshalText() ([]byte, error) { return []byte(redact.Mark), nil }

// LogValue returns [redacted], for log/slog.
func (Credential) LogValue() slog.Value { return slog.StringValue(redact.Mark) }

var errConnectionString = errors.New("connection string must be AccountEndpoint=https://…;AccountKey=…; as on the account's Keys page")

// ParseConnectionString parses a connection string as the portal shows it.
// Names are matched without regard to case. Errors name the part at fault and
// never contain a value.
func ParseConnectionString(s string) (endpoint string, cred Credential, err error) {
	var key string
	for i, part := range strings.Split(s, ";") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "accountendpoint":
			endpoint = value
		case "accountkey":
			key = value
		case "database":
			// Some tools add it. Halley names the database in a setting of its
			// own.
		case "disableservercertificatevalidation":
			if strings.EqualFold(value, "true") {
				return "", Credential{}, errors.New("connection string: DisableServerCertificateValidation is not supported: trust the certificate (SSL_CERT_FILE) or use http:// on loopback")
			}
		default:
			return "", Credential{}, fmt.Errorf("part %d has an unknown name: %w", i+1, errConnectionString)
		}
	}
	if endpoint == "" {
		return "", Credential{}, fmt.Errorf("AccountEndpoint is missing: %w", errConnectionString)
	}
	if key == "" {
		return "", Credential{}, fmt.Errorf("AccountKey is missing: %w", errConnectionString)
	}
	if _, err = parseEndpoint(endpoint); err != nil {
		return "", Credential{}, fmt.Errorf("connection string: %w", err)
	}
	if cred, err = KeyCredential(key); err != nil {
		return "", Credential{}, fmt.Errorf("connection string: %w", err)
	}
	return endpoint, cred, nil
}
