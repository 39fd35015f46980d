// Package account resolves the names of connections in the environment, as Azure
// Functions does, and makes clients of their accounts.
package account

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger/cosmos"
)

// Emulator is the value or the name of a connection to an account on this machine, as
// the command emulator serves it.
const Emulator = "emulator"

// emulatorKey is the key of every emulator,
// https://learn.microsoft.com/azure/cosmos-db/emulator#authentication
const emulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// EmulatorEndpoint is the default address of halley emulator and of Microsoft's
// emulator.
const EmulatorEndpoint = "http://127.0.0.1:8081/"

// Account is an account with the credential of the caller.
type Account struct {
	Endpoint   string
	Kind       string // describes the source of endpoint and credential
	credential cosmos.Credential
}

// Resolve resolves the name of a connection as Azure Functions does. If the variable of
// that name is set it is a connection string. If not, the endpoint is in
// <name>__accountEndpoint, with an Entra ID identity (<name>__credential and
// <name>__clientId, or d.Unnamed) or <name>__accountKey. Variables match in any case.
// No error repeats a secret.
func Resolve(d settings.ConnectionDefaults, by settings.ConnectionName) (Account, error) {
	if by.Misplaced() {
		return Account{}, errors.New("a connection is a name, not the connection string: put the string into a variable such as CosmosDB and name that")
	}
	name := string(by)
	if value := Variable(name); value != "" {
		if err := RefuseSecondForm(name, "accountEndpoint", "accountKey", "credential", "clientId"); err != nil {
			return Account{}, err
		}
		return fromString(d, name, value)
	}
	if Variable(name+"__accountEndpoint") != "" {
		return fromParts(name, d.Unnamed)
	}
	if name == Emulator {
		return fromString(d, name, Emulator)
	}
	return Account{}, fmt.Errorf("connection %s is not set: set %s to a connection string or to %q, or %s__accountEndpoint to the account's URL",
		name, name, Emulator, name)
}

// RefuseSecondForm reports variables <name>__x of a connection that is also set as a
// connection string, which would win without a word.
func RefuseSecondForm(name string, parts ...string) error {
	for _, part := range parts {
		if Variable(name+"__"+part) != "" {
			return fmt.Errorf("connection %s is set twice: remove %s, the connection string, or %s__%s", name, name, name, part)
		}
	}
	return nil
}

func fromString(d settings.ConnectionDefaults, name, value string) (Account, error) {
	if strings.EqualFold(value, Emulator) {
		credential, err := cosmos.KeyCredential(emulatorKey)
		return Account{cmp.Or(d.Emulator, EmulatorEndpoint), "local emulator", credential}, err
	}
	endpoint, credential, err := cosmos.ParseConnectionString(value)
	if err != nil {
		return Account{}, fmt.Errorf("connection %s: %w", name, err)
	}
	return Account{endpoint, "connection string in " + name, credential}, nil
}

// fromParts reads <name>__accountEndpoint and its companions.
func fromParts(name string, unnamed Credential) (Account, error) {
	parts := map[string]string{}
	for _, part := range []string{"accountEndpoint", "accountKey", "credential", "clientId"} {
		parts[strings.ToLower(part)] = Variable(name + "__" + part)
	}
	if err := RefuseUnknownParts(name, parts, "__accountEndpoint with __credential and __clientId, or with __accountKey"); err != nil {
		return Account{}, err
	}
	c := Account{Endpoint: parts["accountendpoint"]}
	if key := parts["accountkey"]; key != "" {
		if parts["credential"]+parts["clientid"] != "" {
			return Account{}, fmt.Errorf("connection %s has both %s__accountKey and an identity: keep one of them", name, name)
		}
		credential, err := cosmos.KeyCredential(key)
		if err != nil {
			return Account{}, fmt.Errorf("%s__accountKey: %w", name, err)
		}
		c.Kind, c.credential = "account key in "+name+"__accountKey", credential
		return c, nil
	}
	kind, token, err := Identity(name, parts["credential"], parts["clientid"], unnamed)
	if err != nil {
		return Account{}, err
	}
	c.Kind, c.credential = kind, cosmos.TokenCredential(token)
	return c, nil
}

// RefuseUnknownParts reports variables <name>__x that would be ignored. If a client
// secret were ignored, the default chain would pick another identity.
func RefuseUnknownParts(name string, known map[string]string, has string) error {
	for _, variable := range os.Environ() {
		variable, _, _ = strings.Cut(variable, "=")
		part, ok := strings.CutPrefix(strings.ToLower(variable), strings.ToLower(name)+"__")
		if _, isKnown := known[part]; ok && !isKnown {
			return fmt.Errorf("%s is not known: a connection has %s", variable, has)
		}
	}
	return nil
}

// Variable returns a variable whose name matches in any case, as the names of
// connections do in Azure Functions.
func Variable(name string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	for _, variable := range os.Environ() {
		if n, value, _ := strings.Cut(variable, "="); strings.EqualFold(n, name) {
			return value
		}
	}
	return ""
}

// Client makes a client of the account, without I/O. If the endpoint is https on
// loopback, its certificate is not verified.
func (c Account) Client(opts cosmos.ClientOptions) (*cosmos.Client, error) {
	if endpoint, err := url.Parse(c.Endpoint); opts.Transport == nil && err == nil && endpoint.Scheme == "https" && handlers.IsLoopback(endpoint.Host) {
		opts.Transport = loopbackTransport()
	}
	return cosmos.NewClient(c.Endpoint, c.credential, &opts)
}

// loopbackTransport does not verify certificates, because emulators on this machine
// sign their own. It is used only if the endpoint is on loopback.
func loopbackTransport() *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &http.Transport{
			Protocols:             protocols,
			MaxIdleConnsPerHost:   100,
			IdleConnTimeout:       90 * time.Second,
			ResponseHeaderTimeout: time.Minute,
			TLSClientConfig:       &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, //nolint:gosec // loopback only
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
