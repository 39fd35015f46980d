package cosmos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger/redact"
)

func TestKeyCredential(t *testing.T) {
	for name, k := range map[string]string{"empty": "", "not base64": "secret*secret", "cut off": key[:len(key)-3]} {
		t.Run(name, func(t *testing.T) {
			_, err := KeyCredential(k)
			if err == nil || !strings.Contains(err.Error(), "base64") {
				t.Fatalf("got %v", err)
			}
			if k != "" && strings.Contains(err.Error(), k[:5]) {
				t.Errorf("error shows the key: %v", err)
			}
		})
	}
	if _, err := KeyCredential(" " + key + "\n"); err != nil {
		t.Errorf("white space around the key: %v", err)
	}
	if text := redact.Text("the server got " + key); text != "the server got "+redact.Mark {
		t.Errorf("an answer that repeats the key is printed as %s", text)
	}
}

type secretTokens struct{ Secret string }

func (secretTokens) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, nil
}

// A credential prints as [redacted] everywhere, also as a field of a struct.
func TestCredentialIsRedacted(t *testing.T) {
	byKey, err := KeyCredential(key)
	if err != nil {
		t.Fatal(err)
	}
	byToken := TokenCredential(secretTokens{"hunter2-of-the-app"})
	for _, c := range []Credential{byKey, byToken} {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", c)
			fmt.Fprintf(&out, verb+"\n", &c)
			fmt.Fprintf(&out, verb+"\n", struct{ c Credential }{c})
			fmt.Fprintf(&out, verb+"\n", struct{ C *Credential }{&c})
		}
		text, err := json.Marshal(map[string]any{"a": c, "b": &c})
		if err != nil || string(text) != `{"a":"[redacted]","b":"[redacted]"}` {
			t.Errorf("JSON %s, %v", text, err)
		}
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "cred", c)
		for _, secret := range []string{key[:10], "hunter2", "SharedKey", "2acba0c8"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("shows %q:\n%s", secret, out.String())
			}
		}
		if got := fmt.Sprint(c); got != "[redacted]" {
			t.Errorf("prints %s", got)
		}
	}
}

func TestParseConnectionString(t *testing.T) {
	for name, s := range map[string]string{
		"portal":      "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";",
		"no end":      "AccountEndpoint=" + endpoint + ";AccountKey=" + key,
		"other order": "accountkey=" + key + "; ACCOUNTENDPOINT=" + endpoint,
		"database":    "AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";Database=games;DisableServerCertificateValidation=False",
	} {
		t.Run(name, func(t *testing.T) {
			got, cred, err := ParseConnectionString(s)
			if err != nil || got != endpoint || cred.isZero() {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestParseConnectionStringRejectsInvalidStrings(t *testing.T) {
	for name, test := range map[string]struct{ s, want string }{
		"nothing":         {"", "AccountEndpoint is missing"},
		"bare key":        {key, "part 1 has an unknown name"},
		"bare endpoint":   {endpoint, "part 1 has an unknown name"},
		"no endpoint":     {"AccountKey=" + key, "AccountEndpoint is missing"},
		"no key":          {"AccountEndpoint=" + endpoint, "AccountKey is missing"},
		"empty key":       {"AccountEndpoint=" + endpoint + ";AccountKey=;", "AccountKey is missing"},
		"name lost":       {"AccountEndpoint=" + endpoint + ";" + key, "part 2 has an unknown name"},
		"bad key":         {"AccountEndpoint=" + endpoint + ";AccountKey=" + key[:20] + "*", "not base64"},
		"bad endpoint":    {"AccountEndpoint=games;AccountKey=" + key, "must be https://"},
		"plain http":      {"AccountEndpoint=http://games.documents.azure.com/;AccountKey=" + key, "must begin with https://"},
		"storage account": {"DefaultEndpointsProtocol=https;AccountName=x;AccountKey=" + key, "part 1 has an unknown name"},
		"certificate":     {"AccountEndpoint=" + endpoint + ";AccountKey=" + key + ";DisableServerCertificateValidation=true", "SSL_CERT_FILE"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := ParseConnectionString(test.s)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if strings.Contains(err.Error(), key[:10]) {
				t.Errorf("error shows the key: %v", err)
			}
		})
	}
}
