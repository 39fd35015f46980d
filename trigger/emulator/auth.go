package emulator

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Key is the master key of every emulator, published at
// https://learn.microsoft.com/azure/cosmos-db/emulator. It protects nothing.
const Key = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

func unauthorized(message string) *failure {
	return fail(http.StatusUnauthorized, 0, "The input authorization token can't serve the request. %s", message)
}

// authorize checks the authorization header: a signature by the master key, or an
// Entra ID token as the official emulator takes it, of a principal whose roles allow the
// request.
func (c *call) authorize() error {
	authorization := c.header.Get("Authorization")
	if strings.ContainsRune(authorization, '%') {
		authorization, _ = url.QueryUnescape(authorization) // if it fails, the type is unknown
	}
	if authorization == "" {
		return fail(http.StatusUnauthorized, 0, "Required Header authorization is missing. Ensure a valid Authorization token is passed.")
	}
	kind, credential, _ := strings.Cut(authorization, "&ver=1.0&sig=")
	switch kind {
	case "type=master":
		return c.checkSignature(credential)
	case "type=aad":
		principal, err := checkToken(credential, c.now)
		if err != nil {
			return err
		}
		return c.permit(principal)
	}
	return unauthorized("Send an authorization header of the form type=master&ver=1.0&sig=… or type=aad&ver=1.0&sig=….")
}

// checkSignature follows
// https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources.
// If the path names a resource by its resource id, the signature covers that id
// alone, in lower case.
func (c *call) checkSignature(signature string) error {
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return unauthorized("The signature is not base64.")
	}
	links := []string{c.target.link, strings.ToLower(c.target.link[strings.LastIndexByte(c.target.link, '/')+1:])}
	kinds := []string{c.target.kind}
	if c.target.kind == kindKey {
		kinds = append(kinds, kindContainer) // azure-cosmos for Python signs the container
	}
	for _, link := range links {
		for _, kind := range kinds {
			if hmac.Equal(given, sign(c.method, kind, link, c.header.Get("X-Ms-Date"))) {
				return nil
			}
		}
	}
	return unauthorized("The signature does not match: the account key, the x-ms-date header or the signed resource link is wrong.")
}

var masterKey, _ = base64.StdEncoding.DecodeString(Key)

func sign(method, kind, link, date string) []byte {
	mac := hmac.New(sha256.New, masterKey)
	mac.Write([]byte(strings.ToLower(method) + "\n" + kind + "\n" + link + "\n" + strings.ToLower(date) + "\n\n"))
	return mac.Sum(nil)
}

// checkToken takes an unexpired JWT whose third part is the master key, as the
// emulator tests of azcosmos (emulator_test.go) make them, and returns its principal.
func checkToken(token string, now time.Time) (principal string, err error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return "", unauthorized("The Entra ID token is not a JWT.")
	}
	secret, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || subtle.ConstantTimeCompare(secret, []byte(Key)) != 1 {
		return "", unauthorized("The Entra ID token must carry the emulator's master key as its signature.")
	}
	var claims struct {
		Expires  int64  `json:"exp"`
		ObjectID string `json:"oid"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return "", unauthorized("The claims of the Entra ID token are not base64url JSON.")
	}
	if claims.Expires != 0 && claims.Expires <= now.Unix() {
		return "", unauthorized("The Entra ID token has expired.")
	}
	return claims.ObjectID, nil
}
