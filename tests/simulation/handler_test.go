package simulation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// document is the form of the written documents.
type document struct {
	ID  string `json:"id"`
	Key string `json:"key"`
	Seq int64  `json:"seq"`
}

var errOnPurpose = errors.New("failed on purpose")

// call is one call of the handler.
type call struct {
	p       *process
	id      string
	number  int64
	batch   trigger.Batch
	changes []history.Event
	bytes   []string // of the documents, as they were when the call began
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
		c.bytes = append(c.bytes, string(change.Document))
		c.changes = append(c.changes, history.Event{
			Kind: history.Delivery, Key: d.Key, Seq: d.Seq, ID: d.ID, LSN: change.LSN,
			Host: p.name, Range: b.Range.ID, Epoch: b.Epoch, Attempt: b.Attempt,
		})
	}
	if !c.begin() {
		return errCut
	}
	return c.wait(ctx)
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
		w.later(wait+time.Duration(len(c.id)), c.id, c.end)
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
	verdict, err := history.Handled, error(nil)
	var refusals []history.Ref
	switch c.class {
	case failing, panicking, poison, keeping, sinkDown:
		verdict, err = history.Failed, errOnPurpose
	case skipping:
		verdict, err = history.Failed, trigger.Skip(errOnPurpose)
	case partly:
		verdict = history.PartlyFailed
		refusals, err = c.refuseSome()
	case postponing:
		verdict, err = history.Failed, errOnPurpose
		if w.swarm.dice(c.id).chance("some", 0.6) {
			verdict = history.PartlyFailed
			refusals, err = c.refuseSome()
		}
		err = trigger.RetryAfter(err, c.delay())
	}
	if err == nil && w.swarm.dice(c.id).chance("checkpoint", 0.5) {
		c.batch.Checkpoint()
	}
	if c.class == keeping && !w.swarm.function.ReuseBuffers {
		w.kept = append(w.kept, c)
	}
	ended := c.ended(verdict)
	ended.Failed = refusals
	w.record(ended)
	c.ends <- err
}

// delay is the time by which the handler postpones changes.
func (c *call) delay() time.Duration {
	d := c.p.w.swarm.dice(c.id)
	most := one(d, "longest delay", time.Second, 20*time.Second, time.Minute, 10*time.Minute)
	return d.duration("delay", most/20, most)
}

// refuseSome fails some changes of the batch, at least one.
func (c *call) refuseSome() (refs []history.Ref, err error) {
	d := c.p.w.swarm.dice(c.id)
	last := len(c.changes) - 1
	var failed []trigger.Change
	for i, e := range c.changes {
		if i == last && failed == nil || d.chance("refuse "+strconv.Itoa(i), 0.3) {
			refs = append(refs, history.Ref{Key: e.Key, Seq: e.Seq})
			failed = append(failed, c.batch.Changes[i])
		}
	}
	return refs, trigger.Failed(errOnPurpose, failed...)
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
}

func (c *call) abandoned() bool {
	c.p.w.mu.Lock()
	defer c.p.w.mu.Unlock()
	return c.p.w.gone[c.number]
}
