package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"

	"halley/trigger/redact"
)

// Blobs is a store in a container of Azure Blob Storage. The identity needs the role
// Storage Blob Data Contributor. The container is created if it does not exist.
type Blobs struct {
	container *container.Client
	maxBlob   int64 // size of the largest blob that is read
}

// NewBlobs returns a store in a blob container. It does no I/O.
func NewBlobs(c *container.Client) *Blobs { return &Blobs{c, maxBlob} }

// maxBlob is 256 MB. A call of the handler writes less: its batch, compressed, which was in
// memory as a whole.
const maxBlob = 256 << 20

// Create puts the blob in one request (Put Blob), which publishes it as a whole, under
// the condition that none of its name exists.
func (b *Blobs) Create(ctx context.Context, name string, body []byte, contentType string) (existed bool, err error) {
	err = b.put(ctx, name, body, contentType)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		if _, err = b.container.Create(ctx, nil); err == nil || bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
			err = b.put(ctx, name, body, contentType)
		}
	}
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet) {
		return true, nil
	}
	if err != nil {
		return false, redact.Error(fmt.Errorf("create blob %s: %w", name, err))
	}
	return false, nil
}

func (b *Blobs) put(ctx context.Context, name string, body []byte, contentType string) error {
	_, err := b.container.NewBlockBlobClient(name).Upload(ctx, streaming.NopCloser(bytes.NewReader(body)), &blockblob.UploadOptions{
		HTTPHeaders:      &blob.HTTPHeaders{BlobContentType: to.Ptr(contentType)},
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)}},
	})
	return err
}

// attemptsKey has a pointer to the number of attempts to put a blob, in the context of its
// request.
type attemptsKey struct{}

// attemptCounter is a policy that counts them.
type attemptCounter struct{}

// Do implements [policy.Policy].
func (attemptCounter) Do(r *policy.Request) (*http.Response, error) {
	isPut := r.Raw().Method == http.MethodPut && !r.Raw().URL.Query().Has("restype") // not one that creates the container
	if attempts, ok := r.Raw().Context().Value(attemptsKey{}).(*int); ok && isPut {
		*attempts++
	}
	return r.Next()
}

// List lists a page of names at a time. A container that does not exist is empty.
func (b *Blobs) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		pages := b.container.NewListBlobsFlatPager(&container.ListBlobsFlatOptions{Prefix: to.Ptr(prefix)})
		for pages.More() {
			page, err := pages.NextPage(ctx)
			if bloberror.HasCode(err, bloberror.ContainerNotFound) {
				return
			}
			if err != nil {
				yield("", redact.Error(fmt.Errorf("list blobs %s: %w", prefix, err)))
				return
			}
			for _, item := range page.Segment.BlobItems {
				if !yield(*item.Name, nil) {
					return
				}
			}
		}
	}
}

// Read implements Store.
func (b *Blobs) Read(ctx context.Context, name string) ([]byte, error) {
	answer, err := b.container.NewBlobClient(name).DownloadStream(ctx, nil)
	if err != nil {
		return nil, redact.Error(fmt.Errorf("read blob %s: %w", name, err))
	}
	body := answer.NewRetryReader(ctx, nil)
	content, err := io.ReadAll(io.LimitReader(body, b.maxBlob+1))
	if err := errors.Join(err, body.Close()); err != nil {
		return nil, redact.Error(fmt.Errorf("read blob %s: %w", name, err))
	}
	if int64(len(content)) > b.maxBlob {
		return nil, fmt.Errorf("read blob %s: it has more than %d bytes, so that no call of the handler has written it", name, b.maxBlob)
	}
	return content, nil
}

// Delete implements Store.
func (b *Blobs) Delete(ctx context.Context, name string) error {
	_, err := b.container.NewBlobClient(name).Delete(ctx, nil)
	if err == nil || bloberror.HasCode(err, bloberror.BlobNotFound, bloberror.ContainerNotFound) {
		return nil
	}
	return redact.Error(fmt.Errorf("delete blob %s: %w", name, err))
}

// reach tries whether the container can be used. A missing one is created later.
func (b *Blobs) reach(ctx context.Context) error {
	_, err := b.container.GetProperties(ctx, nil)
	if bloberror.HasCode(err, bloberror.ContainerNotFound) {
		return nil
	}
	return redact.Error(err)
}
