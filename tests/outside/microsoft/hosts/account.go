package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"halley/trigger"
	"halley/trigger/cosmos"
)

const database = "hosts"

// account is the account with a database and a container for leases.
type account struct {
	endpoint, key string
	client        *cosmos.Client
	leases        *cosmos.Container
}

func newAccount(ctx context.Context, endpoint, key string) (*account, error) {
	credential, err := cosmos.KeyCredential(key)
	if err != nil {
		return nil, err
	}
	client, err := cosmos.NewClient(endpoint, credential, nil)
	if err != nil {
		return nil, err
	}
	a := &account{endpoint: endpoint, key: key, client: client}
	if err := client.CreateDatabase(ctx, database); err != nil {
		return nil, err
	}
	a.leases, err = a.container(ctx, cosmos.ContainerDefinition{ID: "leases", PartitionKey: keyed("/id")})
	return a, err
}

func keyed(path string) cosmos.PartitionKeyDefinition {
	return cosmos.PartitionKeyDefinition{Paths: []string{path}}
}

func (a *account) container(ctx context.Context, definition cosmos.ContainerDefinition) (*cosmos.Container, error) {
	err := a.client.CreateContainer(ctx, database, definition)
	return a.client.Container(database, definition.ID), err
}

// throughput gives a container four ranges, which Microsoft's account does for any.
const throughput = 40_000

// ledger creates a container with a ledger.
func (a *account) ledger(ctx context.Context, name string) (*ledger, error) {
	items, err := a.container(ctx, cosmos.ContainerDefinition{ID: name, PartitionKey: keyed("/key"), Throughput: throughput})
	return newLedger(items), err
}

// split splits the first range of a container.
func (a *account) split(ctx context.Context, items *cosmos.Container) error {
	ranges, err := items.Ranges(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"database": database, "container": items.Name(), "range": ranges[0].ID})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(a.endpoint, "/")+"/_emulator/split", bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("split range %s: %s: %s", ranges[0].ID, resp.Status, text)
	}
	return err
}

// host makes a host of a function, whose observer is called with each event.
func (a *account) host(owner string, f trigger.Function, observe func(trigger.Event)) (*trigger.Host, error) {
	f.FeedPollMin = 50 * time.Millisecond
	return trigger.New(a.leases, []trigger.Function{f}, &trigger.Options{
		Owner: owner, FeedPollDelay: 500 * time.Millisecond, LeaseAcquireInterval: time.Second,
		LeaseRenewInterval: 3 * time.Second, LeaseExpirationInterval: 10 * time.Second,
		Observers: []func(trigger.Event){observe},
	})
}

func ignore(trigger.Event) {}

// running is a host and the end of its Run.
type running struct {
	stop     context.CancelFunc
	ended    chan error
	acquired chan struct{} // receives once the host owns a range
}

// start runs a host until it is ended.
func (a *account) start(ctx context.Context, owner string, f trigger.Function) (running, error) {
	acquired := make(chan struct{}, 1)
	host, err := a.host(owner, f, func(e trigger.Event) {
		if e.Kind == trigger.EventAcquired {
			select {
			case acquired <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		return running{}, err
	}
	ctx, stop := context.WithCancel(ctx)
	r := running{stop, make(chan error, 1), acquired}
	go func() { r.ended <- host.Run(ctx) }()
	return r, nil
}

func (r running) end() error {
	r.stop()
	return <-r.ended
}

// awaitRange waits until the host owns a range.
func (r running) awaitRange(ctx context.Context) error {
	select {
	case <-r.acquired:
		return nil
	case <-ctx.Done():
		return errors.New("the host has acquired no range")
	}
}

// lag is what halley status says about a function.
type lag struct {
	Changes int64
	Known   bool
}

// status runs halley status for a function that reads a container from the beginning.
func (a *account) status(ctx context.Context, items *cosmos.Container) (lag, error) {
	c := exec.CommandContext(ctx, os.Getenv("HALLEY"), "status", "--json")
	c.Env = append(os.Environ(),
		"CosmosDB=AccountEndpoint="+a.endpoint+";AccountKey="+a.key+";",
		"HALLEY_FUNCTIONS=leaderboard", "HALLEY_DATABASE_NAME="+database,
		"HALLEY_CONTAINER_NAME="+items.Name(), "HALLEY_LEASE_CONTAINER_NAME="+a.leases.Name(),
		"HALLEY_LEASE_CONTAINER_PREFIX="+items.Name(), "HALLEY_START_FROM=beginning")
	var messages bytes.Buffer
	c.Stderr = &messages
	out, err := c.Output()
	if err != nil {
		return lag{}, fmt.Errorf("halley status: %w: %s%s", err, out, messages.Bytes())
	}
	var report struct{ Functions []lag }
	if err := json.Unmarshal(out, &report); err != nil {
		return lag{}, err
	}
	if len(report.Functions) != 1 {
		return lag{}, fmt.Errorf("halley status names %d functions", len(report.Functions))
	}
	return report.Functions[0], nil
}
