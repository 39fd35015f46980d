package account

import (
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"

	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger/cosmos"
)

// Containers are the monitored container and the lease container of a function.
type Containers struct{ Monitored, Leases *cosmos.Container }

// Open returns the containers of a function. It makes no request. An error names the
// setting of the connection.
func (a Clients) Open(f settings.Function) (at Containers, err error) {
	monitored, err := a.Client(f, f.Connection)
	if err != nil {
		return at, fmt.Errorf("%s: %w", f.Variable("CONNECTION"), err)
	}
	leases, err := a.Client(f, f.LeaseConnection)
	if err != nil {
		return at, fmt.Errorf("%s: %w", f.Variable("LEASE_CONNECTION"), err)
	}
	return Containers{
		Monitored: monitored.Container(f.DatabaseName, f.ContainerName),
		Leases:    leases.Container(f.LeaseDatabaseName, f.LeaseContainerName),
	}, nil
}

// Env is the environment of a function's handler.
func (a Clients) Env(f settings.Function, monitored *cosmos.Container, log *zap.Logger) handlers.Env {
	return handlers.Env{
		Logger: log, Container: monitored.Client().Container, Database: f.DatabaseName, ContainerName: f.ContainerName,
		Account: func(name string) (*cosmos.Client, error) { return a.Client(f, settings.ConnectionName(name)) },
	}
}

// Clients shares the clients of an app, by connection and regions. The zero
// value shares none.
type Clients struct {
	Transport policy.Transporter // nil is the network
	Retry     policy.RetryOptions
	clients   map[string]*cosmos.Client
	reached   map[*cosmos.Client]error // of accounts that a command has tried

	EachAttempt []policy.Policy // for each attempt of a request
}

// NewClients returns shared clients whose requests go through transport; nil is the
// network.
func NewClients(transport policy.Transporter) Clients {
	return Clients{Transport: transport, clients: map[string]*cosmos.Client{}}
}

// commandRetries are those of a command that an operator runs: a moment's throttling
// is waited out, and a lasting failure shows soon.
var commandRetries = policy.RetryOptions{MaxRetries: 3}

// CommandClients are the accounts of a command that an operator runs.
func CommandClients() Clients {
	return Clients{Retry: commandRetries, clients: map[string]*cosmos.Client{}, reached: map[*cosmos.Client]error{}}
}

// Client returns the client of one of the function's connections.
func (a Clients) Client(f settings.Function, name settings.ConnectionName) (*cosmos.Client, error) {
	regions := f.PreferredLocations
	key := string(name) + "\n" + regions.String()
	if client, ok := a.clients[key]; ok {
		return client, nil
	}
	c, err := Resolve(f.ConnectionDefaults, name)
	if err != nil {
		return nil, err
	}
	client, err := c.Client(cosmos.ClientOptions{PreferredRegions: regions, ClientOptions: azcore.ClientOptions{Transport: a.Transport, Retry: a.Retry, PerRetryPolicies: a.EachAttempt}})
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", name, err)
	}
	if a.clients != nil {
		a.clients[key] = client
	}
	return client, nil
}
