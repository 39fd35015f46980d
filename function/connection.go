package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// localEmulator, as the value or the name of a connection, selects an account on
// this machine, as halley emulator serves it.
const localEmulator = "emulator"

// emulatorEndpoint is the default address of halley emulator and of Microsoft's
// emulator.
const emulatorEndpoint = "http://127.0.0.1:8081/"

// connection is an account with the credential of the caller.
type connection struct {
	Endpoint   string
	Kind       string // describes the source of endpoint and credential
	credential cosmos.Credential
}

// resolveConnection resolves the name of a connection as Azure Functions does. If
// the variable of that name is set it is a connection string. If not, the endpoint
// is in <name>__accountEndpoint, with an Entra ID identity (<name>__credential,
// <name>__clientId) or <name>__accountKey. Variables match in any case. No error
// repeats a secret.
func resolveConnection(by connectionName) (connection, error) {
	if by.misplaced() {
		return connection{}, errors.New("a connection is a name, not the connection string: put the string into a variable such as CosmosDB and name that")
	}
	name := string(by)
	if value := lookupEnv(name); value != "" {
		if err := refuseSecondForm(name, "accountEndpoint", "accountKey", "credential", "clientId"); err != nil {
			return connection{}, err
		}
		return fromString(name, value)
	}
	if lookupEnv(name+"__accountEndpoint") != "" {
		return fromParts(name)
	}
	if name == localEmulator {
		return fromString(name, localEmulator)
	}
	return connection{}, fmt.Errorf("connection %s is not set: set %s to a connection string or to %q, or %s__accountEndpoint to the account's URL",
		name, name, localEmulator, name)
}

// refuseSecondForm reports variables <name>__x of a connection that is also set as a
// connection string, which would win without a word.
func refuseSecondForm(name string, parts ...string) error {
	for _, part := range parts {
		if lookupEnv(name+"__"+part) != "" {
			return fmt.Errorf("connection %s is set twice: remove %s, the connection string, or %s__%s", name, name, name, part)
		}
	}
	return nil
}

func fromString(name, value string) (connection, error) {
	if strings.EqualFold(value, localEmulator) {
		credential, err := cosmos.KeyCredential(emulator.Key)
		return connection{emulatorEndpoint, "local emulator", credential}, err
	}
	endpoint, credential, err := cosmos.ParseConnectionString(value)
	if err != nil {
		return connection{}, fmt.Errorf("connection %s: %w", name, err)
	}
	return connection{endpoint, "connection string in " + name, credential}, nil
}

// fromParts reads <name>__accountEndpoint and its companions.
func fromParts(name string) (connection, error) {
	parts := map[string]string{}
	for _, part := range []string{"accountEndpoint", "accountKey", "credential", "clientId"} {
		parts[strings.ToLower(part)] = lookupEnv(name + "__" + part)
	}
	if err := refuseUnknownParts(name, parts, "__accountEndpoint with __credential and __clientId, or with __accountKey"); err != nil {
		return connection{}, err
	}
	c := connection{Endpoint: parts["accountendpoint"]}
	if key := parts["accountkey"]; key != "" {
		if parts["credential"]+parts["clientid"] != "" {
			return connection{}, fmt.Errorf("connection %s has both %s__accountKey and an identity: keep one of them", name, name)
		}
		credential, err := cosmos.KeyCredential(key)
		if err != nil {
			return connection{}, fmt.Errorf("%s__accountKey: %w", name, err)
		}
		c.Kind, c.credential = "account key in "+name+"__accountKey", credential
		return c, nil
	}
	kind, token, err := identity(name, parts["credential"], parts["clientid"])
	if err != nil {
		return connection{}, err
	}
	c.Kind, c.credential = kind, cosmos.TokenCredential(token)
	return c, nil
}

// identity returns the requested managed identity. If none is requested it returns
// the default chain: environment, workload identity, managed identity, developer
// tools.
func identity(name, credential, clientID string) (kind string, token azcore.TokenCredential, err error) {
	switch {
	case strings.EqualFold(credential, "managedidentity"):
		kind = "system-assigned managed identity"
		opts := &azidentity.ManagedIdentityCredentialOptions{}
		if clientID != "" {
			kind, opts.ID = "managed identity "+clientID, azidentity.ClientID(clientID)
		}
		token, err = azidentity.NewManagedIdentityCredential(opts)
	case credential != "":
		return "", nil, fmt.Errorf(`%s__credential=%q is not known: write "managedidentity", or leave it out for the default chain`, name, credential)
	case clientID != "":
		return "", nil, fmt.Errorf("%s__clientId names a managed identity: set %s__credential=managedidentity as well", name, name)
	default:
		kind = "default Azure credential"
		token, err = azidentity.NewDefaultAzureCredential(nil)
	}
	if err != nil {
		return "", nil, fmt.Errorf("identity of connection %s: %w", name, err)
	}
	return kind, token, nil
}

// refuseUnknownParts reports variables <name>__x that would be ignored. If a client
// secret were ignored, the default chain would pick another identity.
func refuseUnknownParts(name string, known map[string]string, has string) error {
	for _, variable := range os.Environ() {
		variable, _, _ = strings.Cut(variable, "=")
		part, ok := strings.CutPrefix(strings.ToLower(variable), strings.ToLower(name)+"__")
		if _, isKnown := known[part]; ok && !isKnown {
			return fmt.Errorf("%s is not known: a connection has %s", variable, has)
		}
	}
	return nil
}

// lookupEnv returns a variable whose name matches in any case, as the names of
// connections do in Azure Functions.
func lookupEnv(name string) string {
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

// client makes a client of the account, without I/O. If the endpoint is https on
// loopback, its certificate is not verified.
func (c connection) client(opts cosmos.ClientOptions) (*cosmos.Client, error) {
	if endpoint, err := url.Parse(c.Endpoint); opts.Transport == nil && err == nil && endpoint.Scheme == "https" && loopbackHost(endpoint.Host) {
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
