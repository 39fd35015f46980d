// Package mailer is a service that receives webhooks about orders and mails customers.
// It verifies signatures with the library of Standard Webhooks, and writes one e-mail for
// each message id: a message that is posted twice is mailed once.
package mailer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// order is a document of the container orders.
type order struct {
	ID       string  `json:"id"`
	Customer string  `json:"customer"` // an e-mail address
	Status   string  `json:"status"`
	Total    float64 `json:"total"`
}

// Mailer is an HTTP handler. It is safe for concurrent use.
type Mailer struct {
	outbox string
	verify *standardwebhooks.Webhook
}

// New returns a mailer that writes e-mails into a directory, from which a mail server
// picks them up. The secret is one of the sender's.
func New(outbox, secret string) (*Mailer, error) {
	verify, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		return nil, errors.New("the secret of the webhook is not whsec_ and base64")
	}
	if err := os.MkdirAll(outbox, 0o755); err != nil {
		return nil, err
	}
	return &Mailer{outbox, verify}, nil
}

const maxBody = 4 << 20

// ServeHTTP answers 401 if the signature is wrong, 422 if the order can never be mailed,
// which dead-letters it, and 500 if it should be posted again.
func (m *Mailer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := m.verify.Verify(body, r.Header); err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	var message struct {
		Data struct {
			Document order `json:"document"`
		} `json:"data"`
	}
	err = json.Unmarshal(body, &message)
	if err == nil {
		_, err = mail.ParseAddress(message.Data.Document.Customer)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
		return
	}
	if err := m.write(r.Header.Get("webhook-id"), message.Data.Document); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// write puts an e-mail into the outbox, under the id of the message, unless it is there.
// The file appears whole: it is written under another name and then linked.
func (m *Mailer) write(id string, o order) error {
	file, err := os.CreateTemp(m.outbox, ".writing-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	_, err = fmt.Fprintf(file, "To: %s\r\nFrom: shop@example.com\r\nSubject: Your order %s is %s\r\nDate: %s\r\nMessage-ID: <%s@example.com>\r\n\r\nYour order %s over %.2f is %s.\r\n",
		o.Customer, o.ID, o.Status, time.Now().Format(time.RFC1123Z), id, o.ID, o.Total, o.Status)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	err = os.Link(file.Name(), filepath.Join(m.outbox, id+".eml"))
	if errors.Is(err, os.ErrExist) {
		return nil // mailed already
	}
	return err
}

// Outbox lists the subjects of the e-mails, to look at them.
func (m *Mailer) Outbox() (subjects []string, err error) {
	files, err := filepath.Glob(filepath.Join(m.outbox, "*.eml"))
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		message, err := mail.ReadMessage(strings.NewReader(string(text)))
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, message.Header.Get("To")+": "+message.Header.Get("Subject"))
	}
	return subjects, nil
}
