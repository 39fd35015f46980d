package archive

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"go.uber.org/zap"

	"halley/trigger"
	"halley/trigger/cosmos"
)

// ager ages documents out when the files with their changes are durable. Each write has the
// archived etag as its condition, so that a change in between wins: the document stays, and its
// new change is archived and aged in turn. It is safe for concurrent use.
type ager struct {
	AgeingOptions
	archive string // names the archive in marks
	pacer   pacer

	isClockKnown atomic.Bool
	skew         atomic.Int64 // seconds from this machine's clock to the service's, once it is known
}

// parallelWrites bounds the writes of one call that are under way.
const parallelWrites = 8

// ageingTally counts the documents of one call.
type ageingTally struct {
	mu                          sync.Mutex // guards the fields below
	aged, changedSince, refused int
	failed                      []trigger.Change
	err                         error // of the first that failed
}

// ready fails if documents cannot age. It is called before anything is archived: batches that
// fail are halved, and each part would be a blob.
func (a *ager) ready(ctx context.Context) error {
	if a.Kind != AgeingTTL {
		return nil
	}
	return requireTTL(ctx, a.Container)
}

// age ages out the last version of each document in a batch whose changes are archived. Changes
// that could not be tried, or whose write failed, fail by their names.
func (a *ager) age(ctx context.Context, changes []trigger.Change) error {
	due := a.due(changes)
	if len(due) == 0 {
		return nil
	}
	if a.DryRun {
		a.Logger.Info("documents would age out", zap.Int("documents", len(due)))
		return nil
	}
	a.warnIfLate(due)
	ctx, cancel := shortened(ctx)
	defer cancel()
	var tally ageingTally
	slots := make(chan struct{}, parallelWrites)
	var working sync.WaitGroup
	for _, d := range due {
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			err := a.write(ctx, d)
			a.Meter.Ended(began, err)
			if err == nil {
				a.Meter.Wrote(1)
			}
			tally.add(d.change, err, a.Logger)
		})
	}
	working.Wait()
	a.Logger.Info("documents aged out", zap.Int("documents", tally.aged), zap.Int("changed_since", tally.changedSince),
		zap.Int("refused", tally.refused), zap.Int("failed", len(tally.failed)))
	return trigger.Failed(tally.err, tally.failed...)
}

// add counts the outcome of a write. A document that the service refuses, for example because
// its ttl makes it larger than 2 MB, stays as it is.
func (t *ageingTally) add(c trigger.Change, err error, log *zap.Logger) {
	t.mu.Lock()
	defer t.mu.Unlock()
	status, _ := cosmos.Status(err)
	switch {
	case err == nil:
		t.aged++
	case cosmos.IsPreconditionFailed(err), cosmos.IsDocumentNotFound(err):
		t.changedSince++
	case status == http.StatusBadRequest, status == http.StatusRequestEntityTooLarge:
		t.refused++
		log.Warn("document cannot age out, it stays", zap.String("id", c.ID()), zap.Error(err))
	default:
		t.failed = append(t.failed, c)
		t.err = cmp.Or(t.err, fmt.Errorf("age out document %q: %w", c.ID(), err))
	}
}

// warnIfLate warns if a document that clients have written with the ttl of an earlier version
// was archived only when half of that time was over: the next one may expire before.
func (a *ager) warnIfLate(due []dueDocument) {
	now := time.Now().Add(time.Duration(a.skew.Load()) * time.Second)
	for _, d := range due {
		mark, isAgain := d.content.marks[a.archive]
		lag := now.Sub(d.change.Time)
		if isAgain && d.content.hasTTL(mark.TTL) && lag > time.Duration(mark.TTL)*time.Second/2 {
			a.Logger.Warn("the archive is late: documents that have aged before may expire before their last change is archived: let the function catch up, or raise AGE_AFTER",
				zap.String("id", d.change.ID()), zap.Duration("lag", lag), zap.Int64("ttl", mark.TTL))
			return
		}
	}
}

// shortened leaves a tenth of the time of a call for its return. The changes that are left then
// are delivered again.
func shortened(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-time.Until(end)/10))
}

// dueDocument is the last version of a document in a batch.
type dueDocument struct {
	change  trigger.Change
	content content
}

// due returns the documents that age: those that exist as far as the batch tells, that have no
// ttl of their own, and that have not aged yet.
func (a *ager) due(changes []trigger.Change) (due []dueDocument) {
	last := map[[2]string]int{}
	for i, c := range changes {
		last[[2]string{string(c.PartitionKey()), c.ID()}] = i
	}
	for i, c := range changes {
		if last[[2]string{string(c.PartitionKey()), c.ID()}] != i || c.Document == nil || c.Operation == cosmos.OperationDelete {
			continue
		}
		parsed, err := parseContent(c.Document)
		if err != nil || a.Kind == AgeingTTL && (parsed.hasOwnTTL() || parsed.isMarked(a.archive)) {
			continue
		}
		due = append(due, dueDocument{c, parsed})
	}
	return due
}

// isOwnWrite reports whether a change only sets the ttl of a version that is archived.
func (a *ager) isOwnWrite(c trigger.Change) bool {
	if c.Document == nil || !mayBeMarked(c.Document) {
		return false
	}
	parsed, err := parseContent(c.Document)
	if err != nil || !parsed.isMarked(a.archive) {
		return false
	}
	mark := parsed.marks[a.archive]
	if c.Previous != nil { // the service tells the version before
		previous, err := parseContent(c.Previous)
		return err == nil && previous.digest() == mark.Digest && previous.marks[a.archive] != mark
	}
	return max(c.Time.Unix()-mark.At, mark.At-c.Time.Unix()) <= markTolerance
}

// write ages out one document.
func (a *ager) write(ctx context.Context, d dueDocument) error {
	if err := a.pacer.wait(ctx); err != nil {
		return fmt.Errorf("bound of %d documents a second: %w", a.PerSecond, err)
	}
	key, err := keyOf(d.change.PartitionKey())
	if err != nil {
		return err
	}
	var etag azcore.ETag
	if err := json.Unmarshal(cosmos.Property(d.change.Document, "_etag"), &etag); err != nil || etag == "" {
		return errors.New("its change has no _etag")
	}
	if a.Kind == AgeingDelete {
		_, err := a.Container.Delete(ctx, d.change.ID(), key, etag)
		return err
	}
	return a.setTTL(ctx, d, key, etag)
}

// setTTL writes the document with its ttl and its mark.
func (a *ager) setTTL(ctx context.Context, d dueDocument, key cosmos.PartitionKey, etag azcore.ETag) error {
	if !a.isClockKnown.Load() {
		if response, err := a.Container.Read(ctx, d.change.ID(), key); err == nil {
			a.observe(response)
		}
	}
	body, err := d.content.aged(a.archive, int64(a.After/time.Second), time.Now().Unix()+a.skew.Load())
	if err != nil {
		return err
	}
	response, err := a.Container.Replace(ctx, d.change.ID(), key, body, etag)
	if err == nil {
		a.observe(response)
	}
	return err
}

// observe learns the service's clock, by which a mark is compared with its write.
func (a *ager) observe(response cosmos.Response) {
	a.skew.Store(response.Date.Unix() - time.Now().Unix())
	a.isClockKnown.Store(true)
}

// requireTTL fails if documents of a container do not expire.
func requireTTL(ctx context.Context, c *cosmos.Container) error {
	properties, err := c.Properties(ctx)
	if err != nil {
		return err
	}
	if properties.DefaultTTL == nil {
		c.Forget() // the operator may switch it on
		return fmt.Errorf("the time to live of container %s is off, so that its documents do not age out: set its defaultTtl to -1", c.Name())
	}
	return nil
}

// keyOf returns the partition key with the values of a JSON array; {} is a missing one.
func keyOf(raw json.RawMessage) (cosmos.PartitionKey, error) {
	var values []any
	if err := json.Unmarshal(raw, &values); err != nil {
		return cosmos.PartitionKey{}, fmt.Errorf("partition key %s: %w", raw, err)
	}
	for i, v := range values {
		if _, isMissing := v.(map[string]any); isMissing {
			values[i] = cosmos.Undefined
		}
	}
	return cosmos.NewPartitionKey(values...), nil
}

// pacer spaces the writes of one process evenly.
type pacer struct {
	interval time.Duration

	mu   sync.Mutex // guards next
	next time.Time  // when the next write may leave
}

// wait returns when a write may leave.
func (p *pacer) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	delay := p.next.Sub(now)
	if end, ok := ctx.Deadline(); ok && now.Add(delay).After(end) {
		p.mu.Unlock()
		return context.DeadlineExceeded
	}
	p.next = p.next.Add(p.interval)
	p.mu.Unlock()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
