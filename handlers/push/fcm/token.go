package fcm

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"halley/handlers"
	"halley/handlers/outbound"
)

// account is the part of a service account's key file that is used.
type account struct {
	ProjectID   string `json:"project_id"`
	ClientEmail string `json:"client_email"`
	PrivateKey  string `json:"private_key"`
	TokenURI    string `json:"token_uri"`

	key *rsa.PrivateKey
}

// parseAccount reads a key file. The error has nothing of its text.
func parseAccount(file handlers.Secret) (*account, error) {
	if file == "" {
		return nil, errors.New("is empty; set it to the JSON text of a key file, from the Firebase console under Service accounts")
	}
	var a account
	if json.Unmarshal([]byte(file.Reveal()), &a) != nil {
		return nil, errors.New("is not JSON; set it to the text of the key file, not to its path")
	}
	if a.ProjectID == "" || a.ClientEmail == "" || a.TokenURI == "" {
		return nil, errors.New("lacks project_id, client_email or token_uri; set it to the key file of a service account")
	}
	key, err := jwt.ParseRSAPrivateKeyFromPEM([]byte(a.PrivateKey))
	if err != nil {
		return nil, errors.New("has no RSA key in private_key; create a new key file")
	}
	a.key, a.PrivateKey = key, ""
	return &a, nil
}

const (
	messagingScope = "https://www.googleapis.com/auth/firebase.messaging"
	bearerGrant    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	assertionTime  = time.Hour // the longest that Google accepts
	renewBefore    = time.Minute
)

// tokenSource has the access token of a service account. It is safe for concurrent use;
// calls that need a new token share one request.
type tokenSource struct {
	client  *http.Client
	account *account
	slot    chan struct{} // capacity 1: held by the call that fetches

	mu      sync.Mutex // guards current and expires
	current string
	expires time.Time
}

func newTokenSource(client *http.Client, account *account) *tokenSource {
	return &tokenSource{client: client, account: account, slot: make(chan struct{}, 1)}
}

// token returns an access token that is valid for a minute at least. Its error is
// neither a refusal of FCM nor the timeout of a device: it concerns all devices, and
// fails the call.
func (s *tokenSource) token(ctx context.Context) (string, error) {
	if token := s.cached(); token != "" {
		return token, nil
	}
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		return "", fmt.Errorf("fetch access token: no answer: %v", ctx.Err())
	}
	if token := s.cached(); token != "" { // of the call that held the slot
		return token, nil
	}
	token, err := s.fetch(ctx)
	if err != nil {
		return "", fmt.Errorf("fetch access token: %v", err)
	}
	return token, nil
}

func (s *tokenSource) cached() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expires) < renewBefore {
		return ""
	}
	return s.current
}

// drop forgets a token that was refused, unless there is another one already.
func (s *tokenSource) drop(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == token {
		s.current, s.expires = "", time.Time{}
	}
}

// fetch exchanges a signed assertion for an access token, see
// https://developers.google.com/identity/protocols/oauth2/service-account.
func (s *tokenSource) fetch(ctx context.Context) (string, error) {
	now := time.Now()
	assertion, err := jwt.NewWithClaims(jwt.SigningMethodRS256, jwt.MapClaims{
		"iss": s.account.ClientEmail, "scope": messagingScope, "aud": s.account.TokenURI,
		"iat": now.Unix(), "exp": now.Add(assertionTime).Unix(),
	}).SignedString(s.account.key)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {bearerGrant}, "assertion": {assertion}}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.account.TokenURI, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := s.client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		refusal := outbound.ReadRefusal("token endpoint "+request.URL.Host, response)
		if refusal.Status/100 == 4 {
			refusal.Advice = "check that the key of the service account is not deleted, and the clock of the host"
		}
		return "", refusal
	}
	return s.store(response.Body, now)
}

func (s *tokenSource) store(body io.Reader, now time.Time) (string, error) {
	var answer struct {
		AccessToken string `json:"access_token"`
		ExpiresIn   int64  `json:"expires_in"`
	}
	err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer)
	if err != nil || answer.AccessToken == "" {
		return "", errors.New("the answer has no access_token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.expires = answer.AccessToken, now.Add(time.Duration(answer.ExpiresIn)*time.Second)
	return s.current, nil
}
