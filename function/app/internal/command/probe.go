package command

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"go.uber.org/zap"

	"halley/function/app/internal/account"
	"halley/function/app/internal/settings"
	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// probe tries the operations that one function needs.
type probe struct {
	f       settings.Function
	client  *cosmos.Client // of the monitored container
	keptIn  *cosmos.Container
	keyPath string // of the lease container
	ranges  int    // of the monitored container
	note    string // about the current step

	offered      []handlers.Probe // by the handler
	closeHandler func() error
}

// probing allows one retry, so that a failure shows soon.
var probing = policy.RetryOptions{MaxRetries: 1}

// open returns a client of an account, and adds the account to the note.
func (p *probe) open(name settings.ConnectionName) (*cosmos.Client, error) {
	c, err := account.Resolve(p.f.ConnectionDefaults, name)
	if err != nil {
		return nil, err
	}
	if p.note != "" {
		p.note += "; leases: "
	}
	p.note += c.Endpoint + ", " + c.Kind
	return c.Client(cosmos.ClientOptions{PreferredRegions: p.f.PreferredLocations, ClientOptions: azcore.ClientOptions{Retry: probing}})
}

func (p *probe) connect(context.Context) (err error) {
	if p.client, err = p.open(p.f.Connection); err != nil {
		return fmt.Errorf("%s=%s: %w", p.f.Variable("CONNECTION"), p.f.Connection, err)
	}
	leases := p.client
	if p.f.LeaseConnection != p.f.Connection {
		if leases, err = p.open(p.f.LeaseConnection); err != nil {
			return fmt.Errorf("%s=%s: %w", p.f.Variable("LEASE_CONNECTION"), p.f.LeaseConnection, err)
		}
	}
	p.keptIn = leases.Container(p.f.LeaseDatabaseName, p.f.LeaseContainerName)
	return nil
}

// handler opens the function's handler, which tries its own settings.
func (p *probe) handler(ctx context.Context) error {
	env := account.Clients{Retry: probing}.Env(p.f, p.container(), nil)
	env.Probe = func(t handlers.Probe) { p.offered = append(p.offered, t) }
	removes := false
	env.Follow = func(c handlers.RangeCallbacks) { removes = c.SnapshotRead != nil }
	_, closer, err := p.f.Open(ctx, env, p.f.Own)
	if err != nil {
		return fmt.Errorf("%w (HALLEY_FUNCTIONS selects the handlers that run)", err)
	}
	p.closeHandler = closer
	if env.FromSnapshot && !removes {
		p.note = settings.WithoutRemoval
	}
	return nil
}

func (p *probe) account(ctx context.Context) error {
	a, err := account.Reach(ctx, p.client, p.f.Connection, os.Stderr)
	if err != nil {
		return err
	}
	p.note = fmt.Sprintf("%s, %s consistency, %s", a.ID, a.Consistency, describeRegions(a))
	if unknown := a.UnknownRegions(p.f.PreferredLocations); len(unknown) > 0 {
		return fmt.Errorf("%s names %q, and the account has %s: correct it", p.f.Variable("PREFERRED_LOCATIONS"), unknown, describeRegions(a))
	}
	return nil
}

// describeRegions names the regions of an account and those that take writes.
func describeRegions(a cosmos.Account) string {
	var names []string
	for _, r := range a.ReadRegions {
		name := r.Name
		if slices.ContainsFunc(a.WriteRegions, func(w cosmos.Region) bool { return w.Name == r.Name }) {
			name += " (writes)"
		}
		names = append(names, name)
	}
	return "regions " + strings.Join(names, ", ")
}

func (p *probe) monitored(ctx context.Context) error {
	properties, err := p.container().Properties(ctx)
	if err != nil {
		return p.missing(err, "DATABASE_NAME", "CONTAINER_NAME")
	}
	if cosmos.Mode(p.f.ChangeFeedMode) == cosmos.ModeAllVersions && properties.Retention == 0 {
		return fmt.Errorf("it has no change feed policy, which %s=all-versions needs: create it with one, or read latest versions", p.f.Variable("CHANGE_FEED_MODE"))
	}
	p.note = "partition key " + strings.Join(properties.PartitionKey.Paths, ", ")
	return nil
}

func (p *probe) container() *cosmos.Container {
	return p.client.Container(p.f.DatabaseName, p.f.ContainerName)
}

// missing names the settings to correct if a container does not exist.
func (p *probe) missing(err error, database, container string) error {
	if cosmos.IsNotFound(err) {
		return fmt.Errorf("not found: create it, or correct %s or %s: %w", p.f.Variable(database), p.f.Variable(container), err)
	}
	return err
}

// feed reads one page that begins now. It changes nothing.
func (p *probe) feed(ctx context.Context) error {
	ranges, err := p.container().Ranges(ctx)
	if err != nil {
		return err
	}
	page, err := p.container().ReadFeed(ctx, cosmos.FeedRequest{Mode: cosmos.Mode(p.f.ChangeFeedMode), Range: ranges[0], Start: cosmos.StartNow, MaxItems: 1})
	if err != nil {
		return err
	}
	page.Release()
	p.ranges = len(ranges)
	p.note = fmt.Sprintf("%d ranges", p.ranges)
	return nil
}

func (p *probe) leases(ctx context.Context) error {
	properties, err := p.keptIn.Properties(ctx)
	if err != nil {
		return p.missing(err, "LEASE_DATABASE_NAME", "LEASE_CONTAINER_NAME")
	}
	p.keyPath = strings.Join(properties.PartitionKey.Paths, ", ")
	if p.keyPath != "/id" && p.keyPath != "/partitionKey" {
		return fmt.Errorf("its partition key is %s: create a lease container with partition key /id and name it in %s", p.keyPath, p.f.Variable("LEASE_CONTAINER_NAME"))
	}
	if properties.DefaultTTL != nil && *properties.DefaultTTL > 0 {
		return fmt.Errorf("its documents expire after %d s, and with them the position in the feed: set its defaultTtl to -1, or remove it", *properties.DefaultTTL)
	}
	p.note = "partition key " + p.keyPath
	a, err := p.keptIn.Client().Account(ctx)
	if err == nil && a.MultipleWriteRegions && len(a.WriteRegions) > 1 {
		p.note += fmt.Sprintf("; %d regions write: after a failover two hosts may work on one range for some minutes, see docs/regions.md; an account with one write region avoids that", len(a.WriteRegions))
	}
	return err
}

// lease tries the lease container with a probe document. Its id has no lease prefix, so
// that hosts ignore it.
func (p *probe) lease(ctx context.Context) error { return tryDocument(ctx, p.keptIn) }

// tryDocument creates, reads, queries, replaces and deletes a probe document, in any
// container of leases or dead letters.
func tryDocument(ctx context.Context, in *cosmos.Container) error {
	id := "halley-check-" + rand.Text()
	key := cosmos.NewPartitionKey(id)
	doc := map[string]any{"id": id, "partitionKey": id, "function": id, "ttl": 300}
	created, err := in.Create(ctx, key, doc)
	if err != nil {
		return fmt.Errorf("create: %w", err)
	}
	etag, err := tryStored(ctx, in, id, doc, created.ETag)
	if err != nil {
		_, undo := in.Delete(ctx, id, key, "")
		return errors.Join(err, left(id, undo))
	}
	if _, err := in.Delete(ctx, id, key, etag); err != nil {
		return fmt.Errorf("delete: %w", left(id, err))
	}
	return nil
}

// tryStored reads, queries and replaces a document, and returns its new etag.
func tryStored(ctx context.Context, in *cosmos.Container, id string, doc map[string]any, etag azcore.ETag) (azcore.ETag, error) {
	key := cosmos.NewPartitionKey(id)
	if _, err := in.Read(ctx, id, key); err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	q := cosmos.Query{Text: "SELECT * FROM c WHERE STARTSWITH(c.id, @id)", Parameters: []cosmos.Parameter{{Name: "@id", Value: id}}}
	for _, err := range in.Query(ctx, q) {
		if err != nil {
			return "", fmt.Errorf("query: %w", err)
		}
	}
	doc["version"] = 2
	replaced, err := in.Replace(ctx, id, key, doc, etag)
	if err != nil {
		return "", fmt.Errorf("replace: %w", err)
	}
	return replaced.ETag, nil
}

// expire returns an error if dead letters have a retention, and the service keeps them forever.
func (p *probe) expire(ctx context.Context, letters *cosmos.Container) error {
	if p.f.DeadLetterRetention == 0 {
		return nil
	}
	properties, err := letters.Properties(ctx)
	if err == nil && properties.DefaultTTL == nil {
		err = fmt.Errorf("container %s has no time to live, so that dead letters stay after %s: set its defaultTtl to -1", letters.Name(), p.f.Variable("DEAD_LETTER_RETENTION"))
	}
	return err
}

// deadLetters stores a probe dead letter and deletes it. A container of dead letters is
// tried as that of the leases is: some dead letters need more than the probe.
func (p *probe) deadLetters(ctx context.Context) error {
	if row := p.f.DeadLetters.Row(); !row.Keeps {
		p.note = row.Note
		return nil
	}
	if in, ok := p.f.DeadLetterContainer(); ok {
		client, err := account.Clients{Retry: probing}.Client(p.f, in.Connection)
		if err != nil {
			return err
		}
		letters := client.Container(in.Database, in.Container)
		if err := p.expire(ctx, letters); err != nil {
			return p.storeMissing(err)
		}
		if in != p.f.LeasePlace() {
			if err := tryDocument(ctx, letters); err != nil {
				return p.storeMissing(err)
			}
		}
	}
	store, err := account.Clients{}.OpenDeadLetters(p.f, zap.NewNop())
	if err != nil {
		return err
	}
	d := trigger.DeadLetter{
		Version: trigger.DeadLetterVersion, Kind: trigger.RecordDead, ID: "halley-check-" + rand.Text(), Function: "halley-check", Key: `["halley-check"]`, Document: []byte(`{"id":"halley-check"}`),
		Operation: cosmos.OperationUpsert, DocumentID: "halley-check", Error: "none: halley check probes the store", Time: time.Now().UTC(),
	}
	if err := store.Put(ctx, d); err != nil {
		return p.storeMissing(fmt.Errorf("store a probe dead letter: %w", err))
	}
	held, err := store.Holds(ctx, d.Source(), d.Key)
	if err == nil && !held {
		err = errors.New("the probe dead letter was stored and is not there")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("look for the probe dead letter: %w", err), left(d.ID, store.Delete(ctx, d)))
	}
	if err := store.Delete(ctx, d); err != nil {
		return fmt.Errorf("delete the probe dead letter: %w", left(d.ID, err))
	}
	return nil
}

// storeMissing names the setting to correct if a store does not exist.
func (p *probe) storeMissing(err error) error {
	if cosmos.IsNotFound(err) {
		return fmt.Errorf("not found: create the container, or correct %s: %w", p.f.Variable("DEAD_LETTERS"), err)
	}
	return err
}

// left names a probe that could not be deleted; it is nil if err is.
func left(id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("probe %s is left behind: %w", id, err)
}
