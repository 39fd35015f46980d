package triggertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/trigger"
)

// Host is one process of a [World]. It works like a timer invocation: each drain
// acquires the leases with changes, delivers until caught up, and releases them.
type Host struct {
	w       *World
	name    string
	handler trigger.Handler
	trouble trouble // nil if there is none
	alive   context.Context
	die     context.CancelCauseFunc

	// parallel drains several ranges at a time and saves positions all the time, as a
	// deployed host does. Otherwise ranges are drained one by one, and positions are
	// saved when a range has caught up: then a crash leaves the same behind each time.
	parallel bool
}

// trouble takes the place of a handler call: it may make the call, or parts of it.
type trouble func(ctx context.Context, b trigger.Batch, call trigger.Handler) error

// errDied ends the context of a handler call when its host is killed.
var errDied = errors.New("host was killed")

// errCutOff is the verdict of a call that begins or ends when its drain is cut off. The
// runtime cannot save it.
var errCutOff = errors.New("host was cut off")

// Host starts a process with a handler of its own.
func (w *World) Host(handler trigger.Handler) *Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hosts++
	h := &Host{w: w, name: fmt.Sprintf("host-%d", w.hosts), handler: handler, parallel: true}
	h.alive, h.die = context.WithCancelCause(context.WithoutCancel(w.t.Context()))
	return h
}

// Drain works on every free range until it has caught up, and gives the leases back.
// Behind in the summary counts ranges that have not caught up, and Problem says why.
// The test fails if the host is dead, or could not work at all. A host drains once at a
// time.
func (h *Host) Drain() trigger.Summary {
	h.w.t.Helper()
	if h.alive.Err() != nil {
		h.w.t.Errorf("%s is dead: start another one with World.Host", h.name)
		return trigger.Summary{}
	}
	h.w.expireAbandoned()
	drain, cut := context.WithCancel(h.alive)
	defer h.w.beginDrain(h, cut)()
	host, err := h.newRuntime(drain)
	if err != nil {
		h.w.t.Error(err)
		return trigger.Summary{}
	}
	summary, err := host.Drain(drain)
	if err != nil && drain.Err() == nil {
		h.w.t.Errorf("drain of %s: %v", h.name, err)
	}
	return summary
}

// newRuntime makes the runtime of one drain, which ends when it is cut off. Its client is new as well: one that has
// seen the account's clock before does not follow [World.Advance] at once.
func (h *Host) newRuntime(drain context.Context) (*trigger.Host, error) {
	client := h.w.newClient(network{h.w.account, drain})
	f := h.w.function
	f.Container = client.Container(Database, Container)
	f.Handler = func(ctx context.Context, b trigger.Batch) error { return h.handle(drain, ctx, b) }
	options := trigger.Options{Owner: h.name}
	if !h.parallel {
		options.Parallel = 1
		if !f.Checkpoint.Manual {
			f.Checkpoint = trigger.Checkpoint{Interval: time.Hour}
		}
	}
	f.DeadLetters = drainStore{&h.w.store, drain}
	return trigger.New(client.Container(Database, leases), []trigger.Function{f}, &options)
}

// Kill ends the host at once, as a crash does: none of its requests is answered any
// more, and nothing that it does counts. Nothing can end a handler call that is
// running, but its context ends. The leases of the host have expired when the next
// drain begins. Kill may be called by the host's own handler.
func (h *Host) Kill() {
	h.w.mu.Lock()
	h.w.abandoned = true
	h.w.mu.Unlock()
	h.die(errDied)
}

// Replay delivers the dead letters to the host's handler, oldest first, and removes
// those that it accepts.
func (h *Host) Replay() trigger.Replayed {
	h.w.t.Helper()
	f := h.w.function
	f.Container = h.w.items()
	handle := func(ctx context.Context, b trigger.Batch) error { return h.handle(h.alive, ctx, b) }
	replayed, err := trigger.Replay(h.w.t.Context(), &h.w.store, f.DeadLetterSource(), handle, nil)
	if err != nil {
		h.w.t.Error(err)
	}
	return replayed
}

// handle is the handler as the runtime calls it in a drain.
func (h *Host) handle(drain, ctx context.Context, b trigger.Batch) error {
	if drain.Err() != nil {
		return errCutOff
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.alive, func() { cancel(errDied) })()
	var err error
	if h.trouble == nil {
		err = h.call(ctx, b)
	} else {
		err = h.trouble(ctx, b, h.call)
	}
	if drain.Err() != nil {
		return errCutOff
	}
	h.w.mu.Lock()
	defer h.w.mu.Unlock()
	h.w.record.handle(b.Judge(err).Handled)
	return err
}

// call calls the user's handler. A handler that modifies bytes is reported once.
func (h *Host) call(ctx context.Context, b trigger.Batch) error {
	err, misuse := callGuarded(ctx, h.handler, b, h.w.function.ReuseBuffers)
	if misuse != nil {
		h.w.reportMisuse.Do(func() { h.w.t.Error(misuse) })
	}
	return err
}

// beginDrain registers a drain for [World.Advance].
func (w *World) beginDrain(h *Host, cut func()) (ended func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drains[h] = cut
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.drains, h)
		cut()
	}
}

// expireAbandoned lets the leases of hosts expire that were killed or cut off.
func (w *World) expireAbandoned() {
	w.mu.Lock()
	abandoned := w.abandoned
	w.mu.Unlock()
	if abandoned {
		w.ExpireLeases()
	}
}

// network carries the requests of a drain to the account. If the drain is cut off, none
// arrives: each document is absent instead, so that the runtime ends its work soon.
type network struct {
	account policy.Transporter
	drain   context.Context
}

// documentAbsent is the body of a 404 for a document, not for its container.
const documentAbsent = `{"code":"NotFound","message":"Entity with the specified id does not exist in the system."}`

func (n network) Do(r *http.Request) (*http.Response, error) {
	if n.drain.Err() != nil {
		return &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(documentAbsent)), Request: r}, nil
	}
	return n.account.Do(r)
}

// drainStore is the dead letter store of a drain, which does not reach it if it is cut
// off.
type drainStore struct {
	*memoryStore
	drain context.Context
}

func (s drainStore) Put(ctx context.Context, d trigger.DeadLetter) error {
	if s.drain.Err() != nil {
		return errCutOff
	}
	return s.memoryStore.Put(ctx, d)
}
