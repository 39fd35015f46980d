package delivery

import "slices"

// A handler with manual checkpoints may keep changes in memory until it asks for a
// checkpoint. Its request covers the changes of its own call and those of all calls that
// had returned before:
//
//  1. Change 1 fails. The handler keeps 2 and 3 in memory. The call with change 4 writes all
//     three to the sink and asks for a checkpoint. A stays before change 1.
//  2. Change 1 is delivered again, and the handler keeps it in memory. The request is older
//     than the call, so A stays before change 1 until a later request.
//
// Changes that the filter left out, or that are durable in the dead letter store, need no
// request. A postponed change leaves the store only when a request covers its delivery, see
// uncovered.go.

// stretch is a part of the feed whose end may be saved after a request that is later than
// the return of a call.
type stretch struct {
	answered int64 // of that call; 0 if none is needed
	end      boundary
}

// maxStretches bounds the positions that wait. If a handler makes many calls without a
// request, or while another lane's call runs that has made one, every second position is
// dropped: a request then saves one before it.
const maxStretches = 256

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
	p.request, p.asideStale = max(p.request, v.Requested), true
}

// passItems moves over the changes at the start of a page that have left it. The lock is held.
func (p *progress) passItems(o *openPage) {
	for ; o.passed < len(o.items) && o.items[o.passed].inPage == nil; o.passed++ {
		if answered := o.items[o.passed].answered; answered > p.stretches[len(p.stretches)-1].answered {
			p.extendStretch(o.boundaryBefore(o.passed))
			p.beginStretch(answered)
		}
	}
	p.extendStretch(o.boundaryBefore(o.passed))
	p.passedSeq = o.start.seq + int64(o.passed)
}

// extendStretch moves the end of the last stretch, but not back. The lock is held.
func (p *progress) extendStretch(end boundary) {
	last := &p.stretches[len(p.stretches)-1]
	if p.isBehind(end.position, last.end.position) {
		end.position = last.end.position
	}
	last.end = end
}

// beginStretch begins a stretch behind the last one. The lock is held.
func (p *progress) beginStretch(answered int64) {
	n := len(p.stretches)
	if n == maxStretches {
		n /= 2
		for i := range n {
			p.stretches[i] = p.stretches[2*i+1]
		}
	}
	p.stretches = append(p.stretches[:n], stretch{answered, p.stretches[n-1].end})
}

// finishCovered moves Q to the last position that the requests cover, and finishes the
// handled changes set aside that they cover. The lock is held.
func (p *progress) finishCovered() {
	for p.stretches[0].answered < p.request {
		p.reached = p.stretches[0].end
		if len(p.stretches) == 1 {
			break
		}
		p.stretches = slices.Delete(p.stretches, 0, 1)
	}
	if p.asideStale {
		n := len(p.aside)
		p.aside = slices.DeleteFunc(p.aside, func(c *asideChange) bool { return c.isHandled && c.answered < p.request })
		p.asideDone += int64(n - len(p.aside))
		p.asideStale = false
	}
}
