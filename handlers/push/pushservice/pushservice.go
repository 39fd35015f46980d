// Package pushservice is a push service (RFC 8030) with its devices in one
// process, for development and tests. It makes the checks of a real push service
// and decrypts messages as real devices do. It shares no code with the sender.
package pushservice

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"halley/handlers/loopback"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Notification is a message that a device received.
type Notification struct {
	Endpoint string
	Message  []byte        // decrypted
	TTL      time.Duration // how long a push service keeps it if the device is offline
	Topic    string        // if set, it replaces undelivered ones with the same topic
	Urgency  string        // may be empty
	Subject  string        // contact of the application server: mailto: or https:
}

// Device is a subscription in the form that a browser gives to a web application.
type Device struct{ Endpoint, P256dh, Auth string }

// Answer replaces the answer of the device when a push arrives.
type Answer struct {
	Status int
	Header http.Header // for example Retry-After
	Text   string
}

// Service is a running push service. It is safe for concurrent use.
type Service struct {
	server        *loopback.Server
	notifications chan Notification

	mu      sync.Mutex
	devices map[string]*device // by path
}

type device struct {
	private *ecdh.PrivateKey
	auth    []byte
	vapid   string // public key of the application server; if empty, any server may push
	answers []Answer
}

// Start serves on addr, which must be a loopback address such as 127.0.0.1:0,
// until Close.
func Start(addr string) (*Service, error) {
	server, err := loopback.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("start push service: %w", err)
	}
	s := newService(server)
	server.Serve(s)
	return s, nil
}

func newService(server *loopback.Server) *Service {
	return &Service{server: server, notifications: make(chan Notification), devices: make(map[string]*device)}
}

// Close stops the service and waits until it has stopped. If pushes wait for
// their notification to be read, it closes their connections.
func (s *Service) Close() error { return s.server.Close() }

// Notifications returns a channel of the notifications of all devices, in the
// order of arrival. A push is answered when its notification has been read here.
func (s *Service) Notifications() <-chan Notification { return s.notifications }

// Subscribe returns a new device. If vapidPublicKey, in base64url, is not empty,
// only its owner may push, as with PushManager.subscribe's
// applicationServerKey.
func (s *Service) Subscribe(vapidPublicKey string) (Device, error) {
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return Device{}, fmt.Errorf("subscribe: %w", err)
	}
	auth := make([]byte, 16)
	_, _ = rand.Read(auth) // never fails
	path := "/push/" + rand.Text()
	s.mu.Lock()
	s.devices[path] = &device{private: private, auth: auth, vapid: strings.TrimRight(vapidPublicKey, "=")}
	s.mu.Unlock()
	return Device{
		Endpoint: s.server.Origin() + path,
		P256dh:   base64.RawURLEncoding.EncodeToString(private.PublicKey().Bytes()),
		Auth:     base64.RawURLEncoding.EncodeToString(auth),
	}, nil
}

// Answer queues answers for the next pushes to an endpoint, one for each. If a
// push passes the checks, it gets its answer and does not reach the device.
func (s *Service) Answer(endpoint string, answers ...Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.devices[strings.TrimPrefix(endpoint, s.server.Origin())]
	if !ok {
		return fmt.Errorf("no device subscribed with endpoint %s", endpoint)
	}
	d.answers = append(d.answers, answers...)
	return nil
}

// refusal is the answer to an invalid push, with the reason.
type refusal struct {
	status int
	err    error
}

func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, refused := s.receive(w, r)
	if refused != nil {
		http.Error(w, refused.err.Error(), refused.status)
		return
	}
	if answer, ok := s.nextAnswer(r.URL.Path); ok {
		give(w, answer)
		return
	}
	if s.deliver(r.Context(), n) {
		w.Header().Set("Location", s.server.Origin()+"/message/"+rand.Text())
		w.WriteHeader(http.StatusCreated)
	}
}

// deliver waits until n is read. It returns false if the sender disconnects or
// the service stops first.
func (s *Service) deliver(ctx context.Context, n Notification) bool {
	select {
	case s.notifications <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

func give(w http.ResponseWriter, a Answer) {
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	_, _ = io.WriteString(w, a.Text)
}

func (s *Service) nextAnswer(path string) (Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.devices[path]
	if len(d.answers) == 0 {
		return Answer{}, false
	}
	next := d.answers[0]
	d.answers = d.answers[1:]
	return next, true
}

// maxBody is the size in bytes that a push service must accept at least (RFC 8030
// section 7.2). If a body is larger, it is refused.
const maxBody = 4096

// receive checks and decrypts a push.
func (s *Service) receive(w http.ResponseWriter, r *http.Request) (Notification, *refusal) {
	s.mu.Lock()
	d, ok := s.devices[r.URL.Path]
	s.mu.Unlock()
	if !ok {
		return Notification{}, &refusal{http.StatusNotFound, errors.New("no such subscription")}
	}
	if r.Method != http.MethodPost {
		return Notification{}, &refusal{http.StatusMethodNotAllowed, errors.New("a push is a POST")}
	}
	subject, refused := s.authorize(r, d)
	if refused != nil {
		return Notification{}, refused
	}
	n, err := readHeader(r.Header)
	if err != nil {
		return Notification{}, &refusal{http.StatusBadRequest, err}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return Notification{}, &refusal{http.StatusRequestEntityTooLarge, err}
	}
	if n.Message, err = decrypt(d.private, d.auth, body); err != nil {
		return Notification{}, &refusal{http.StatusBadRequest, err}
	}
	n.Endpoint, n.Subject = s.server.Origin()+r.URL.Path, subject
	return n, nil
}

func (s *Service) authorize(r *http.Request, d *device) (subject string, refused *refusal) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", &refusal{http.StatusUnauthorized, errors.New("no Authorization header")}
	}
	key, subject, err := verify(header, s.server.Origin(), time.Now())
	if err != nil {
		return "", &refusal{http.StatusForbidden, err}
	}
	if d.vapid != "" && d.vapid != key {
		return "", &refusal{http.StatusForbidden, errors.New("VAPID key is not the one that the device subscribed with")}
	}
	return subject, nil
}

var topic = regexp.MustCompile(`^[A-Za-z0-9_-]{0,32}$`)

// readHeader reads the fields of RFC 8030 section 5.
func readHeader(h http.Header) (Notification, error) {
	ttl, err := strconv.ParseUint(h.Get("TTL"), 10, 31)
	switch {
	case err != nil:
		return Notification{}, fmt.Errorf("header TTL is %q, not a number of seconds", h.Get("TTL"))
	case !topic.MatchString(h.Get("Topic")):
		return Notification{}, fmt.Errorf("header Topic is %q, not at most 32 characters of base64url", h.Get("Topic"))
	case h.Get("Content-Encoding") != "aes128gcm":
		return Notification{}, fmt.Errorf("header Content-Encoding is %q, not aes128gcm", h.Get("Content-Encoding"))
	}
	return Notification{
		TTL:     time.Duration(ttl) * time.Second,
		Topic:   h.Get("Topic"),
		Urgency: h.Get("Urgency"),
	}, nil
}
