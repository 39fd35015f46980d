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
)

// Credential proves to the account who calls. It prints as [redacted]
// everywhere. The zero value is no credential: [NewClient] refuses it.
type Credential struct {
	// A function keeps the key out of reach of everything that prints structs
	// by reflection.
	sign  func(text string) (signature string)
	token func() azcore.TokenCredential
}

const redacted = "[redacted]"

// KeyCredential is a credential from a primary or secondary key of the
// account, in base64 as the portal shows it. An error never holds the key.
func KeyCredential(key string) (Credential, error) {
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

// TokenCredential is a credential that asks c for Entra ID tokens, for example
// one of package azidentity. Tokens are cached and refreshed before they
// expire.
func TokenCredential(c azcore.TokenCredential) Credential {
	if c == nil {
		return Credential{}
	}
	return Credential{token: func() azcore.TokenCredential { return c }}
}

func (c Credential) isZero() bool { return c.sign == nil && c.token == nil }

// Format prints [redacted] under every verb.
func (Credential) Format(s fmt.State, _ rune) { io.WriteString(s, redacted) }

// String returns [redacted].
func (Credential) String() string { return redacted }

// MarshalText returns [redacted], also to encoding/json and to zap.
func (Credential) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns [redacted] to log/slog.
func (Credential) LogValue() slog.Value { return slog.StringValue(redacted) }

var errConnectionString = errors.New("connection string must read AccountEndpoint=https://…;AccountKey=…; as on the account's Keys page")

// ParseConnectionString takes a connection string of the portal apart. Names
// are matched without regard to case. An error names the part at fault and
// never repeats a value.
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
			// Some tools add it; the database is named where it is used.
		case "disableservercertificatevalidation":
			if strings.EqualFold(value, "true") {
				return "", Credential{}, errors.New("connection string: DisableServerCertificateValidation is not supported: trust the certificate (SSL_CERT_FILE) or use http:// on loopback")
			}
		default:
			return "", Credential{}, fmt.Errorf("part %d is not known: %w", i+1, errConnectionString)
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
