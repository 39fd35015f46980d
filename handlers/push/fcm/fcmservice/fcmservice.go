// Package fcmservice is a stub of Firebase Cloud Messaging and of Google's token endpoint
// in one process, for development and tests. It makes the checks that the documentation
// of FCM HTTP v1 names, and answers with its errors. It shares no code with the sender.
package fcmservice

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"halley/handlers/loopback"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"
)

// Project is the id of the stub's project.
const Project = "demo-project"

const clientEmail = "sender@demo-project.iam.gserviceaccount.com"

// Notification is a message that a device received.
type Notification struct {
	Token       string
	Data        map[string]string
	Title, Body string
	CollapseKey string // of Android; the same as that of iOS and browsers
	TTL         string // seconds, such as 3600s
}

// Answer replaces the answer to a valid message. Code is the error code of FCM.
type Answer struct {
	Status int
	Code   string
	Header http.Header // for example Retry-After
}

// Service is a running stub. It is safe for concurrent use.
type Service struct {
	server *loopback.Server
	key    *rsa.PrivateKey

	mu       sync.Mutex
	devices  map[string][]Answer // queued answers, by registration token
	received []Notification
	tokens   map[string]bool // access tokens that are valid
	grants   int
}

// Start serves on addr, which must be a loopback address such as 127.0.0.1:0, until
// Close.
func Start(addr string) (*Service, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("start FCM stub: %w", err)
	}
	server, err := loopback.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("start FCM stub: %w", err)
	}
	s := &Service{server: server, key: key, devices: map[string][]Answer{}, tokens: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /token", s.serveToken)
	mux.HandleFunc("POST /v1/projects/{project}/{method}", s.serveSend)
	server.Serve(mux)
	return s, nil
}

// Close stops the stub when running requests are answered.
func (s *Service) Close() error { return s.server.Close() }

// Endpoint returns the origin of the stub.
func (s *Service) Endpoint() string { return s.server.Origin() }

// ServiceAccount returns the key file of the stub's service account.
func (s *Service) ServiceAccount() (string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(s.key)
	if err != nil {
		return "", err
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": Project, "client_email": clientEmail, "token_uri": s.server.Origin() + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	return string(file), err
}

// Register returns the registration token of a new device.
func (s *Service) Register() string {
	token := "fcm-" + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[token] = nil
	return token
}

// Unregister removes a device, as if the app was deleted from it.
func (s *Service) Unregister(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.devices, token)
}

// Answer queues answers for the next messages to a device, one for each. They do not
// reach the device.
func (s *Service) Answer(token string, answers ...Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.devices[token] = append(s.devices[token], answers...)
}

// RevokeTokens makes all access tokens invalid.
func (s *Service) RevokeTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Grants counts the access tokens that were given.
func (s *Service) Grants() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grants
}

// Received returns what devices received, in the order of arrival.
func (s *Service) Received() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Notification(nil), s.received...)
}

func (s *Service) serveToken(w http.ResponseWriter, r *http.Request) {
	err := r.ParseForm()
	if err == nil {
		err = s.checkAssertion(r.PostForm, time.Now())
	}
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": err.Error()})
		return
	}
	token := "ya29." + rand.Text()
	s.mu.Lock()
	s.tokens[token] = true
	s.grants++
	s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
}

// checkAssertion verifies a JSON Web Token by RFC 7515 and RFC 7523.
func (s *Service) checkAssertion(form url.Values, now time.Time) error {
	if grant := form.Get("grant_type"); grant != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		return fmt.Errorf("grant_type is %q", grant)
	}
	parts := strings.Split(form.Get("assertion"), ".")
	if len(parts) != 3 {
		return errors.New("assertion is not a JWT")
	}
	var header struct{ Alg string }
	var claims struct {
		Iss, Scope, Aud string
		Iat, Exp        int64
	}
	for i, target := range []any{&header, &claims} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(text, target)
		}
		if err != nil {
			return fmt.Errorf("part %d of the assertion: %w", i+1, err)
		}
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	switch {
	case err != nil || header.Alg != "RS256" || rsa.VerifyPKCS1v15(&s.key.PublicKey, crypto.SHA256, digest[:], signature) != nil:
		return errors.New("invalid JWT signature")
	case claims.Iss != clientEmail, claims.Aud != s.server.Origin()+"/token", claims.Scope != "https://www.googleapis.com/auth/firebase.messaging":
		return errors.New("iss, aud or scope is wrong")
	case claims.Iat > now.Unix()+60, claims.Exp < now.Unix(), claims.Exp > claims.Iat+3600:
		return errors.New("the token is not valid now, or for more than an hour")
	}
	return nil
}

// message is projects.messages.Message of the reference, as far as the sender uses it.
type message struct {
	Token        string            `json:"token"`
	Data         map[string]string `json:"data"`
	Notification struct {
		Title string `json:"title"`
		Body  string `json:"body"`
	} `json:"notification"`
	Android struct {
		CollapseKey string `json:"collapse_key"`
		TTL         string `json:"ttl"`
	} `json:"android"`
	APNS struct {
		Headers map[string]string `json:"headers"`
	} `json:"apns"`
	Webpush struct {
		Headers map[string]string `json:"headers"`
	} `json:"webpush"`
}

var (
	duration    = regexp.MustCompile(`^[0-9]+(\.[0-9]{1,9})?s$`)
	reservedKey = regexp.MustCompile(`^(from|message_type|google.*|gcm.*)$`)
)

// maxPayload is the limit of the data and the notification of a message in bytes.
const maxPayload = 4096

// check returns what is wrong with a message.
func (m message) check() error {
	size := len(m.Notification.Title) + len(m.Notification.Body)
	for name, value := range m.Data {
		if size += len(name) + len(value); reservedKey.MatchString(name) {
			return fmt.Errorf("invalid data key %s", name)
		}
	}
	apnsKey := m.APNS.Headers["apns-collapse-id"]
	switch {
	case m.Token == "":
		return errors.New("recipient of the message is not set")
	case size > maxPayload:
		return errors.New("message is too big")
	case !duration.MatchString(m.Android.TTL):
		return fmt.Errorf("invalid ttl %q", m.Android.TTL)
	case len(apnsKey) > 64:
		return errors.New("apns-collapse-id has more than 64 bytes")
	case m.Android.CollapseKey == "" || apnsKey != m.Android.CollapseKey || m.Webpush.Headers["Topic"] != apnsKey:
		return errors.New("the collapse keys of the platforms differ")
	}
	return nil
}

func (s *Service) serveSend(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("method") != "messages:send" || r.PathValue("project") != Project {
		refuse(w, Answer{Status: http.StatusNotFound}, "NOT_FOUND", "no such project")
		return
	}
	s.mu.Lock()
	valid := s.tokens[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
	s.mu.Unlock()
	if !valid {
		refuse(w, Answer{Status: http.StatusUnauthorized}, "UNAUTHENTICATED", "request had invalid authentication credentials")
		return
	}
	var request struct {
		Message message `json:"message"`
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		err = decoder.Decode(&request)
	}
	if err == nil {
		err = request.Message.check()
	}
	if err != nil {
		refuse(w, Answer{Status: http.StatusBadRequest, Code: "INVALID_ARGUMENT"}, "INVALID_ARGUMENT", err.Error())
		return
	}
	if answer := s.receive(request.Message); answer != nil {
		refuse(w, *answer, "ERROR", "refused")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"name": "projects/" + Project + "/messages/" + rand.Text()})
}

// receive delivers a message unless the device is unknown or has another answer.
func (s *Service) receive(m message) *Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	answers, ok := s.devices[m.Token]
	if !ok {
		return &Answer{Status: http.StatusNotFound, Code: "UNREGISTERED"}
	}
	if len(answers) > 0 {
		s.devices[m.Token] = answers[1:]
		return &answers[0]
	}
	s.received = append(s.received, Notification{
		Token: m.Token, Data: m.Data, Title: m.Notification.Title, Body: m.Notification.Body,
		CollapseKey: m.Android.CollapseKey, TTL: m.Android.TTL,
	})
	return nil
}

// refuse answers with an error in the form of Google's APIs.
func refuse(w http.ResponseWriter, a Answer, status, text string) {
	type object = map[string]any
	failure := object{"code": a.Status, "message": text, "status": status}
	if a.Code != "" {
		failure["details"] = []object{{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": a.Code}}
	}
	maps.Copy(w.Header(), a.Header)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.Status)
	_ = json.NewEncoder(w).Encode(object{"error": failure})
}
