// Package receiver is a receiver of webhooks in one process, for development and tests.
// It makes the checks of the Standard Webhooks specification
// (https://www.standardwebhooks.com), drops messages that it has seen, and keeps the
// newest message about each document. It shares no code with the sender.
package receiver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"halley/handlers/loopback"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Message is a message that was accepted.
type Message struct {
	ID        string          // the header webhook-id
	Type      string          `json:"type"`
	Timestamp time.Time       `json:"timestamp"`
	Data      Change          `json:"data"`
	Body      json.RawMessage // as it was signed
}

// Change is the data of a message.
type Change struct {
	ID           string          `json:"id"`
	PartitionKey json.RawMessage `json:"partitionKey"`
	Epoch        int64           `json:"epoch"`
	LSN          int64           `json:"lsn"`
	Document     json.RawMessage `json:"document"`
	Previous     json.RawMessage `json:"previous"`
}

// Request is a request as it arrived.
type Request struct {
	Header http.Header
	Body   []byte
}

// Answer replaces the answer to a message.
type Answer struct {
	Status int
	Header http.Header // for example Retry-After
	Text   string
}

// Receiver is a running receiver. It is safe for concurrent use.
type Receiver struct {
	server *loopback.Server
	key    []byte

	mu       sync.Mutex
	answer   func(Request) *Answer
	requests []Request
	messages []Message          // in the order of arrival, each id once
	seen     map[string]bool    // ids
	newest   map[string]Message // by partition key and id of the document
	repeated int
}

// Start serves on addr, which must be a loopback address such as 127.0.0.1:0, until
// Close. It accepts messages that one of the sender's secrets has signed: this one.
func Start(addr, secret string) (*Receiver, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return nil, errors.New("start webhook receiver: the secret is not whsec_ and base64")
	}
	server, err := loopback.Listen(addr)
	if err != nil {
		return nil, fmt.Errorf("start webhook receiver: %w", err)
	}
	r := &Receiver{server: server, key: key, seen: map[string]bool{}, newest: map[string]Message{}}
	server.Serve(r)
	return r, nil
}

// Close stops the receiver when running requests are answered.
func (r *Receiver) Close() error { return r.server.Close() }

// URL returns the URL that messages are posted to.
func (r *Receiver) URL() string { return r.server.Origin() + "/hooks" }

// Respond sets a function that may answer a verified request instead of the receiver,
// which then does not accept the message. If it returns nil, the receiver answers.
func (r *Receiver) Respond(answer func(Request) *Answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer = answer
}

// Requests returns the verified requests in the order of arrival.
func (r *Receiver) Requests() []Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Request(nil), r.requests...)
}

// Messages returns the accepted messages in the order of arrival, without repeated ones.
func (r *Receiver) Messages() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Message(nil), r.messages...)
}

// Newest returns the newest message about each document, by the partition key as JSON, a
// space, and the id.
func (r *Receiver) Newest() map[string]Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.newest)
}

// Repeated counts the messages whose id was seen before.
func (r *Receiver) Repeated() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.repeated
}

// maxBody is larger than every document.
const maxBody = 8 << 20

func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "a webhook is a POST", http.StatusMethodNotAllowed)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err := verify(r.key, request.Header, body, time.Now()); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	message := Message{Body: body}
	if err := json.Unmarshal(body, &message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	message.ID, message.Body = request.Header.Get("webhook-id"), body
	if answer := r.receive(Request{request.Header, body}, message); answer != nil {
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.Status)
		_, _ = io.WriteString(w, answer.Text)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// receive accepts a message unless there is another answer.
func (r *Receiver) receive(request Request, m Message) *Answer {
	r.mu.Lock()
	r.requests = append(r.requests, request)
	respond := r.answer
	r.mu.Unlock()
	if respond != nil {
		if answer := respond(request); answer != nil {
			return answer
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[m.ID] {
		r.repeated++
		return nil
	}
	r.seen[m.ID] = true
	r.messages = append(r.messages, m)
	document := string(m.Data.PartitionKey) + " " + m.Data.ID
	if last, ok := r.newest[document]; !ok || !m.Data.isOlder(last.Data) {
		r.newest[document] = m
	}
	return nil
}

// isOlder reports whether a change is older than another of the same document.
func (c Change) isOlder(other Change) bool {
	return c.Epoch < other.Epoch || c.Epoch == other.Epoch && c.LSN < other.LSN
}

// tolerance is how far the time of a message may be from now.
const tolerance = 5 * time.Minute

// verify checks the headers of the specification's section "Webhook headers".
func verify(key []byte, h http.Header, body []byte, now time.Time) error {
	id, timestamp := h.Get("webhook-id"), h.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	switch {
	case id == "" || strings.Contains(id, "."):
		return fmt.Errorf("webhook-id is %q, empty or with a dot", id)
	case err != nil:
		return fmt.Errorf("webhook-timestamp is %q, not seconds since 1970", timestamp)
	case now.Sub(time.Unix(seconds, 0)).Abs() > tolerance:
		return fmt.Errorf("webhook-timestamp is %v from now", now.Sub(time.Unix(seconds, 0)))
	}
	mac := hmac.New(sha256.New, key)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body)
	for signature := range strings.FieldsSeq(h.Get("webhook-signature")) {
		scheme, text, _ := strings.Cut(signature, ",")
		given, err := base64.StdEncoding.DecodeString(text)
		if scheme == "v1" && err == nil && hmac.Equal(given, mac.Sum(nil)) {
			return nil
		}
	}
	return errors.New("webhook-signature has no signature of the secret")
}
