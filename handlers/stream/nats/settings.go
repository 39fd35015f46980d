package nats

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"halley/handlers"
	"halley/handlers/stream"
)

// Settings of the handler. Of a handler that the app lists as nats they are read with
// the prefix HALLEY_NATS_.
type Settings struct {
	URL             URL               `desc:"NATS servers, nats:// or tls://, with user:password@ or token@ if they need it; several are separated by commas; required"`
	Subject         string            `default:"halley.{database}.{container}" desc:"subject of the messages, which a JetStream stream takes; {database}, {container} and {key}, the partition key, are replaced"`
	UpsertOp        string            `split_words:"true" default:"r" desc:"op of documents that were created or replaced, in latest-version mode: r, c or u"`
	CredentialsFile string            `split_words:"true" desc:"file with a user's JWT and seed (.creds)"`
	NkeyFile        string            `split_words:"true" desc:"file with a user's NKey seed"`
	Token           handlers.Secret   `desc:"token of the servers"`
	CAFile          string            `split_words:"true" desc:"certificates that TLS trusts, PEM; by default those of the system"`
	CertFile        string            `split_words:"true" desc:"client certificate for TLS, PEM"`
	KeyFile         string            `split_words:"true" desc:"its private key, PEM"`
	PublishTimeout  handlers.Interval `split_words:"true" default:"10s" desc:"time to publish a batch and to get all acknowledgements"`
}

// URL is a setting with the URLs of NATS servers. When it is printed, users, passwords
// and tokens are left out.
type URL string

const redacted = "[redacted]"

// String is the list of URLs without users, passwords and parameters.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	var shown []string
	for server := range strings.SplitSeq(string(u), ",") {
		shown = append(shown, showServer(strings.TrimSpace(server)))
	}
	return strings.Join(shown, ",")
}

// showServer is redacted if the URL is not understood: a password that is not
// percent-encoded may then stand anywhere in it.
func showServer(server string) string {
	parsed, err := url.Parse(server)
	if err != nil || parsed.Host == "" || strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.Fragment != "" {
		return redacted
	}
	shown := parsed.Scheme + "://"
	if parsed.User != nil {
		shown += redacted + "@"
	}
	return shown + parsed.Host
}

// Format implements [fmt.Formatter].
func (u URL) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(u.String())) }

// MarshalText implements [encoding.TextMarshaler].
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// check returns an error without any part of a URL that may be a secret.
func (u URL) check() error {
	if u == "" {
		return errors.New("URL is empty; set it to a URL such as nats://127.0.0.1:4222, or tls:// for TLS")
	}
	for server := range strings.SplitSeq(string(u), ",") {
		shown := showServer(strings.TrimSpace(server))
		if !strings.HasPrefix(shown, "nats://") && !strings.HasPrefix(shown, "tls://") {
			return fmt.Errorf("URL has %s, which is not the URL of a NATS server; write nats://[user:password@]host[:port], or tls:// for TLS, and percent-encode the password", shown)
		}
	}
	return nil
}

// check returns an error that names the first bad setting, without the prefix.
func (s Settings) check(database, container string) error {
	if err := s.URL.check(); err != nil {
		return err
	}
	if _, err := subject(s.Subject, database, container, []byte(`["key"]`)); err != nil {
		return fmt.Errorf("SUBJECT %w; write a subject such as halley.{database}.{container}", err)
	}
	if err := stream.CheckUpsertOp(s.UpsertOp); err != nil {
		return err
	}
	if s.PublishTimeout < handlers.Interval(time.Millisecond) {
		return fmt.Errorf("PUBLISH_TIMEOUT is %v; set 1ms or more", s.PublishTimeout)
	}
	return s.checkLogin()
}

func (s Settings) checkLogin() error {
	var logins []string
	for _, login := range []struct{ name, value string }{
		{"CREDENTIALS_FILE", s.CredentialsFile}, {"NKEY_FILE", s.NkeyFile}, {"TOKEN", s.Token.Reveal()},
	} {
		if login.value != "" {
			logins = append(logins, login.name)
		}
	}
	if len(logins) > 1 {
		return fmt.Errorf("%s are set; set one of them", strings.Join(logins, " and "))
	}
	if (s.CertFile == "") != (s.KeyFile == "") {
		return errors.New("CERT_FILE and KEY_FILE belong together; set both or none")
	}
	for _, file := range []struct{ name, path string }{
		{"CREDENTIALS_FILE", s.CredentialsFile}, {"CA_FILE", s.CAFile}, {"CERT_FILE", s.CertFile}, {"KEY_FILE", s.KeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			return fmt.Errorf("%s cannot be read: %w", file.name, err)
		}
	}
	return nil
}

// login returns the options of credentials and TLS.
func (s Settings) login() ([]natsgo.Option, error) {
	var options []natsgo.Option
	switch {
	case s.CredentialsFile != "":
		options = append(options, natsgo.UserCredentials(s.CredentialsFile))
	case s.NkeyFile != "":
		option, err := natsgo.NkeyOptionFromSeed(s.NkeyFile)
		if err != nil {
			return nil, fmt.Errorf("NKEY_FILE has no NKey seed of a user: %w", err)
		}
		options = append(options, option)
	case s.Token != "":
		options = append(options, natsgo.Token(s.Token.Reveal()))
	}
	if s.CAFile != "" {
		options = append(options, natsgo.RootCAs(s.CAFile))
	}
	if s.CertFile != "" {
		options = append(options, natsgo.ClientCert(s.CertFile, s.KeyFile))
	}
	return options, nil
}
