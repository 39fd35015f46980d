package azure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"halley/trigger"
	"halley/trigger/deadletter"
	"halley/trigger/deadletter/internal/record"
	"halley/trigger/redact"
)

// BlobOptions are the options of [NewBlob]. The zero value of each field means
// its default.
type BlobOptions struct {
	// Prefix is prepended to the names of all blobs, for example
	// "dead-letters/". The default is none.
	Prefix string
	// Window is how many records a query sorts in memory at a time; if there
	// are more, it lists the blobs again for each further window. The default
	// is 10,000, about 2 MB.
	Window int
}

// Blob stores each dead letter as a block blob of JSON, named
// {prefix}{source}/{key}/{id}; digests replace the parts that a name cannot
// hold. The name depends on the change alone, so a change that is dead-lettered
// again is not stored twice. Kind, time, order and range are in the metadata of the
// blobs, which a listing includes.
//
// A blob container cannot query: each query lists the blobs of the source, or those of its
// key, and selects by their names and metadata. A page reads at most 1,000 of these, or 8 MB,
// or for 20 seconds, and a query that selects by error reads all that its other filters leave.
//
// Blob must be allowed to read, write, delete and list blobs: role Storage Blob
// Data Contributor. It creates the container if it does not exist. No lifecycle
// rule of the account may archive the blobs: an archived dead letter counts as
// damaged.
//
// If the client has a shared access signature, errors do not show it.
type Blob struct {
	container *container.Client
	prefix    string
	search    *record.Search
}

// NewBlob returns a store in a blob container. It does no I/O.
func NewBlob(c *container.Client, opts *BlobOptions) (*Blob, error) {
	if c == nil {
		return nil, errors.New("dead letter blobs: no container given")
	}
	s, window := &Blob{container: c}, record.DefaultWindow
	if opts != nil {
		s.prefix = opts.Prefix
		if opts.Window != 0 {
			window = opts.Window
		}
	}
	if window < 0 {
		return nil, errors.New("dead letter blobs: option Window is negative")
	}
	s.search = record.NewSearch(window)
	return s, nil
}

// Names of the metadata of a blob.
const (
	metaKind  = "halleykind"
	metaTime  = "halleytime"
	metaOrder = "halleyorder"
	metaRange = "halleyrange"
	metaLSN   = "halleylsn"
)

func (s *Blob) sourcePrefix(source trigger.DeadLetterSource) string {
	return s.prefix + record.SourceName(source) + "/"
}

func (s *Blob) keyPrefix(source trigger.DeadLetterSource, key string) string {
	return s.sourcePrefix(source) + record.Digest(key) + "/"
}

func (s *Blob) blobName(source trigger.DeadLetterSource, key, id string) string {
	return s.keyPrefix(source, key) + record.Digest(id) + ".json"
}

// Put uploads the dead letter unless its blob exists.
func (s *Blob) Put(ctx context.Context, d trigger.DeadLetter) error {
	err := record.Check(d)
	if err == nil {
		err = s.upload(ctx, d)
	}
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if err = s.create(ctx); err == nil {
			err = s.upload(ctx, d)
		}
	}
	if err != nil {
		return redact.Error(fmt.Errorf("store dead letter %q: %w", d.ID, err))
	}
	return nil
}

func (s *Blob) create(ctx context.Context) error {
	_, err := s.container.Create(ctx, nil)
	if err != nil && !bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		return fmt.Errorf("create the container: %w", err)
	}
	return nil
}

func (s *Blob) upload(ctx context.Context, d trigger.DeadLetter) error {
	body, err := record.Encode(d)
	if err != nil {
		return err
	}
	metadata := map[string]*string{
		metaKind:  to.Ptr(string(d.Kind)),
		metaOrder: to.Ptr(strconv.FormatInt(d.Order, 10)),
		metaTime:  to.Ptr(d.Time.UTC().Format(record.TimeLayout)),
		metaRange: to.Ptr("r" + url.QueryEscape(d.Range)), // a header must not be empty
		metaLSN:   to.Ptr(strconv.FormatInt(d.LSN, 10)),
	}
	_, err = s.container.NewBlockBlobClient(s.blobName(d.Source(), d.Key, d.ID)).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: to.Ptr("application/json")},
		Metadata:         metadata,
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
	})
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return nil
	}
	return err
}

// Delete deletes the blob of the dead letter with its snapshots.
func (s *Blob) Delete(ctx context.Context, d trigger.DeadLetter) error {
	_, err := s.container.NewBlobClient(s.blobName(d.Source(), d.Key, d.ID)).Delete(ctx, &blob.DeleteOptions{DeleteSnapshots: to.Ptr(blob.DeleteSnapshotsOptionTypeInclude)})
	if err != nil && !isGone(err) {
		return redact.Error(fmt.Errorf("delete dead letter %q: %w", d.ID, err))
	}
	return nil
}

func isGone(err error) bool {
	return bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound)
}

// Holds lists blobs of the key, until one is not postponed. A damaged dead letter counts,
// because the key is part of its name.
func (s *Blob) Holds(ctx context.Context, source trigger.DeadLetterSource, key string) (bool, error) {
	q := trigger.DeadLetterQuery{Source: source, Kind: trigger.RecordDead}
	for _, err := range s.positions(ctx, s.keyPrefix(source, key), q) {
		if err != nil {
			return false, redact.Error(fmt.Errorf("look for dead letters of key %s: %w", key, err))
		}
		return true, nil
	}
	return false, nil
}

// Query lists the blobs of the source or of its key, and downloads the selected ones of the
// page one by one.
func (s *Blob) Query(ctx context.Context, q trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	prefix := s.sourcePrefix(q.Source)
	if q.Key != "" {
		prefix = s.keyPrefix(q.Source, q.Key)
	}
	var page trigger.DeadLetterPage
	w, err := s.search.Window(q, func(*record.Position) iter.Seq2[record.Position, error] { return s.positions(ctx, prefix, q) })
	if err == nil {
		page, err = w.Page(func(p record.Position) (trigger.DeadLetter, bool, error) { return s.read(ctx, p.At) })
	}
	if err != nil {
		return page, redact.Error(fmt.Errorf("list dead letters of %v: %w", q.Source, err))
	}
	for i, damage := range page.Damaged {
		page.Damaged[i] = redact.Error(fmt.Errorf("list dead letters of %v: %w", q.Source, damage))
	}
	return page, nil
}

// positions lists the blobs below a prefix that a query may select, in pages of 5,000.
func (s *Blob) positions(ctx context.Context, prefix string, q trigger.DeadLetterQuery) iter.Seq2[record.Position, error] {
	return func(yield func(record.Position, error) bool) {
		pager := s.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
			Prefix: &prefix, Include: container.ListBlobsInclude{Metadata: true},
		})
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if bloberror.HasCode(err, bloberror.ContainerNotFound) {
				return
			}
			if err != nil {
				yield(record.Position{}, err)
				return
			}
			for _, item := range page.Segment.BlobItems {
				if p, isSelected := blobPosition(item, q); isSelected && !yield(p, nil) {
					return
				}
			}
		}
	}
}

// blobPosition returns the position in the metadata of a blob, and whether a query may select
// it. If metadata is missing or invalid, the position has the name alone; the blob is then
// read first and, if it is not a dead letter, reported as damaged.
func blobPosition(item *container.BlobItem, q trigger.DeadLetterQuery) (p record.Position, isSelected bool) {
	values := map[string]string{}
	for name, value := range item.Metadata {
		if value != nil {
			values[strings.ToLower(name)] = *value
		}
	}
	recordTime, timeErr := time.Parse(record.TimeLayout, values[metaTime])
	order, orderErr := strconv.ParseInt(values[metaOrder], 10, 64)
	lsn, lsnErr := strconv.ParseInt(values[metaLSN], 10, 64)
	token, tokenErr := url.QueryUnescape(strings.TrimPrefix(values[metaRange], "r"))
	kind := trigger.RecordKind(values[metaKind])
	isID := q.ID == "" || strings.HasSuffix(*item.Name, "/"+record.Digest(q.ID)+".json")
	if errors.Join(timeErr, orderErr, lsnErr, tokenErr) != nil || kind != trigger.RecordDead && kind != trigger.RecordPostponed {
		return record.Position{At: *item.Name}, isID
	}
	p = record.Position{Time: recordTime, Order: order, Token: token, LSN: lsn, At: *item.Name}
	return p, isID && kind == q.Kind && (q.Range == "" || q.Range == token) && !recordTime.Before(q.After) && (q.Before.IsZero() || recordTime.Before(q.Before))
}

// maxBlob is the size of the largest blob that is read: a record with two versions of a
// document, of 2 MB each, is far smaller.
const maxBlob = 64 << 20

// read reads the dead letter in a blob; found is false if the blob does not
// exist.
func (s *Blob) read(ctx context.Context, name string) (d trigger.DeadLetter, found bool, err error) {
	resp, err := s.container.NewBlobClient(name).DownloadStream(ctx, nil)
	if err != nil {
		switch {
		case isGone(err):
			err = nil
		case bloberror.HasCode(err, bloberror.BlobArchived, bloberror.BlobBeingRehydrated, bloberror.BlobUsesCustomerSpecifiedEncryption):
			err = &deadletter.DamageError{Where: "blob " + name, Err: err}
		}
		return trigger.DeadLetter{}, false, err
	}
	body := resp.NewRetryReader(ctx, nil)
	b, err := io.ReadAll(io.LimitReader(body, maxBlob+1))
	if err := errors.Join(err, body.Close()); err != nil {
		return trigger.DeadLetter{}, false, fmt.Errorf("read blob %s: %w", name, err)
	}
	if len(b) > maxBlob {
		return trigger.DeadLetter{}, false, &deadletter.DamageError{Where: "blob " + name, Err: fmt.Errorf("it has more than %d MB", maxBlob>>20)}
	}
	if d, err = record.Decode(b); err == nil && s.blobName(d.Source(), d.Key, d.ID) != name {
		err = errors.New("its name belongs to another dead letter")
	}
	if err != nil {
		return trigger.DeadLetter{}, false, &deadletter.DamageError{Where: "blob " + name, Err: err}
	}
	return d, true, nil
}
