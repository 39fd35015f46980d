package account

import (
	"fmt"
	"net/http"
	"strconv"

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
	monitored, err := a.client(f, f.Connection, share{string(f.Priority), int(f.ThroughputBucket)})
	if err != nil {
		return at, fmt.Errorf("%s: %w", f.Variable("CONNECTION"), err)
	}
	leases, err := a.client(f, f.LeaseConnection, share{string(f.LeasePriority), int(f.LeaseThroughputBucket)})
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
		FromSnapshot: f.StartsFromSnapshot(),
		Account:      func(name string) (*cosmos.Client, error) { return a.Client(f, settings.ConnectionName(name)) },
	}
}

// share is the part of an account's throughput that requests take.
type share struct {
	priority string // "" is the account's default
	bucket   int    // 0 is none
}

// policies returns the policies of a client: none for a share that changes no request, as
// requests cost less without policies.
func (s share) policies() []policy.Policy {
	if s == (share{}) {
		return nil
	}
	return []policy.Policy{s}
}

// Do implements [policy.Policy]. The names of the headers are those of HttpConstants of
// azure-cosmos-dotnet-v3.
func (s share) Do(req *policy.Request) (*http.Response, error) {
	if s.priority != "" {
		req.Raw().Header.Set("x-ms-cosmos-priority-level", s.priority)
	}
	if s.bucket > 0 {
		req.Raw().Header.Set("x-ms-cosmos-throughput-bucket", strconv.Itoa(s.bucket))
	}
	return req.Next()
}

// Clients shares the clients of an app, by connection, regions and share. The zero
// value shares none.
type Clients struct {
	Transport policy.Transporter // nil is the network
	Retry     policy.RetryOptions
	clients   map[clientKey]*cosmos.Client
	reached   *reachedAccounts // nil if each call of Reach tries

	ObserveAttempt func(*http.Request, *http.Response, error) // see [cosmos.ClientOptions]; may be nil
}

// clientKey is equal for requests that may share a client.
type clientKey struct {
	connection settings.ConnectionName
	regions    string
	share      share
}

// NewClients returns shared clients whose requests go through transport; nil is the
// network.
func NewClients(transport policy.Transporter) Clients {
	return Clients{Transport: transport, clients: map[clientKey]*cosmos.Client{}}
}

// commandRetries are those of a command that an operator runs: a moment's throttling
// is waited out, and a lasting failure shows soon.
var commandRetries = policy.RetryOptions{MaxRetries: 3}

// CommandClients are the accounts of a command that an operator runs.
func CommandClients() Clients {
	return Clients{Retry: commandRetries, clients: map[clientKey]*cosmos.Client{}, reached: &reachedAccounts{tries: map[*cosmos.Client]func() error{}}}
}

// Client returns the client of one of the function's connections, for other requests than
// those of its feed and its leases.
func (a Clients) Client(f settings.Function, name settings.ConnectionName) (*cosmos.Client, error) {
	return a.client(f, name, share{})
}

func (a Clients) client(f settings.Function, name settings.ConnectionName, of share) (*cosmos.Client, error) {
	regions := f.PreferredLocations
	key := clientKey{name, regions.String(), of}
	if client, ok := a.clients[key]; ok {
		return client, nil
	}
	c, err := Resolve(f.ConnectionDefaults, name)
	if err != nil {
		return nil, err
	}
	client, err := c.Client(cosmos.ClientOptions{PreferredRegions: regions, ObserveAttempt: a.ObserveAttempt, ClientOptions: azcore.ClientOptions{
		Transport: a.Transport, Retry: a.Retry, PerCallPolicies: of.policies(),
	}})
	if err != nil {
		return nil, fmt.Errorf("connection %s: %w", name, err)
	}
	if a.clients != nil {
		a.clients[key] = client
	}
	return client, nil
}
