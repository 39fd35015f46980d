package functionshost

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// queueSettings is extensions.queues of host.json (azure-sdk-for-net, QueuesOptions).
type queueSettings struct {
	BatchSize          int    `json:"batchSize"`         // messages of one fetch
	NewBatchThreshold  *int   `json:"newBatchThreshold"` // at most so many are in flight when the next batch is fetched
	MaxPollingInterval string `json:"maxPollingInterval"`
	VisibilityTimeout  string `json:"visibilityTimeout"` // of a message that failed
	MaxDequeueCount    int    `json:"maxDequeueCount"`   // failures until it is poison
}

// Queues is the storage account of the app, as its queue triggers and outputs use it.
type Queues struct {
	Service *azqueue.ServiceClient
	Hold    time.Duration // for which a message in flight is hidden, renewed at half of it; 0: 10 min
}

const (
	firstPoll   = 100 * time.Millisecond
	defaultHold = 10 * time.Minute
)

// Send writes the queue outputs of a successful invocation, as the host does before it
// counts as a success, and returns the number of messages.
func (h *Host) Send(ctx context.Context, q Queues, function string, r Result) (messages int, err error) {
	for name, value := range r.Outputs {
		bindings := h.app.functions[function].Bindings
		i := slices.IndexFunc(bindings, func(b binding) bool { return b.Name == name && b.Type == "queue" && b.Direction == "out" })
		if i < 0 {
			continue // the host ignores outputs without a binding
		}
		texts, err := QueueMessages(value)
		if err != nil {
			return messages, err
		}
		queue, err := q.open(ctx, bindings[i].QueueName)
		if err != nil {
			return messages, err
		}
		for _, text := range texts {
			if _, err := queue.EnqueueMessage(ctx, base64.StdEncoding.EncodeToString([]byte(text)), nil); err != nil {
				return messages, err
			}
			messages++
		}
	}
	return messages, nil
}

// open returns a queue, which it creates unless it exists.
func (q Queues) open(ctx context.Context, name string) (*azqueue.QueueClient, error) {
	queue := q.Service.NewQueueClient(name)
	_, err := queue.Create(ctx, nil) // a queue that exists is a success
	return queue, err
}

// Listen processes the messages of a function's queue until ctx ends, as the storage
// extension does (azure-sdk-for-net, QueueListener and QueueProcessor): it fetches a
// batch, invokes the function once for each message, and fetches the next batch when no
// more than newBatchThreshold are in flight. A message is deleted after a success, and
// released after a failure; after maxDequeueCount failures it moves to the poison queue.
// An empty queue is polled less and less often.
//
// When ctx ends, messages in flight are neither deleted nor released, as when the
// instance is gone. done is called with each result; it may be nil.
func (h *Host) Listen(ctx context.Context, q Queues, function string, done func(Result)) error {
	l, err := h.newListener(ctx, q, function)
	if err != nil {
		return err
	}
	var inFlight sync.WaitGroup
	defer inFlight.Wait()
	ended := make(chan struct{}, 1024) // of a message in flight
	running, wait := 0, firstPoll
	for ctx.Err() == nil {
		if running <= l.threshold {
			batch, err := l.fetch(ctx)
			if err != nil && ctx.Err() == nil {
				return err
			}
			running += len(batch)
			for _, m := range batch {
				inFlight.Go(func() {
					l.process(ctx, m, done)
					ended <- struct{}{}
				})
			}
			if len(batch) > 0 {
				wait = firstPoll
				continue
			}
		}
		timer := time.NewTimer(wait)
		select {
		case <-ended:
			running--
		case <-timer.C:
			wait = min(2*wait, l.longestPoll)
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// listener is the queue trigger of one function on one instance.
type listener struct {
	host          *Host
	function      string
	queue, poison *azqueue.QueueClient
	batch         int
	threshold     int
	maxDequeue    int64
	longestPoll   time.Duration
	retryAfter    time.Duration
	hold          time.Duration
}

func (h *Host) newListener(ctx context.Context, q Queues, function string) (*listener, error) {
	b, err := h.triggerOf(function, "queueTrigger")
	if err != nil {
		return nil, err
	}
	s := h.app.queues
	l := &listener{host: h, function: function, batch: s.BatchSize, maxDequeue: int64(s.MaxDequeueCount), hold: q.Hold, longestPoll: time.Minute}
	if l.batch == 0 {
		l.batch = 16
	}
	l.threshold = l.batch / 2 // and times the cores of the instance, which has one here
	if s.NewBatchThreshold != nil {
		l.threshold = *s.NewBatchThreshold
	}
	if l.maxDequeue == 0 {
		l.maxDequeue = 5
	}
	if l.hold == 0 {
		l.hold = defaultHold
	}
	for text, to := range map[string]*time.Duration{s.MaxPollingInterval: &l.longestPoll, s.VisibilityTimeout: &l.retryAfter} {
		if text != "" {
			if *to, err = parseTimeSpan(text); err != nil {
				return nil, fmt.Errorf("extensions.queues: %w", err)
			}
		}
	}
	if l.queue, err = q.open(ctx, b.QueueName); err != nil {
		return nil, err
	}
	l.poison, err = q.open(ctx, b.QueueName+"-poison")
	return l, err
}

func seconds(d time.Duration) *int32 { return to.Ptr(int32((d + time.Second - 1) / time.Second)) }

func (l *listener) fetch(ctx context.Context) ([]*azqueue.DequeuedMessage, error) {
	got, err := l.queue.DequeueMessages(ctx, &azqueue.DequeueMessagesOptions{NumberOfMessages: to.Ptr(int32(l.batch)), VisibilityTimeout: seconds(l.hold)})
	return got.Messages, err
}

// process invokes the function for one message, which stays hidden meanwhile.
func (l *listener) process(ctx context.Context, m *azqueue.DequeuedMessage, done func(Result)) {
	text, err := base64.StdEncoding.DecodeString(*m.MessageText)
	if err != nil {
		text = []byte(*m.MessageText)
	}
	i := l.host.FireQueue(l.function, string(text), int(*m.DequeueCount))
	receipt := *m.PopReceipt
	renew := time.NewTicker(l.hold / 2)
	defer renew.Stop()
	for running := true; running; {
		select {
		case <-i.Done():
			running = false
		case <-renew.C:
			if renewed, err := l.queue.UpdateMessage(ctx, *m.MessageID, receipt, *m.MessageText, &azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(l.hold)}); err == nil {
				receipt = *renewed.PopReceipt
			}
		case <-ctx.Done():
			<-i.Done()
			return
		}
	}
	r := i.Result()
	if ctx.Err() != nil {
		return
	}
	if r.Err = errors.Join(r.Err, l.settle(ctx, m, receipt, r.Err == nil)); done != nil {
		done(r)
	}
}

// settle deletes, releases or moves a message after its invocation.
func (l *listener) settle(ctx context.Context, m *azqueue.DequeuedMessage, receipt string, succeeded bool) error {
	if !succeeded && *m.DequeueCount < l.maxDequeue {
		_, err := l.queue.UpdateMessage(ctx, *m.MessageID, receipt, *m.MessageText, &azqueue.UpdateMessageOptions{VisibilityTimeout: seconds(l.retryAfter)})
		return gone(err)
	}
	if !succeeded {
		if _, err := l.poison.EnqueueMessage(ctx, *m.MessageText, nil); err != nil {
			return err
		}
	}
	_, err := l.queue.DeleteMessage(ctx, *m.MessageID, receipt, nil)
	return gone(err)
}

// gone returns nil if the message has become visible meanwhile and another instance has
// it.
func gone(err error) error {
	if err != nil && (strings.Contains(err.Error(), "MessageNotFound") || strings.Contains(err.Error(), "PopReceiptMismatch")) {
		return nil
	}
	return err
}
