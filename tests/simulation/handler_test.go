package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
)

// document is a written document. Its text is that of storedDocument.
type document struct {
	ID    string
	Key   string
	Seq   int64 // 0 in noise
	Noise bool  // the filter drops it; it is not in the history
	Gone  bool  // deleted softly
}

// asConfigured is the promise that a handler gets only changes that pass the filter, as the
// operations that the function's settings make of them.
const asConfigured history.Rule = "as configured"

var errOnPurpose = errors.New("failed on purpose")

// call is one call of the handler.
type call struct {
	p       *process
	id      string
	number  int64
	batch   trigger.Batch
	changes []history.Event
	bytes   []string // of the documents, as they were when the call began
	began   time.Time
	class   class
	calm    bool // it began when all faults had ended
	ends    chan error
}

// handle is the handler of a host: it records its batch, works for a while, and
// ends as the seed decides.
func (p *process) handle(ctx context.Context, b trigger.Batch) error {
	c := &call{p: p, batch: b, ends: make(chan error, 1)}
	for _, change := range b.Changes {
		var d document
		if err := json.Unmarshal(change.Document, &d); err != nil {
			p.w.t.Errorf("seed %d: document %q delivered: %v", p.w.swarm.seed, change.Document, err)
			return err
		}
		p.checkForm(d, change)
		c.bytes = append(c.bytes, string(change.Document))
		c.changes = append(c.changes, history.Event{
			Kind: history.Delivery, Key: d.Key, Seq: d.Seq, ID: d.ID, LSN: change.LSN,
			Host: p.name, Range: b.Range.ID, Epoch: b.Epoch, Attempt: b.Attempt,
		})
	}
	if !c.begin() {
		return errCut
	}
	at := rangeEpoch{b.Range.ID, b.Epoch}
	p.countCall(at, 1)
	defer p.countCall(at, -1)
	return c.wait(ctx)
}

// checkForm records a violation if a change does not pass the filter, or has another
// operation than its document says.
func (p *process) checkForm(d document, change trigger.Change) {
	if change.Operation == cosmos.OperationDelete {
		p.w.used("soft deletes", 1)
	}
	isDeleted := d.Gone && p.w.swarm.function.SoftDeleteProperty != ""
	if !d.Noise && isDeleted == (change.Operation == cosmos.OperationDelete) {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	p.w.violate(asConfigured, "%s gets %q as %s", p.name, change.Document, change.Operation)
}

// checkBytes records a violation if a document that the handler has is not as it was when
// the call began.
func (c *call) checkBytes() {
	for i, change := range c.batch.Changes {
		if string(change.Document) != c.bytes[i] {
			c.p.w.violations = append(c.p.w.violations, history.Violation{
				Rule: unchanged, Text: fmt.Sprintf("document %q has become %q (call %s)", c.bytes[i], change.Document, c.id),
			})
			return
		}
	}
}

// begin records the call and decides its end.
func (c *call) begin() bool {
	p, w := c.p, c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.killed {
		return false
	}
	first, last := c.changes[0], c.changes[len(c.changes)-1]
	key := fmt.Sprintf("%s/call/%s/%d/%s:%d-%s:%d/%d", p.name, c.batch.Range.ID, c.batch.Epoch, first.ID, first.Seq, last.ID, last.Seq, c.batch.Attempt)
	p.sequences[key]++
	c.id = key + "#" + strconv.Itoa(p.sequences[key])
	d := w.swarm.dice(c.id)
	c.number = int64(d.roll("number") >> 1)
	for i := range c.changes {
		c.changes[i].Call = c.number
	}
	c.calm = w.calm
	c.class = w.swarm.decideCall(d, c.changes, c.batch.Attempt, time.Now().Before(w.sinkOut), w.calm)
	if c.class != "" {
		w.figures.Faults[string(c.class)]++
		w.swarm.happened(c.class, c.id)
	}
	c.began = time.Now()
	w.noted(c.id+" begins "+string(c.class), c.changes...)
	return true
}

// wait is the work of the handler.
func (c *call) wait(ctx context.Context) error {
	w := c.p.w
	if c.class != hanging {
		w.later(c.duration(), c.id, c.end)
	}
	leave := ctx.Done()
	if c.class == outliving {
		leave = nil
	}
	select {
	case err := <-c.ends:
		if c.class == panicking {
			panic(err)
		}
		return err
	case <-c.p.cut:
		return errCut
	case <-leave:
		c.abandon()
		return context.Cause(ctx)
	}
}

// quickest is the longest call of a handler that is not slow.
const quickest = 50 * time.Millisecond

// duration returns the time that the handler works.
func (c *call) duration() time.Duration {
	d := c.p.w.swarm.dice(c.id)
	switch c.class {
	case slow:
		return d.duration("takes", time.Minute, 4*time.Minute)
	case outliving:
		return d.duration("takes", 30*time.Second, 10*time.Minute)
	}
	if fixed := c.p.w.swarm.callTime; fixed > 0 && !c.calm {
		return fixed + time.Duration(d.pick("ns", 997))
	}
	if !c.p.w.swarm.quick && d.chance("slower", 0.02) {
		return d.duration("takes", 100*time.Millisecond, 20*time.Second)
	}
	return d.duration("takes", 50*time.Microsecond, quickest)
}

// end is the end of the work; the scheduler calls it. A frozen host's handlers
// are frozen too.
func (c *call) end() {
	w := c.p.w
	if wait := time.Until(c.p.frozen); wait > 0 {
		w.later(wait+w.afterThaw(c.id), c.id, c.end)
		return
	}
	if c.p.killed || c.abandoned() {
		return
	}
	c.checkBytes()
	if c.class == deadly {
		w.kill(c.p)
		return
	}
	ended, err := c.verdict()
	c.flush(&ended, err)
	c.remember()
	if c.class == keeping && !w.swarm.function.ReuseBuffers {
		w.kept = append(w.kept, c)
	}
	if c.class != keeping && c.dice().chance("reorder", 0.2) {
		slices.Reverse(c.batch.Changes) // the slice is the handler's own
	}
	w.record(ended)
	c.ends <- err
}

// verdict returns the handler's answer, and what it means for the judge.
func (c *call) verdict() (history.Event, error) {
	ended, err := c.ended(history.Handled), error(nil)
	switch c.class {
	case failing, poison, keeping, sinkDown:
		ended.Verdict, err = history.Failed, errOnPurpose
	case panicking: // the panic's value does not tell about the changes
		ended.Verdict, err = history.Failed, c.answers().err
	case skipping:
		ended.Verdict, ended.Op, err = history.Failed, history.GaveUpAll, trigger.Skip(errOnPurpose)
	case partly, postponing, answering:
		v := c.answers()
		switch c.class {
		case partly:
			v = c.refuseSome()
		case postponing:
			if v = c.refuseAll(); c.dice().chance("some", 0.6) {
				v = c.refuseSome()
			}
			v.err = trigger.RetryAfter(v.err, c.delay())
		}
		err = v.err
		ended.Verdict, ended.Failed = history.PartlyFailed, c.refusals(v.failed)
		if v.final && !v.naming {
			ended.Verdict, ended.Failed, ended.Op = history.Failed, nil, history.GaveUpAll
		}
	}
	return ended, err
}

// flush is the handler's request for a checkpoint. A sink that buffers flushes everything
// that it has before the request. If the call fails, its own changes are not in the sink.
func (c *call) flush(ended *history.Event, err error) {
	w, d := c.p.w, c.dice()
	rate := 0.3
	if c.p.flushes { // most changes wait for it
		rate = 0.03
	}
	request := c.calm || w.calm || err == nil && d.chance("checkpoint", rate) || err != nil && d.chance("checkpoint", 0.1)
	if w.swarm.buffers && !request && ended.Verdict != history.Failed {
		ended.Op = history.Buffered
	}
	if !request {
		return
	}
	if w.swarm.buffers {
		w.used("flushes", 1)
		flushed := history.Event{Kind: history.Flush, Host: c.p.name, Range: c.batch.Range.ID}
		if err != nil { // then the request does not count, and the changes are delivered again
			flushed.Verdict = history.Failed
		}
		w.record(flushed)
	}
	c.batch.Checkpoint()
}

func (c *call) dice() dice { return c.p.w.swarm.dice(c.id) }

// refuseAll fails the batch.
func (c *call) refuseAll() verbs {
	return verbs{err: errOnPurpose, failed: slices.Repeat([]bool{true}, len(c.changes)), whole: true}
}

// refuseSome fails some changes of the batch, at least one.
func (c *call) refuseSome() verbs {
	d := c.dice()
	v := verbs{failed: make([]bool, len(c.changes)), naming: true}
	last := len(c.changes) - 1
	var named []trigger.Change
	for i := range c.changes {
		if i == last && named == nil || d.chance("refuse "+strconv.Itoa(i), 0.3) {
			v.failed[i] = true
			named = append(named, c.batch.Changes[i])
		}
	}
	v.err = trigger.Failed(errOnPurpose, named...)
	return v
}

func (c *call) ended(v history.Verdict) history.Event {
	return history.Event{Kind: history.End, Verdict: v, Call: c.number, Host: c.p.name, Range: c.batch.Range.ID, Epoch: c.batch.Epoch}
}

// abandon ends a handler call when its context has ended.
func (c *call) abandon() {
	w := c.p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.p.killed {
		return
	}
	w.gone[c.number] = true
	w.noted(c.id+" leaves", c.ended(history.Failed))
	w.notes[len(w.notes)-1].isEnd = time.Now().After(c.began)
}

func (c *call) abandoned() bool {
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	return c.p.w.gone[c.number]
}
