package delivery

import "slices"

// A handler with manual checkpoints may keep changes in memory until it asks for a
// checkpoint. Its request covers the changes of its own call and those of all calls that
// had returned before:
//
//  1. Change 1 fails. The calls with changes 2 and 3 return, and the handler keeps both
//     changes in memory.
//  2. The call with change 4 writes 2, 3 and 4 to the sink and asks for a checkpoint. The
//     position stays before change 1.
//  3. Change 1 is delivered again, and the handler keeps it in memory. The acknowledged
//     prefix now ends after change 4. The request is older than the call, so the position
//     stays before change 1 until a later request.
//
// Changes that the filter left out, or that are durable in the dead letter store, need no
// request. A postponed change leaves the store only when a request covers its delivery, see
// uncovered.go.

// requestedPositions are the positions that wait for a request. The progress owns them and
// guards them.
type requestedPositions struct {
	request int64              // the newest one, as Verdict.Requested; at least 1
	covered int64              // the request that the changes set aside were last compared with
	latest  int64              // largest Item.answered among the changes before Q
	waiting []requiredPosition // in order of the feed, and of their calls
}

// requiredPosition is a position that may be saved after a request that is later than the
// return of a call.
type requiredPosition struct {
	answered int64 // of that call; 0 if none is needed
	end      boundary
}

// maxWaiting bounds the positions that wait. If a handler makes many calls without a
// request, or while another lane's call runs that has made one, every second position is
// dropped: a request then saves one before it.
const maxWaiting = 256

// answerCall notes which request the handled changes of a call need, and the request of
// the call. A lane calls it before it finishes the changes: the prefix may pass them
// together with later ones that other lanes have finished.
func (p *progress) answerCall(handled []*Item, v Verdict) {
	if v.Requested == 0 {
		for _, c := range handled {
			c.answered = v.Answered
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested.request = max(p.requested.request, v.Requested)
}

// requestCheckpoint saves the last position before which every change was handled by a call
// up to that number, or needs no request.
func (p *progress) requestCheckpoint(answered int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requested.request = max(p.requested.request, answered+1)
	p.settle()
}

// passRequested notes the positions up to change n of a page, which the prefix has
// reached. The lock is held.
func (p *progress) passRequested(o *openPage, n int) {
	r := &p.requested
	for ; o.passed < n; o.passed++ {
		if answered := o.items[o.passed].answered; answered > r.latest {
			p.addWaiting(o, o.passed)
			r.latest = answered
		}
	}
	p.addWaiting(o, n)
}

// addWaiting adds the last position before change n of a page. If it has no name, because
// it is inside a transaction or in a page of a merged range, the last position before
// it stays. The lock is held.
func (p *progress) addWaiting(o *openPage, n int) {
	r := &p.requested
	end, named := o.boundaryBefore(n)
	if !named {
		return
	}
	next := requiredPosition{r.latest, end}
	newest, last := p.reached.position, len(r.waiting)-1
	if last >= 0 {
		newest = r.waiting[last].end.position
	}
	switch {
	case end.position == newest || p.isBehind(end.position, newest):
	case last >= 0 && r.waiting[last].answered == r.latest:
		r.waiting[last] = next
	default:
		if r.waiting = append(r.waiting, next); len(r.waiting) == maxWaiting {
			for i := range maxWaiting / 2 {
				r.waiting[i] = r.waiting[2*i+1]
			}
			r.waiting = r.waiting[:maxWaiting/2]
		}
	}
}

// coverRequested moves Q to the last position that the requests cover, and finishes the
// changes set aside that they cover. The lock is held.
func (p *progress) coverRequested() {
	r := &p.requested
	if r.covered < r.request {
		r.covered = r.request
		p.coverAside()
	}
	n := slices.IndexFunc(r.waiting, func(w requiredPosition) bool { return w.answered >= r.request })
	if n < 0 {
		n = len(r.waiting)
	}
	if n > 0 {
		p.reached = r.waiting[n-1].end
		r.waiting = append(r.waiting[:0], r.waiting[n:]...)
	}
}
