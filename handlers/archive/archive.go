// Package archive keeps every change of a container in Azure Blob Storage, or in a
// directory: as Parquet or as JSON lines, in partitions of time as Spark, Hadoop and
// DuckDB read them (dt=2026-11-22/hour=12/).
//
// The one rule of idempotency is: a blob is created, never changed, and its name is that
// of its range, its positions and its changes; a reader counts a change once by its
// column change. If a batch is redelivered with the same changes, its blob exists, and
// the call succeeds. If the batch was cut differently, some changes are in two blobs, as
// equal rows of the same partition of time: the partition follows from the time of the
// change, not from the time of the call. [Read] leaves out the second one, and so does
//
//	SELECT DISTINCT ON (change) * FROM read_parquet('archive/*/*/*.parquet')
//
// It is not possible to cut batches at fixed positions instead: in latest-version mode a
// document that is written again leaves its old position, so that the same positions
// have other changes in a redelivery.
//
// # Deletes
//
// A delete is a row with the operation delete or expire. In all-versions mode it has no
// document; a soft-deleted document is kept with its mark. Latest-version mode shows
// neither deletes nor versions that were replaced before they were read.
//
// # Order and failures
//
// Rows have the LSN and the time of their version. Blobs of a range are written in the
// order of the feed, but changes that were redelivered may come in a later blob. A call
// writes one blob for each partition of time in its batch. If the store fails, the call
// fails and is repeated; the blobs that exist are not written again. No change is given
// up.
//
// # Size of blobs
//
// A call writes what its batch has, so batches are large by default, see
// [Settings.FunctionDefaults]: a change is in the archive 30 s after it was read, at the
// latest. A drain waits for no further changes. [Archive.Compact] and the command of
// [Command] make few blobs of those of a partition that is closed.
//
// # Ageing out
//
// By the setting AGE_OUT a document whose change is in a durable blob gets a ttl, or is
// deleted, if its etag is still the archived one. The change that only sets the ttl is not
// archived. A change that is dead-lettered or postponed was not archived, and so its document
// stays.
package archive

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"golang.org/x/sync/errgroup"

	"halley/handlers"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/redact"
)

// Settings of the handler, read with the prefix HALLEY_ARCHIVE_.
type Settings struct {
	BlobContainer    string            `split_words:"true" desc:"blob container of the archive; it is created if it does not exist"`
	ConnectionString handlers.Secret   `split_words:"true" desc:"connection string of its storage account"`
	AccountURL       string            `split_words:"true" desc:"instead: https://ACCOUNT.blob.core.windows.net, used with the Entra ID identity of the machine"`
	RequestTimeout   handlers.Interval `split_words:"true" default:"1m" desc:"time for one attempt of a request to the storage account"`
	Directory        string            `desc:"instead of a blob container: a directory, which is created"`
	Prefix           string            `default:"archive/" desc:"begins the name of every blob; each function has its own"`
	Format           Format            `default:"parquet" desc:"parquet, or jsonl: JSON lines with gzip"`
	Partition        Partition         `default:"hour" desc:"hour, or day for containers with few changes"`
	Columns          Columns           `desc:"further columns, for values inside of the documents: total:double=/order/total,country:string=/country"`
	AgeOut           Ageing            `split_words:"true" desc:"ttl gives each archived document a ttl, delete deletes it; if empty, documents stay"`
	AgeAfter         handlers.Interval `split_words:"true" desc:"the ttl, as 720h: how long a document stays after its last change; longer than the archive may ever be behind"`
	AgePerSecond     handlers.Count    `split_words:"true" default:"100" desc:"documents that one process ages out each second, at most"`
	AgeDryRun        handlers.Toggle   `split_words:"true" default:"false" desc:"true counts and logs the documents that would age out, and changes none"`
}

// FunctionDefaults make large blobs: of 10,000 changes or 32 MiB, and at the latest 30 s after
// their first change. Reading pauses at MAX_AHEAD, so that is larger than a batch.
func (Settings) FunctionDefaults() map[string]string {
	return map[string]string{
		"MAX_ITEMS_PER_INVOCATION": "10000", "BATCH_BYTES": "33554432", "BATCH_WINDOW": "30s", "MAX_AHEAD": "20000",
	}
}

// containerName matches the names that Azure Storage accepts, but for their length:
// https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata
var containerName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)

// validate returns an error that begins with the name of the setting.
func (s Settings) validate() error {
	if err := s.validateStore(); err != nil {
		return err
	}
	switch {
	case s.Format != Parquet && s.Format != JSONLines:
		return fmt.Errorf("FORMAT is %q; write %s or %s", s.Format, Parquet, JSONLines)
	case s.Partition != Hourly && s.Partition != Daily:
		return fmt.Errorf("PARTITION is %q; write %s or %s", s.Partition, Hourly, Daily)
	case s.Prefix != "" && !strings.HasSuffix(s.Prefix, "/") || strings.HasPrefix(s.Prefix, "/") || strings.Contains(s.Prefix, ".."):
		return fmt.Errorf("PREFIX is %q; write a path such as archive/orders/, with a slash at its end alone", s.Prefix)
	}
	return s.validateAgeing()
}

func (s Settings) validateStore() error {
	switch {
	case s.Directory == "" && s.BlobContainer == "":
		return errors.New("BLOB_CONTAINER is empty; name the blob container of the archive, or a directory in DIRECTORY")
	case s.Directory != "" && s.BlobContainer+s.AccountURL+s.ConnectionString.Reveal() != "":
		return errors.New("DIRECTORY is set next to BLOB_CONTAINER, CONNECTION_STRING or ACCOUNT_URL; keep one of them")
	case s.BlobContainer != "" && (!containerName.MatchString(s.BlobContainer) || len(s.BlobContainer) > 63):
		return fmt.Errorf("BLOB_CONTAINER is %q; write 3 to 63 lower-case letters, digits and single hyphens", s.BlobContainer)
	case s.BlobContainer != "" && (s.ConnectionString == "") == (s.AccountURL == ""):
		return errors.New("CONNECTION_STRING or ACCOUNT_URL must be set, and not both")
	case s.BlobContainer != "" && s.RequestTimeout < handlers.Interval(time.Second):
		return fmt.Errorf("REQUEST_TIMEOUT is %v; write 1s or more", s.RequestTimeout)
	case s.AccountURL != "" && (!strings.HasPrefix(s.AccountURL, "https://") || strings.ContainsAny(s.AccountURL, "?@#")):
		return errors.New("ACCOUNT_URL is not a URL such as https://ACCOUNT.blob.core.windows.net, without a signature")
	}
	return nil
}

// store opens the store of the settings, without I/O.
func (s Settings) store() (Store, error) {
	if s.Directory != "" {
		return Directory(s.Directory), nil
	}
	options := container.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: cosmos.LimitErrors(nil), Retry: policy.RetryOptions{TryTimeout: time.Duration(s.RequestTimeout)}, PerRetryPolicies: []policy.Policy{attemptCounter{}},
	}}
	if s.AccountURL != "" {
		identity, err := azidentity.NewDefaultAzureCredential(nil)
		if err != nil {
			return nil, fmt.Errorf("ACCOUNT_URL: %w", err)
		}
		c, err := container.NewClient(strings.TrimSuffix(s.AccountURL, "/")+"/"+s.BlobContainer, identity, &options)
		if err != nil {
			return nil, fmt.Errorf("ACCOUNT_URL: %w", redact.Error(err))
		}
		return NewBlobs(c), nil
	}
	c, err := container.NewClientFromConnectionString(s.ConnectionString.Reveal(), s.BlobContainer, &options)
	if err != nil {
		// The error may hold a part of the key.
		return nil, errors.New("CONNECTION_STRING is not a connection string of a storage account; copy it from the account's access keys")
	}
	return NewBlobs(c), nil
}

// open returns the archive of the settings. An error begins with the name of a setting.
func (s Settings) open() (*Archive, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	store, err := s.store()
	if err != nil {
		return nil, err
	}
	return New(store, &Options{Prefix: s.Prefix, Format: s.Format, Partition: s.Partition, Columns: s.Columns}), nil
}

// Open returns the handler. It does not connect.
func Open(_ context.Context, env handlers.Env, s Settings) (trigger.Handler, func() error, error) {
	a, err := s.open()
	if err != nil {
		return nil, nil, fmt.Errorf("setting %s%w", env.Prefix, err)
	}
	a.options.Meter = env.Meter(sinkOf(a.store))
	env.OfferProbe(probe(env.Prefix, s, a.store))
	if s.AgeOut != "" {
		a.AgeOut(s.ageing(env, a.store))
	}
	return a.Handle, nil, nil
}

// sinkOf names the kind of a store in metrics.
func sinkOf(store Store) string {
	if _, ok := store.(*Blobs); ok {
		return "blob"
	}
	return "directory"
}

// probe tries whether the store can be reached.
func probe(prefix string, s Settings, store Store) handlers.Probe {
	blobs, ok := store.(*Blobs)
	if !ok {
		return handlers.Probe{What: "directory of the archive", Try: func(context.Context) error {
			info, err := os.Stat(s.Directory)
			if errors.Is(err, os.ErrNotExist) || err == nil && info.IsDir() {
				return nil // it is created with the first blob
			}
			return fmt.Errorf("%s is not a directory: correct %sDIRECTORY", s.Directory, prefix)
		}}
	}
	return handlers.Probe{What: "blob container " + s.BlobContainer, Try: func(ctx context.Context) error {
		if err := blobs.reach(ctx); err != nil {
			return fmt.Errorf("%w: check the account, its firewall and the role Storage Blob Data Contributor, or correct %sBLOB_CONTAINER", err, prefix)
		}
		return nil
	}}
}

// Options are the options of [New]. The zero value of a field means its default.
type Options struct {
	Prefix    string    // begins all names: none
	Format    Format    // Parquet
	Partition Partition // Hourly
	Columns   Columns   // none
	Meter     *handlers.Meter
}

// Archive writes changes to a store. It is safe for concurrent use.
type Archive struct {
	store          Store
	options        Options
	compactedBytes int   // of the documents in a compacted blob
	ager           *ager // nil if documents stay
}

// New returns an archive in a store. opts may be nil.
func New(store Store, opts *Options) *Archive {
	a := &Archive{store: store, compactedBytes: defaultCompactedBytes}
	if opts != nil {
		a.options = *opts
	}
	if a.options.Format == "" {
		a.options.Format = Parquet
	}
	if a.options.Partition == "" {
		a.options.Partition = Hourly
	}
	return a
}

// parallel is the number of blobs of one call that are written at a time.
const parallel = 4

// Handle is the handler: it writes the changes of a batch, one blob for each partition of
// time. When these are durable, documents age out, if they do.
func (a *Archive) Handle(ctx context.Context, b trigger.Batch) error {
	if a.ager != nil {
		if err := a.ager.ready(ctx); err != nil {
			return err
		}
	}
	records := make([]Record, 0, len(b.Changes))
	for _, c := range b.Changes {
		if a.ager == nil || !a.ager.isOwnWrite(c) {
			records = append(records, newRecord(c))
		}
	}
	writing, writeCtx := errgroup.WithContext(ctx)
	writing.SetLimit(parallel)
	for _, p := range a.options.Partition.parts(b.Range.ID, records) {
		writing.Go(func() error { return a.write(writeCtx, p) })
	}
	if err := writing.Wait(); err != nil || a.ager == nil {
		return err
	}
	return a.ager.age(ctx, b.Changes)
}

// write creates the blob of a part. If it exists, it has the same changes.
func (a *Archive) write(ctx context.Context, p part) error {
	return a.create(ctx, a.options.Prefix+p.blobName(a.options.Format.extension()), p.records)
}

func (a *Archive) create(ctx context.Context, name string, records []Record) error {
	format := a.options.Format
	body, err := format.encode(records, a.options.Columns)
	if err != nil {
		return err
	}
	var attempts int
	began := time.Now()
	existed, err := a.store.Create(context.WithValue(ctx, attemptsKey{}, &attempts), name, body, format.contentType())
	a.options.Meter.Ended(began, err)
	for ; attempts > 1; attempts-- {
		a.options.Meter.Retried()
	}
	if err == nil && !existed {
		a.options.Meter.Wrote(len(records))
	}
	return err
}
