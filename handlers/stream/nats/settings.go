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
	URL             []handlers.URL    `desc:"NATS servers, nats:// or tls://, with user:password@ or token@ if they need it; several are separated by commas; required"`
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

// checkServers returns an error without any part of a URL that may be a secret.
func checkServers(servers []handlers.URL) error {
	if len(servers) == 0 {
		return errors.New("URL is empty; set it to a URL such as nats://127.0.0.1:4222, or tls:// for TLS")
	}
	for _, server := range servers {
		parsed, err := url.Parse(server.Reveal())
		if err != nil || parsed.Host == "" || parsed.Scheme != "nats" && parsed.Scheme != "tls" || strings.Trim(parsed.Path, "/")+parsed.RawQuery+parsed.Fragment != "" {
			return fmt.Errorf("URL has %s, which is not the URL of a NATS server; write nats://[user:password@]host[:port], or tls:// for TLS, and percent-encode the password", server)
		}
	}
	return nil
}

// servers are the URLs without the white space around them.
func (s Settings) servers() (servers []handlers.URL) {
	for _, u := range s.URL {
		servers = append(servers, handlers.URL(strings.TrimSpace(u.Reveal())))
	}
	return servers
}

// check returns an error that names the first bad setting, without the prefix.
func (s Settings) check(database, container string) error {
	if err := checkServers(s.servers()); err != nil {
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
