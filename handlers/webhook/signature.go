package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"halley/handlers"
)

// Lengths of a symmetric key in bytes, by the specification, section "Signature scheme".
const (
	minKey = 24
	maxKey = 64
)

const secretPrefix = "whsec_"

// parseSecrets returns the keys of a list of secrets. The error tells the place of the
// secret in the list, but nothing of its text.
func parseSecrets(list handlers.Secret) (keys [][]byte, err error) {
	secrets := strings.FieldsFunc(list.Reveal(), func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
	if len(secrets) == 0 {
		return nil, errors.New("is empty; generate one with `echo whsec_$(openssl rand -base64 32)`, and give it to the receiver")
	}
	for i, secret := range secrets {
		text, ok := strings.CutPrefix(secret, secretPrefix)
		if !ok {
			return nil, fmt.Errorf("has a secret, number %d, that does not begin with %s; generate one with `echo whsec_$(openssl rand -base64 32)`", i+1, secretPrefix)
		}
		key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
		if err != nil {
			return nil, fmt.Errorf("has a secret, number %d, that is not base64 after %s", i+1, secretPrefix)
		}
		if len(key) < minKey || len(key) > maxKey {
			return nil, fmt.Errorf("has a secret, number %d, of %d bytes; the specification allows %d to %d", i+1, len(key), minKey, maxKey)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// sign returns the header webhook-signature: a signature for each key, in their order.
func sign(keys [][]byte, id, timestamp string, body []byte) string {
	signatures := make([]string, len(keys))
	for i, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + timestamp + "."))
		mac.Write(body)
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signatures, " ")
}
