// Package redisurl makes the client of a handler whose sink is Redis from the setting with
// its URL, and the probe of that client.
package redisurl

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

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
// parameters of go-redis, such as pool_size and read_timeout, and ca_file, cert_file and
// key_file for TLS, see [handlers.TLSFiles]. It does not connect. A call of the client ends when its context
// ends. The caller closes the client. An error does not repeat the password.
func Client(u handlers.URL) (*redis.Client, error) {
	if u == "" {
		return nil, errors.New("is empty; set it to a URL such as redis://127.0.0.1:6379/0, or rediss:// for TLS")
	}
	address, files := takeFiles(u)
	opts, err := redis.ParseURL(address.Reveal())
	if err != nil {
		return nil, fmt.Errorf("is not a Redis URL%s; write redis://[user:password@]host[:port][/db], or rediss:// for TLS, and percent-encode the password", reason(address, err))
	}
	config, err := files.Config(opts.TLSConfig != nil)
	if err != nil {
		return nil, fmt.Errorf("has parameters that cannot be used: %w", err)
	}
	if config != nil {
		config.ServerName = opts.TLSConfig.ServerName
		config.InsecureSkipVerify = opts.TLSConfig.InsecureSkipVerify // of the parameter skip_verify
		opts.TLSConfig = config
	}
	opts.ContextTimeoutEnabled = true
	opts.DisableIdentity = true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	return redis.NewClient(opts), nil
}

// takeFiles removes the parameters with the files of TLS, which go-redis does not know.
func takeFiles(u handlers.URL) (handlers.URL, handlers.TLSFiles) {
	base, query, _ := strings.Cut(u.Reveal(), "?")
	parameters, err := url.ParseQuery(query)
	files := handlers.TLSFiles{CA: parameters.Get("ca_file"), Cert: parameters.Get("cert_file"), Key: parameters.Get("key_file")}
	if err != nil || files == (handlers.TLSFiles{}) {
		return u, handlers.TLSFiles{} // go-redis explains a query that is none
	}
	for _, name := range []string{"ca_file", "cert_file", "key_file"} {
		parameters.Del(name)
	}
	return handlers.URL(strings.TrimSuffix(base+"?"+parameters.Encode(), "?")), files
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
