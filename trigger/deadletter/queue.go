package deadletter

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"halley/trigger"
)

// QueueOptions are the options of [NewQueue]; the zero value of each field
// means the default that it names.
type QueueOptions struct {
	// MaxMessage is the size of the largest message in bytes, in base64. By
	// default 65,536, the service's limit.
	MaxMessage int
}

// maxMessage is the limit of Azure Queue Storage:
// https://learn.microsoft.com/rest/api/storageservices/put-message
const maxMessage = 64 << 10

// Queue keeps letters in a [Blob] and puts a message for each in an Azure
// Storage queue, so that a queue-triggered function repairs them.
//
// The letters themselves are always in the blobs, because a queue cannot keep
// them: it has no order to rely on, finds nothing by function or key, hands a
// message out again when its time is over, and takes it away after some
// attempts. So List, Holds and Delete are those of the Blob, and Delete leaves
// the message: [Queue.Open] tells the receiver that its letter is gone.
//
// A message is the JSON of the letter (see the package's documentation), or,
// where that is too large, of its name alone: function, key and id. It is in
// base64, as the Functions host expects, and never expires. There may be
// several for one letter, for a Put whose answer was lost is repeated. A
// function that parks keys should rather be repaired by [trigger.Replay], which
// keeps their order.
type Queue struct {
	letters    *Blob
	queue      *azqueue.QueueClient
	maxMessage int
}

// NewQueue makes a store of a Blob and a queue. It does no I/O; the queue is
// created where it is not there. It needs the role Storage Queue Data
// Contributor, or Storage Queue Data Message Sender where the queue is there.
func NewQueue(letters *Blob, queue *azqueue.QueueClient, opts *QueueOptions) (*Queue, error) {
	if letters == nil || queue == nil {
		return nil, errors.New("dead letter queue: a Blob for the letters and a queue for the messages must be given")
	}
	q := &Queue{letters: letters, queue: queue, maxMessage: maxMessage}
	if opts != nil && opts.MaxMessage != 0 {
		q.maxMessage = opts.MaxMessage
	}
	if q.maxMessage < 0 || q.maxMessage > maxMessage {
		return nil, fmt.Errorf("dead letter queue: option MaxMessage is %d; the service takes at most %d", q.maxMessage, maxMessage)
	}
	return q, nil
}

// reference is a message without the letter.
type reference struct {
	ID       string `json:"id"`
	Function string `json:"function"`
	Key      string `json:"key"`
	Stored   bool   `json:"stored"` // true: the letter is in the Blob alone
}

// Put stores the letter, and then sends the message. Each must have succeeded.
func (q *Queue) Put(ctx context.Context, d trigger.DeadLetter) error {
	if err := q.letters.Put(ctx, d); err != nil {
		return err
	}
	text, err := q.message(d)
	if err == nil {
		err = q.send(ctx, text)
	}
	if err != nil {
		return fmt.Errorf("send message for dead letter %q: %w", d.ID, err)
	}
	return nil
}

func (q *Queue) message(d trigger.DeadLetter) (string, error) {
	whole, err := encode(d)
	if err != nil {
		return "", err
	}
	if base64.StdEncoding.EncodedLen(len(whole)) <= q.maxMessage {
		return base64.StdEncoding.EncodeToString(whole), nil
	}
	name, err := marshal(reference{ID: d.ID, Function: d.Function, Key: d.Key, Stored: true})
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

// Open returns the letter that a message is about: there is false when it was
// handled and deleted since, and the message needs nothing more. text is the
// message's, in base64 or, as the Functions host hands it on, without.
//
// A receiver opens the message, handles [trigger.DeadLetter.Change], and calls
// Delete with the letter.
func (q *Queue) Open(ctx context.Context, text []byte) (d trigger.DeadLetter, there bool, err error) {
	if b, err := base64.StdEncoding.DecodeString(string(text)); err == nil {
		text = b
	}
	var r reference
	if err := json.Unmarshal(text, &r); err != nil {
		return d, false, fmt.Errorf("open message of a dead letter: %w", err)
	}
	if r.ID == "" {
		return d, false, errors.New("open message of a dead letter: it names none")
	}
	d, there, err = q.letters.read(ctx, q.letters.blobName(r.Function, r.Key, r.ID))
	if err != nil {
		return d, false, fmt.Errorf("open message of dead letter %q: %w", r.ID, err)
	}
	return d, there, nil
}

// List is that of the Blob.
func (q *Queue) List(ctx context.Context, function string) iter.Seq2[trigger.DeadLetter, error] {
	return q.letters.List(ctx, function)
}

// Delete is that of the Blob; the message stays until it is received.
func (q *Queue) Delete(ctx context.Context, d trigger.DeadLetter) error {
	return q.letters.Delete(ctx, d)
}

// Holds is that of the Blob.
func (q *Queue) Holds(ctx context.Context, function, key string) (bool, error) {
	return q.letters.Holds(ctx, function, key)
}
