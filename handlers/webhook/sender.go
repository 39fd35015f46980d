package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"halley/handlers"
	"halley/handlers/outbound"
	"halley/trigger"
)

const (
	// longestPause bounds what a receiver can ask for with Retry-After.
	longestPause = time.Hour
	// gonePause is how long nothing is posted after a receiver has answered 410.
	gonePause = 5 * time.Minute
	// maxAnswer is how much of the body of a success is read, so that the connection
	// can be used again.
	maxAnswer = 4 << 10
)

// errGone is the error of changes while the receiver wants no messages.
var errGone = errors.New("webhook receiver answered 410 Gone and wants no more messages: correct the URL or the receiver, then replay the dead letters")

// sender posts changes. It is safe for concurrent use.
type sender struct {
	client    *http.Client
	url       string
	server    string // in words, for errors
	keys      [][]byte
	event     string
	container string // monitored, with its database
	parallel  int
	pauses    outbound.Pauses // of the one receiver, whose name in it is ""
	log       *zap.Logger
	meter     *handlers.Meter

	mu        sync.Mutex // guards goneUntil
	goneUntil time.Time
}

// keyResult is what became of the changes of one partition key in a call.
type keyResult struct {
	unsent []trigger.Change // the change that failed, and the later ones of its key
	err    error            // why; nil if the call ended before the first of them was tried
}

// handle posts the changes of a batch: keys in parallel, the changes of a key in order.
func (w *sender) handle(ctx context.Context, b trigger.Batch) error {
	if w.isGone() {
		return trigger.Skip(trigger.Failed(errGone, b.Changes...)) // by name: all, without halving the batch
	}
	if err := w.pauses.Wait(ctx, ""); err != nil {
		return err
	}
	var keys errgroup.Group
	keys.SetLimit(w.parallel)
	byKey := groupByKey(b.Changes)
	results := make([]keyResult, len(byKey))
	var unreachable atomic.Bool // the receiver takes nothing at the moment
	for i, changes := range byKey {
		keys.Go(func() error {
			results[i] = w.postKey(ctx, b, changes, &unreachable)
			return nil
		})
	}
	_ = keys.Wait()
	return verdict(results, len(b.Changes))
}

// groupByKey returns the changes of each partition key, in order.
func groupByKey(changes []trigger.Change) (groups [][]trigger.Change) {
	index := make(map[string]int, len(changes))
	for _, c := range changes {
		key := string(c.PartitionKey())
		i, ok := index[key]
		if !ok {
			i = len(groups)
			index[key] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], c)
	}
	return groups
}

// postKey posts changes until one fails or the receiver is down.
func (w *sender) postKey(ctx context.Context, b trigger.Batch, changes []trigger.Change, unreachable *atomic.Bool) keyResult {
	for i, c := range changes {
		if unreachable.Load() {
			return keyResult{unsent: changes[i:]}
		}
		err := w.post(ctx, b, c)
		if err == nil {
			continue
		}
		if isDown(err) {
			unreachable.Store(true)
		}
		return keyResult{changes[i:], err}
	}
	return keyResult{}
}

// post sends one message. It returns errGone, a [*outbound.StatusError], or the
// network's error if there is no answer.
func (w *sender) post(ctx context.Context, b trigger.Batch, c trigger.Change) error {
	request, err := w.request(ctx, b, c)
	if err != nil {
		return err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", w.server, outbound.WithoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, response.Body, maxAnswer) // its content does not matter
		w.meter.Wrote(1)
		return nil
	}
	refusal := outbound.ReadRefusal(w.server, response)
	switch refusal.Status {
	case http.StatusGone:
		w.markGone()
		return errGone
	case http.StatusUnauthorized, http.StatusForbidden:
		refusal.Advice = "check that the receiver has one of the secrets"
	}
	w.pauses.Add("", refusal)
	return refusal
}

func (w *sender) request(ctx context.Context, b trigger.Batch, c trigger.Change) (*http.Request, error) {
	body, err := payload(w.event, b.Epoch, c)
	if err != nil {
		return nil, fmt.Errorf("encode message about document %q: %w", c.ID(), err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return nil, outbound.WithoutURL(err)
	}
	id, timestamp := messageID(b.Function, w.container, c), strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "halley")
	request.Header.Set("Webhook-Id", id)
	request.Header.Set("Webhook-Timestamp", timestamp)
	request.Header.Set("Webhook-Signature", sign(w.keys, id, timestamp, body))
	return request, nil
}

func (w *sender) isGone() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Before(w.goneUntil)
}

func (w *sender) markGone() {
	w.log.Warn("webhook receiver wants no more messages, changes are dead-lettered", zap.String("server", w.server), zap.Duration("for", gonePause))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.goneUntil = time.Now().Add(gonePause)
}

// isDown reports whether an error says that the receiver takes nothing at the moment,
// so that it is of no use to post the other keys.
func isDown(err error) bool {
	var refusal *outbound.StatusError
	if !errors.As(err, &refusal) {
		return true
	}
	switch refusal.Status {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return refusal.RetryAfter > 0
}

// isFinal reports whether the receiver refuses this message for ever.
func isFinal(err error) bool {
	var refusal *outbound.StatusError
	if !errors.As(err, &refusal) {
		return false
	}
	switch refusal.Status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// verdict sums up the results of the keys of a batch of so many changes.
//
// A message that is refused for ever is given up at once only if nothing follows it:
// if a later change of its key is in the batch, the runtime isolates the refused one
// first and then decides about the later ones, which wait if keys are blocked.
func verdict(results []keyResult, changes int) error {
	var unsent []trigger.Change
	var first error
	var refused []error
	final, gone := true, false
	for _, r := range results {
		unsent = append(unsent, r.unsent...)
		if r.err == nil {
			final = final && len(r.unsent) == 0
			continue
		}
		if first == nil || isFinal(first) {
			first = r.err
		}
		gone = gone || errors.Is(r.err, errGone)
		final = final && isFinal(r.err) && len(r.unsent) == 1
		refused = append(refused, trigger.Failed(r.err, r.unsent...))
	}
	switch {
	case first == nil:
		return nil
	case gone:
		return trigger.Skip(trigger.Failed(errGone, unsent...))
	case final:
		return trigger.Skip(errors.Join(refused...))
	case len(unsent) == changes:
		return first
	}
	return trigger.Failed(first, unsent...)
}
