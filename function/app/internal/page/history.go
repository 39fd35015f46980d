package page

import (
	"fmt"
	"strings"
	"time"

	"halley/trigger"
)

// Bounds of the history.
const (
	maxMoments = 500
	rateSlots  = 60
	rateEvery  = 5 * time.Second
)

// Moment is a row of the timeline: a lease that moved, a range that was flushed, stalled or
// recovered, or the action of a viewer.
type Moment struct {
	Number   int64     `json:"number,string"`
	Time     time.Time `json:"time"`
	Kind     string    `json:"kind"` // that of the event, or "action"
	Function string    `json:"function,omitempty"`
	Range    string    `json:"range,omitempty"`
	Host     string    `json:"host,omitempty"`
	Text     string    `json:"text"`
}

// history is the timeline, and the rate of each range: a part of the recorder, whose
// lock guards it.
type history struct {
	moments []Moment
	number  int64
	rates   map[[2]string]*rate
}

// rate counts the changes that a range delivered, in slots of rateEvery.
type rate struct {
	slots [rateSlots]int
	last  int64 // number of the newest slot
}

func slotOf(t time.Time) int64 { return t.UnixNano() / int64(rateEvery) }

// add counts n changes, after it has emptied the slots that passed since.
func (r *rate) add(slot int64, n int) {
	for ; r.last < slot; r.last++ {
		if slot-r.last > rateSlots {
			r.last = slot - rateSlots
		}
		r.slots[(r.last+1)%rateSlots] = 0
	}
	r.slots[slot%rateSlots] += n
}

// list returns the slots, the oldest first.
func (r *rate) list(now time.Time) []int {
	slot := slotOf(now)
	r.add(slot, 0)
	all := make([]int, rateSlots)
	for i := range all {
		all[i] = r.slots[(slot+1+int64(i))%rateSlots]
	}
	return all
}

// Observe records an event of a host.
func (r *Recorder) Observe(host string, e trigger.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h, key := &r.history, [2]string{e.Function, e.Range}
	switch e.Kind {
	case trigger.EventDeadLettered:
		r.graphs.at(e.Function, time.Now()).letters++
		return
	case trigger.EventDelivered, trigger.EventDeliveryFailed:
		if h.rates == nil {
			h.rates = map[[2]string]*rate{}
		}
		if h.rates[key] == nil {
			h.rates[key] = &rate{last: slotOf(time.Now())}
		}
		h.rates[key].add(slotOf(time.Now()), e.Handled)
		minute := r.graphs.at(e.Function, time.Now())
		minute.handled += int64(e.Handled)
		if e.Kind == trigger.EventDeliveryFailed {
			minute.failed++
		}
		return
	case trigger.EventSplit:
		delete(h.rates, key)
	}
	if text := momentText(e); text != "" {
		h.note(Moment{Time: time.Now(), Kind: string(e.Kind), Function: e.Function, Range: e.Range, Host: host, Text: text})
	}
}

// Note records a moment of the timeline.
func (r *Recorder) Note(m Moment) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m.Time = time.Now()
	r.history.note(m)
}

func (h *history) note(m Moment) {
	h.number++
	m.Number = h.number
	if len(h.moments) >= maxMoments {
		h.moments = append(h.moments[:0:0], h.moments[1:]...)
	}
	h.moments = append(h.moments, m)
}

// momentText describes an event in the timeline. It is "" for events that are not there.
func momentText(e trigger.Event) string {
	switch e.Kind {
	case trigger.EventAcquired:
		return fmt.Sprintf("lease acquired, epoch %d", e.Epoch)
	case trigger.EventSplit:
		return "replaced by " + strings.Join(e.Children, ", ")
	case trigger.EventFlushed:
		if e.Err != nil {
			return fmt.Sprintf("not flushed after %v: %s", e.Duration.Round(time.Millisecond), firstLine(e.Err.Error()))
		}
		return fmt.Sprintf("flushed in %v", e.Duration.Round(time.Millisecond))
	case trigger.EventReleased:
		text := "lease released: " + string(e.Reason)
		if e.Err != nil {
			text += ": " + firstLine(e.Err.Error())
		}
		return text
	case trigger.EventStalled:
		return "stalled: " + firstLine(e.Stall.Describe(e.Stall.Since.Add(e.Lasting)))
	case trigger.EventRecovered:
		return fmt.Sprintf("makes progress again after %v", e.Lasting.Round(time.Second))
	}
	return ""
}

// timeline returns the moments after a number, the oldest first.
func (r *Recorder) timeline(after int64) []Moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.history.moments
	for i := len(all); i > 0; i-- {
		if all[i-1].Number <= after {
			return append([]Moment{}, all[i:]...)
		}
	}
	return append([]Moment{}, all...)
}

// rateOf returns the rate of a range, nil if it has delivered nothing.
func (r *Recorder) rateOf(function, token string) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rate := r.history.rates[[2]string{function, token}]; rate != nil {
		return rate.list(time.Now())
	}
	return nil
}
