package simulation

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// process is one process of a host, and the transport of its client.
type process struct {
	w       *world
	owner   string // its name in leases
	name    string // owner and number of the process: unique in a run
	tool    bool   // an operator's command, and no host
	command class  // of an operator
	end     context.CancelFunc
	host    *trigger.Host
	cut     chan struct{} // closed when it is killed

	flushes  bool                      // its function has a Flush
	messages chan *message             // of the queue, in the mode fanout
	earlier  map[string]trigger.Change // the last change of the newest call, by range; only the scheduler uses it

	// Guarded by w.mu.
	sequences map[string]int // number of requests and handler calls by kind and resource
	killed    bool
	stopping  bool
	frozen    time.Time            // held until then
	unheard   map[string]time.Time // container: unreachable until then
	opened    map[string]int       // ranges, by token: 1 if the host works on it
	calling   map[rangeEpoch]int   // handler calls that have not returned
	shift     time.Duration        // of the Date header
	unread    map[string]leaseSpan // leases whose next feed read is recorded, by token
}

// start starts a new process of an owner.
func (w *world) start(owner string) *process {
	w.lives[owner]++
	p := &process{
		w: w, owner: owner, name: owner + "." + strconv.Itoa(w.lives[owner]),
		cut: make(chan struct{}), messages: make(chan *message, 10_000), sequences: map[string]int{}, unheard: map[string]time.Time{}, unread: map[string]leaseSpan{},
		earlier: map[string]trigger.Change{}, opened: map[string]int{}, calling: map[rangeEpoch]int{},
	}
	client := w.client(p)
	f := w.swarm.function
	f.Container, f.Handler = client.Container(database, "items"), p.handle
	if w.swarm.deadLetters {
		f.DeadLetters = w.deadLetters(p, client)
	}
	options := w.swarm.hostOptions(owner, w.logger)
	p.hooks(&f, options)
	functions := []trigger.Function{f}
	if w.swarm.companion {
		functions = append(functions, p.companionFunction(f))
	}
	host, err := trigger.New(client.Container(database, "leases"), functions, options)
	if err != nil {
		w.t.Fatal(err)
	}
	p.host = host
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	w.alive[p.name] = p
	w.record(history.Event{Kind: history.Host, Op: history.Started, Host: p.name, Owner: owner})
	w.stopSoon(p)
	w.processes.Go(func() {
		err := p.work(ctx, host)
		w.later(0, "exit/"+p.name, func() { w.exited(p, err) })
	})
	return p
}

// work runs a host until ctx ends. In timer mode, the host drains at each timer
// invocation instead, or sends messages and drains single ranges.
func (p *process) work(ctx context.Context, host *trigger.Host) error {
	s := p.w.swarm
	switch {
	case s.tick == 0:
		return host.Run(ctx)
	case s.fanout:
		p.fanOut(ctx, host)
		return nil
	}
	for ctx.Err() == nil {
		next := time.NewTimer(s.tick)
		drain, cancel := context.WithTimeout(ctx, s.drain)
		_, _ = host.Drain(drain) // the next tick tries again
		p.w.used("Drain", 1)
		cancel()
		select {
		case <-next.C:
		case <-ctx.Done():
		}
		next.Stop()
	}
	return nil
}

func (w *world) client(transport policy.Transporter) *cosmos.Client {
	cred, err := cosmos.KeyCredential(emulator.Key)
	if err != nil {
		w.t.Fatal(err)
	}
	client, err := cosmos.NewClient(w.account.Endpoint(), cred, &cosmos.ClientOptions{
		ClientOptions: azcore.ClientOptions{Transport: transport, Retry: w.swarm.retry},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// exited is called when a host's work has ended.
func (w *world) exited(p *process, err error) {
	if p.killed {
		return
	}
	w.mu.Lock()
	p.killed = true
	w.mu.Unlock()
	close(p.cut) // handler calls that still run end with the process
	delete(w.alive, p.name)
	w.record(history.Event{Kind: history.Host, Op: history.Stopped, Host: p.name, Owner: p.owner})
	w.log.add(time.Since(w.began), "exit", fmt.Sprint(p.name, ": ", err))
	switch {
	case !p.stopping:
		w.figures.Exits++
		w.restart(p)
	case w.ending && err != nil:
		w.violations = append(w.violations, history.Violation{Rule: graceful, Text: fmt.Sprintf("host %s stopped with %v", p.name, err)})
	}
}

// restart restarts an owner, as a platform does, or starts another one instead.
func (w *world) restart(p *process) {
	if w.swarm.lasting {
		return
	}
	d := w.swarm.dice("revive/" + p.name)
	owner := p.owner
	if d.chance("renamed", 0.3) {
		owner = fmt.Sprintf("%s%d", strings.TrimRight(owner, "0123456789"), w.lives[owner])
	}
	w.later(d.duration("after", time.Second, 5*time.Minute), "start/"+owner, func() {
		if !w.ending {
			w.start(owner)
		}
	})
}

// kill ends a host as kill -9 does: none of its goroutines affects the world again.
func (w *world) kill(p *process) {
	w.mu.Lock()
	already := p.killed
	p.killed = true
	w.mu.Unlock()
	if already {
		return
	}
	delete(w.alive, p.name)
	w.figures.Kills++
	close(p.cut)
	p.end()
	if p.tool {
		return
	}
	w.record(history.Event{Kind: history.Host, Op: history.Killed, Host: p.name, Owner: p.owner})
	w.restart(p)
}

// result is the outcome of a waiting request.
type result struct {
	resp *http.Response
	err  error
}

// Do is the host's transport.
func (p *process) Do(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		body, err = io.ReadAll(req.Body)
		req.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	p.w.mu.Lock()
	r := p.w.classify(req, body)
	if p.tool {
		r.kind = r.kind.ofOperator()
	}
	if r.kind == renew && r.doc.requester == p.owner && r.doc.owner != p.owner { // as another process of its name in this second
		r.kind = handoverRequest
	}
	p.w.mu.Unlock()
	f, how := p.admit(r)
	switch {
	case how == dead:
	case r.kind == readRanges && how == atOnce && f.class == "":
		p.settleDown(req.Context())
	case how == atOnce && (r.kind == readFeed || r.kind.ofCompanion(r.resource)):
		if err := p.travel(req.Context(), r); err != nil {
			return nil, err
		}
	}
	switch {
	case how == dead:
		return nil, errCut
	case how == unreachable, how == atOnce && f.class == lost:
		return nil, errReset
	case how == atOnce && f.status.code != 0:
		return shifted(f.refusal(req), r.shift), nil
	case how == atOnce:
		if body != nil {
			req = copied(req, body)
		}
		resp, err := p.w.serve(req, r)
		p.pageRead(r, resp, err)
		return shifted(resp, r.shift), err
	}
	late := copied(req, body) // it may outlive its sender, which uses req again for retries
	got := p.exchange(req.Context(), r, f, func() result {
		if f.status.code != 0 {
			return result{resp: f.refusal(late)}
		}
		if r.kind == deadLetterPut && letterOf(body).Record == trigger.RecordPostponed && req.Context().Err() != nil {
			return result{err: errReset} // as in store.Put
		}
		resp, err := p.w.serve(late.WithContext(context.Background()), r)
		got := result{resp: resp, err: err}
		p.w.observe(p, r, got)
		return got
	})
	return got.resp, got.err
}

// settleDown is called before ranges are read. It waits for the next point of a
// grid at which no other event occurs. So all goroutines that poll at one instant
// see the same ranges, whichever of them first learns that the ranges have
// changed; and when several read them again, one after the other, they get their
// answers at one instant. A request that fails does so at once, so that those after it
// fail at that instant, too.
func (p *process) settleDown(ctx context.Context) {
	const grid, offset = 1_000_003, 7
	wait := grid - (time.Since(p.w.began)-offset)%grid
	if wait == grid {
		return
	}
	p.hold(ctx, wait)
}

// travel is the time that a feed read takes. Pages that were read at one instant would reach
// the goroutines of a host in any order; so each comes when the host has done all that it
// could with the one before. Requests of the companion for its leases take as long, so that
// the two functions do not read different positions of a range at one instant.
func (p *process) travel(ctx context.Context, r *request) error {
	p.hold(ctx, p.travelTime(r))
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.killed {
		return errCut
	}
	return ctx.Err()
}

func (p *process) travelTime(r *request) time.Duration {
	return 20*time.Microsecond + time.Duration(p.w.swarm.dice(r.id).roll("travels")%20_011)
}

// hold waits, unless the host dies or the request ends.
func (p *process) hold(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.cut:
	case <-ctx.Done():
	}
}

// exchange sends a request through the queue and waits for its answer.
func (p *process) exchange(ctx context.Context, r *request, f fate, do func() result) result {
	reply := make(chan result, 1)
	p.w.later(f.before, r.id, func() { p.carryOut(r, f, do, reply) })
	select {
	case got := <-reply:
		return got
	case <-p.cut:
		return result{err: errCut}
	case <-ctx.Done():
		return result{err: ctx.Err()}
	}
}

// how is the way in which a request is answered.
type how int

const (
	queued how = iota
	atOnce
	unreachable
	dead
)

// admit assigns a request its identity and its fate.
func (p *process) admit(r *request) (fate, how) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.killed {
		return fate{}, dead
	}
	key := p.name + "/" + string(r.kind) + "/" + r.resource
	if r.kind.shared() {
		r.id = key + "@" + strconv.FormatInt(int64(time.Since(w.began)), 10)
	} else {
		p.sequences[key]++
		r.id = key + "#" + strconv.Itoa(p.sequences[key])
	}
	r.shift = p.shift
	w.figures.Requests++
	now := time.Now()
	if now.Before(p.unheard[r.container]) {
		return fate{}, unreachable
	}
	f := w.fateOf(p, r, now)
	if r.kind == companionWrite {
		f.before += p.travelTime(r)
	}
	switch {
	case r.kind.serial():
		return f, atOnce // their number depends on the order of goroutines, so they are not logged
	case r.kind.writes(), f.class != "", now.Before(p.frozen):
		return f, queued
	}
	w.log.sum(r.id)
	p.firstRead(r)
	return f, atOnce
}

// fateOf decides the fate of a request and records it. The caller holds w.mu.
func (w *world) fateOf(p *process, r *request, now time.Time) fate {
	if r.container == "leases" && now.Before(w.slowDown) {
		return fate{class: throttled, status: refusals[0], retryAfter: w.swarm.dice(r.id).duration("retry after", time.Millisecond, 5*time.Second)}
	}
	if f, slow := w.outage(r, now); slow {
		return f
	}
	if w.calm {
		return fate{}
	}
	f := w.swarm.decide(r)
	if f.class == olderEtag {
		f.older = w.olderThan(r)
	}
	switch {
	case f.class == "", f.class == olderEtag && f.older == "":
		return fate{}
	case f.class == killedBefore, f.class == killedAfter:
		w.noted(r.id + ": " + f.String()) // a kill records itself
	case f.class == olderEtag:
		w.noted(r.id+": "+f.String(), history.Event{Kind: history.Fault, Op: history.OlderEtag, Host: p.name, Range: r.physical, Until: now})
	default:
		w.noted(r.id+": "+f.String(), history.Event{Kind: history.Fault, Op: history.Op(f.class), Host: p.name, Range: r.resource, Until: f.until(now)})
	}
	w.figures.Faults[string(f.class)]++
	w.swarm.happened(f.class, r.id)
	return f
}

// carryOut applies a request when it arrives at the service; the scheduler calls
// it.
func (p *process) carryOut(r *request, f fate, do func() result, reply chan<- result) {
	w := p.w
	late := f.class == lateRequest
	if wait := time.Until(p.frozen); wait > 0 && !late && w.swarm.dice(r.id).chance("frozen before", 0.5) {
		w.later(wait+w.afterThaw(r.id), r.id, func() { p.carryOut(r, f, do, reply) })
		return
	}
	if p.killed && !late {
		return // it was never sent
	}
	var got result
	switch f.class {
	case killedBefore:
		w.kill(p)
		return
	case silent:
		return
	case lost:
		got.err = errReset
	default:
		got = do()
	}
	switch f.class {
	case killedAfter:
		w.kill(p)
		return
	case answerSilent:
		return
	case answerLost:
		got = result{err: errReset}
	case truncated:
		got.resp = cut(got.resp)
	case wrongDate:
		got.resp = shifted(got.resp, f.shift)
	case olderEtag:
		if got.resp != nil && got.resp.StatusCode < 400 {
			got.resp.Header.Set("Etag", f.older)
		}
	}
	p.reply(r, f.after, got, reply)
}

// reply answers a request after a delay. If the host is frozen, it waits until the
// host continues.
func (p *process) reply(r *request, after time.Duration, got result, to chan<- result) {
	w := p.w
	if wait := time.Until(p.frozen); wait > after {
		after = wait + w.afterThaw(r.id)
	}
	if after > 0 {
		w.later(after, r.id+" answered", func() { p.reply(r, 0, got, to) })
		return
	}
	got.resp = shifted(got.resp, p.shift)
	to <- got
}

// afterThaw is the time after which an event of a frozen host happens when the host
// continues: each has an instant of its own, so that the goroutines that wait for them do
// not race.
func (w *world) afterThaw(id string) time.Duration {
	return time.Duration(w.swarm.dice(id).pick("after thaw", int(time.Millisecond)))
}
