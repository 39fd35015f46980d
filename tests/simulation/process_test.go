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

// process is one life of a host, and the transport of its client.
type process struct {
	w     *world
	owner string // its name in leases
	name  string // owner and life: unique in a run
	end   context.CancelFunc
	cut   chan struct{} // closed when it is killed

	// Guarded by w.mu.
	ordinals map[string]int // requests and handler calls by what they are
	killed   bool
	stopping bool
	frozen   time.Time            // held until then
	unheard  map[string]time.Time // container: unreachable until then
	shift    time.Duration        // of the Date header
}

// start begins a new life of an owner.
func (w *world) start(owner string) *process {
	w.lives[owner]++
	p := &process{
		w: w, owner: owner, name: owner + "." + strconv.Itoa(w.lives[owner]),
		cut: make(chan struct{}), ordinals: map[string]int{}, unheard: map[string]time.Time{},
	}
	client := w.client(p)
	host, err := trigger.New(client.Container(database, "leases"), []trigger.Function{{
		Name:           processor,
		Container:      client.Container(database, "items"),
		Handler:        p.handle,
		Start:          w.swarm.start,
		MaxItems:       w.swarm.maxItems,
		HandlerTimeout: w.swarm.handlerTimeout,
	}}, w.swarm.hostOptions(owner, w.logger))
	if err != nil {
		w.t.Fatal(err)
	}
	var ctx context.Context
	ctx, p.end = context.WithCancel(context.Background())
	w.alive[p.name] = p
	w.record(history.Event{Kind: history.Host, Op: history.Started, Host: p.name, Owner: owner})
	w.processes.Go(func() {
		err := host.Run(ctx)
		w.later(0, "exit/"+p.name, func() { w.exited(p, err) })
	})
	return p
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

// exited is the end of a host's Run.
func (w *world) exited(p *process, err error) {
	delete(w.alive, p.name)
	if p.killed {
		return
	}
	w.record(history.Event{Kind: history.Host, Op: history.Stopped, Host: p.name, Owner: p.owner})
	if p.stopping && err != nil {
		w.t.Errorf("seed %d: host %s stopped with %v", w.swarm.seed, p.name, err)
	}
	if !p.stopping {
		w.figures.Exits++
		w.revive(p)
	}
}

// revive has a platform start an owner again, or another one in its place.
func (w *world) revive(p *process) {
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

// kill ends a host as kill -9 does: nothing of it reaches the world again.
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
	w.record(history.Event{Kind: history.Host, Op: history.Killed, Host: p.name, Owner: p.owner})
	close(p.cut)
	p.end()
	w.revive(p)
}

// result is what a waiting request gets.
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
	r, f, how := p.admit(req, body)
	switch how {
	case dead:
		return nil, errCut
	case unreachable:
		return nil, errReset
	case atOnce:
		return p.answerAtOnce(req, r, f)
	}
	reply := make(chan result, 1)
	p.w.later(f.before, r.id, func() { p.carryOut(copied(req, body), r, f, reply) })
	select {
	case got := <-reply:
		return got.resp, got.err
	case <-p.cut:
		return nil, errCut
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
}

// how a request is taken.
type how int

const (
	queued how = iota
	atOnce
	unreachable
	dead
)

// admit gives a request its identity and its fate.
func (p *process) admit(req *http.Request, body []byte) (*request, fate, how) {
	w := p.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.killed {
		return nil, fate{}, dead
	}
	r := w.classify(req, body)
	key := p.name + "/" + string(r.kind) + "/" + r.what
	if r.kind.shared() {
		r.id = key + "@" + strconv.FormatInt(int64(time.Since(w.began)), 10)
	} else {
		p.ordinals[key]++
		r.id = key + "#" + strconv.Itoa(p.ordinals[key])
	}
	r.shift = p.shift
	w.figures.Requests++
	now := time.Now()
	if until := p.unheard[containerOf(req)]; now.Before(until) {
		return r, fate{}, unreachable
	}
	var f fate
	if !w.calm {
		f = w.swarm.decide(r)
	}
	if containerOf(req) == "leases" && now.Before(w.slowDown) {
		f = fate{class: throttled, status: refusals[0], retryAfter: w.swarm.dice(r.id).duration("retry after", time.Millisecond, 5*time.Second)}
	}
	if f.class != "" && f.class != throttled {
		w.figures.Faults[string(f.class)]++
		w.swarm.happened(f.class, r.id)
		what := history.Event{Kind: history.Fault, Op: history.Op(f.class), Host: p.name, Range: r.what}
		if f.class == killedBefore || f.class == killedAfter {
			w.noted(r.id + ": " + f.String()) // a kill records itself
		} else {
			w.noted(r.id+": "+f.String(), what)
		}
	}
	switch {
	case r.kind.serial():
		return r, f, atOnce // how many make it depends on who is first
	case r.kind.writes(), f.class != "", now.Before(p.frozen):
		return r, f, queued
	}
	w.log.sum(r.id)
	return r, f, atOnce
}

// containerOf is the container of a request's path, "" where there is none.
func containerOf(req *http.Request) string {
	_, rest, _ := strings.Cut(req.URL.Path, "/colls/")
	name, _, _ := strings.Cut(rest, "/")
	return name
}

func (p *process) answerAtOnce(req *http.Request, r *request, f fate) (*http.Response, error) {
	switch f.class {
	case lost:
		return nil, errReset
	case refused, denied, throttled:
		return shifted(f.refusal(req), r.shift), nil
	}
	resp, err := p.w.serve(req, r)
	return shifted(resp, r.shift), err
}

// carryOut is the arrival of a request at the service; the scheduler calls it.
func (p *process) carryOut(req *http.Request, r *request, f fate, reply chan<- result) {
	w := p.w
	if wait := time.Until(p.frozen); wait > 0 && f.class != lateRequest && w.swarm.dice(r.id).chance("frozen before", 0.5) {
		w.later(wait+time.Duration(len(r.id)), r.id, func() { p.carryOut(req, r, f, reply) })
		return
	}
	if p.killed && f.class != lateRequest {
		return // it never left
	}
	req = req.WithContext(context.Background())
	var got result
	switch f.class {
	case killedBefore:
		w.kill(p)
		return
	case silent:
		return
	case lost:
		got.err = errReset
	case refused, denied, throttled:
		got.resp = f.refusal(req)
	default:
		got.resp, got.err = w.serve(req, r)
		w.observe(p, r, got)
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
	}
	p.reply(r, f.after, got, reply)
}

// reply answers a request, after a while and not before a frozen host thaws.
func (p *process) reply(r *request, after time.Duration, got result, to chan<- result) {
	if wait := time.Until(p.frozen); wait > after {
		after = wait + time.Duration(len(r.id))
	}
	if after > 0 {
		p.w.later(after, r.id+" answered", func() { p.reply(r, 0, got, to) })
		return
	}
	got.resp = shifted(got.resp, p.shift)
	to <- got
}
