// Package redisurl makes the client of a handler whose sink is Redis from the setting with
// its URL, and the probe of that client.
package redisurl

import (
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"halley/handlers"
	"halley/trigger/redact"
)

// init keeps go-redis from writing log lines to stderr, because the Functions
// host records each as an error. If a command fails, its error has the same
// information.
func init() { logging.Disable() }

// Client returns a client of the Redis at a URL of the form
// redis://[user[:password]@]host[:port][/db], or rediss:// for TLS, with the query
// parameters of go-redis. It does not connect. A call of the client ends when its context
// ends. The caller closes the client. An error does not repeat the password.
func Client(u handlers.URL) (*redis.Client, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS")
	}
	opts, err := redis.ParseURL(u.Reveal())
	if err != nil {
		return nil, fmt.Errorf("is not a Redis URL%s; write redis://[user:password@]host[:port][/db], or rediss:// for TLS, and percent-encode the password", reason(u, err))
	}
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// reason returns the text of err, or "" if it could contain a part of the
// password.
func reason(u handlers.URL, err error) string {
	shown := u.String()
	if shown == redact.Mark {
		return ""
	}
	return fmt.Sprintf(" (%s: %v)", shown, err)
}
