// Package redisurl has the setting of a handler whose sink is Redis: a URL whose
// password is never printed, its client, and the probe of that client.
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const redacted = "[redacted]"

// URL is a setting of the form redis://[user[:password]@]host[:port][/db],
// or rediss:// for TLS, with the query parameters of go-redis. When it is
// printed, user and password are left out.
type URL string

// String is the URL without user, password and parameters.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Host == "" || strings.Contains(parsed.Path, "@") {
		return redacted // perhaps a password that is not percent-encoded
	}
	shown := parsed.Scheme + "://"
	if parsed.User != nil {
		shown += redacted + "@"
	}
	return shown + parsed.Host + parsed.Path
}

// Format implements [fmt.Formatter].
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// init keeps go-redis from writing log lines to stderr, because the Functions
// host records each as an error. If a command fails, its error has the same
// information.
func init() { logging.Disable() }

// Client returns a client without connecting. A call of the client ends when its
// context ends. The caller closes the client.
func (u URL) Client() (*redis.Client, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS")
	}
	opts, err := redis.ParseURL(string(u))
	if err != nil {
		return nil, fmt.Errorf("is not a Redis URL%s; write redis://[user:password@]host[:port][/db], or rediss:// for TLS, and percent-encode the password", u.reason(err))
	}
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// reason returns the text of err, or "" if it could contain a part of the
// password.
func (u URL) reason(err error) string {
	shown := u.String()
	if shown == redacted {
		return ""
	}
	return fmt.Sprintf(" (%s: %v)", shown, err)
}
