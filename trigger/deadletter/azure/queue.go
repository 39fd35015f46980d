package azure

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"halley/trigger"
	"halley/trigger/deadletter/internal/record"
	"halley/trigger/redact"
)

// QueueOptions are the options of [NewQueue]. The zero value of each field
// means its default.
type QueueOptions struct {
	// MaxMessage is the limit of a message in bytes, in base64. The default is
	// 65,536, the limit of the service.
	MaxMessage int
}

// maxMessage is the limit of Azure Queue Storage:
// https://learn.microsoft.com/rest/api/storageservices/put-message
const maxMessage = 64 << 10

// Queue stores dead letters in a [Blob] and sends a message for each to an
// Azure Storage queue, so that a queue-triggered function can repair them.
//
// The dead letters themselves are always in the Blob, because a queue cannot
// store them: it guarantees no order, cannot search by function or key, and
// delivers a message again after its visibility timeout or drops it after
// several attempts. Query, Holds and Delete are therefore those of the Blob.
// Delete leaves the message in the queue; [Queue.Open] then reports that the
// dead letter is gone.
//
// A message is the JSON of the dead letter (see package deadletter) or,
// if that is too large, of its source, key and id. It is in base64, as the
// Functions host expects, and never expires. There may be several messages for
// one dead letter, because a Put is repeated if its answer is lost. If a
// function blocks keys, repair it with [trigger.Replay] instead, which keeps the
// order of each key.
type Queue struct {
	blobs      *Blob
	queue      *azqueue.QueueClient
	maxMessage int
}

// NewQueue returns a store of a Blob and a queue. It does no I/O. The store
// needs the role Storage Queue Data Contributor, and creates the queue if it
// does not exist. If the queue exists, Storage Queue Data Message Sender is
// enough.
func NewQueue(blobs *Blob, queue *azqueue.QueueClient, opts *QueueOptions) (*Queue, error) {
	if blobs == nil || queue == nil {
		return nil, errors.New("dead letter queue: pass a Blob for the dead letters and a queue for the messages")
	}
	q := &Queue{blobs: blobs, queue: queue, maxMessage: maxMessage}
	if opts != nil && opts.MaxMessage != 0 {
		q.maxMessage = opts.MaxMessage
	}
	if q.maxMessage < 0 || q.maxMessage > maxMessage {
		return nil, fmt.Errorf("dead letter queue: option MaxMessage is %d; the limit of the service is %d", q.maxMessage, maxMessage)
	}
	return q, nil
}

// reference is a message without the dead letter.
type reference struct {
	ID        string `json:"id"`
	Function  string `json:"function"`
	Account   string `json:"account"`
	Database  string `json:"database"`
	Container string `json:"container"`
	Key       string `json:"key"`
	Stored    bool   `json:"stored"` // always true: the dead letter is only in the Blob
}

// Put stores the dead letter and then sends the message. It succeeds only if
// both do. There is no message for a postponed change, which its function handles.
func (q *Queue) Put(ctx context.Context, d trigger.DeadLetter) error {
	if err := q.blobs.Put(ctx, d); err != nil || d.IsPostponed() {
		return err
	}
	return q.notify(ctx, d)
}

// notify sends the message for a dead letter.
func (q *Queue) notify(ctx context.Context, d trigger.DeadLetter) error {
	text, err := q.message(d)
	if err == nil {
		err = q.send(ctx, text)
	}
	if err != nil {
		return redact.Error(fmt.Errorf("send message for dead letter %q: %w", d.ID, err))
	}
	return nil
}

func (q *Queue) message(d trigger.DeadLetter) (string, error) {
	packed, err := record.Encode(d)
	if err != nil {
		return "", err
	}
	if base64.StdEncoding.EncodedLen(len(packed)) <= q.maxMessage {
		return base64.StdEncoding.EncodeToString(packed), nil
	}
	name, err := record.Marshal(reference{d.ID, d.Function, d.Account, d.Database, d.Container, d.Key, true})
	if err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(name), nil
}

func (q *Queue) send(ctx context.Context, text string) error {
	forever := &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr(int32(-1))}
	_, err := q.queue.EnqueueMessage(ctx, text, forever)
	if !queueerror.HasCode(err, queueerror.QueueNotFound) {
		return err
	}
	if _, err := q.queue.Create(ctx, nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
		return fmt.Errorf("create the queue: %w", err)
	}
	_, err = q.queue.EnqueueMessage(ctx, text, forever)
	return err
}

// Open returns the dead letter of a message. If found is false, the dead letter
// has been handled and deleted, and the message needs no further work. text is
// the text of the message, in base64 or already decoded, as the Functions host
// passes it.
//
// A receiver opens the message, handles [trigger.DeadLetter.Change], and calls
// Delete with the dead letter.
func (q *Queue) Open(ctx context.Context, text []byte) (d trigger.DeadLetter, found bool, err error) {
	if b, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
		text = b
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		return d, false, fmt.Errorf("open message of a dead letter: %w", err)
	}
	if r.ID == "" {
		return d, false, errors.New("open message of a dead letter: it has no id")
	}
	source := trigger.DeadLetterSource{Function: r.Function, Account: r.Account, Database: r.Database, Container: r.Container}
	d, found, err = q.blobs.read(ctx, q.blobs.blobName(source, r.Key, r.ID))
	if err != nil {
		return d, false, redact.Error(fmt.Errorf("open message of dead letter %q: %w", r.ID, err))
	}
	return d, found, nil
}

// Query queries the Blob.
func (q *Queue) Query(ctx context.Context, query trigger.DeadLetterQuery) (trigger.DeadLetterPage, error) {
	return q.blobs.Query(ctx, query)
}

// Delete deletes the dead letter from the Blob. The message stays until it is
// received.
func (q *Queue) Delete(ctx context.Context, d trigger.DeadLetter) error {
	return q.blobs.Delete(ctx, d)
}

// Holds reports whether the Blob has a dead letter with the key.
func (q *Queue) Holds(ctx context.Context, source trigger.DeadLetterSource, key string) (bool, error) {
	return q.blobs.Holds(ctx, source, key)
}
