package outbound

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// StatusError is a server's refusal of a request.
type StatusError struct {
	Server     string // in words, such as "push service push.example"; a secret path is not in it
	Status     int
	RetryAfter time.Duration // from the header Retry-After; 0 if there is none
	Text       string        // the beginning of the answer
	Advice     string        // how to mend it; "" if that is not known
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s answered %d %s", e.Server, e.Status, http.StatusText(e.Status))
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", retry after %v", e.RetryAfter)
	}
	if e.Advice != "" {
		text += ", " + e.Advice
	}
	if e.Text != "" {
		text += fmt.Sprintf(": %q", e.Text)
	}
	return text
}

// Throttled reports whether the server takes fewer requests than it gets.
func (e *StatusError) Throttled() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusServiceUnavailable
}

// maxText is the number of bytes of a refusal that are read.
const maxText = 256

// ReadRefusal returns the refusal in an answer. It reads the beginning of the body.
func ReadRefusal(server string, response *http.Response) *StatusError {
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxText)) // the part that has arrived is enough
	return &StatusError{
		Server:     server,
		Status:     response.StatusCode,
		RetryAfter: RetryAfter(response.Header),
		Text:       strings.ToValidUTF8(string(text), "�"),
	}
}

// RetryAfter reads the seconds or the date of the header Retry-After (RFC 9110 section
// 10.2.3). It is 0 if there is none.
func RetryAfter(h http.Header) time.Duration {
	value := h.Get("Retry-After")
	if seconds, err := strconv.Atoi(value); err == nil {
		return min(time.Duration(max(seconds, 0)), 1<<31) * time.Second
	}
	if retryTime, err := http.ParseTime(value); err == nil {
		return max(time.Until(retryTime), 0).Round(time.Second)
	}
	return 0
}

// WithoutURL removes the URL from an error of a client, for URLs whose path is a secret.
func WithoutURL(err error) error {
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err
	}
	return err
}
