package simulation

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// message is one message of the queue that spreads ranges over hosts. Only the scheduler
// uses its fields, except for id and task, which do not change.
type message struct {
	id         string
	task       trigger.RangeTask
	mark       string // of its lease, "" if that has changed since, or is the companion's
	deliveries int
}

// The queue's rules: those of Azure Functions (azure-sdk-for-net, QueuesOptions).
const (
	hiddenFor     = 10*time.Minute + 29 // a message of a host that is dead
	mostDelivered = 5
)

// fanOut is the work of a host in the mode fanout: it sends messages at each timer
// invocation, and drains the ranges of the messages that it gets, many at a time.
func (p *process) fanOut(ctx context.Context, host *trigger.Host) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		for n := 0; ctx.Err() == nil; n++ {
			next := time.NewTimer(p.w.swarm.tick)
			limited, cancel := context.WithTimeout(ctx, p.w.swarm.drain)
			tasks, _, _ := host.Dispatch(limited) // the next tick tries again
			p.w.used("Dispatch", 1)
			cancel()
			p.w.later(0, "tick/"+p.name+"/"+strconv.Itoa(n), func() { p.send(tasks, n) })
			select {
			case <-next.C:
			case <-ctx.Done():
			}
			next.Stop()
		}
	})
	for {
		select {
		case m := <-p.messages:
			working.Go(func() {
				limited, cancel := context.WithTimeout(ctx, p.w.swarm.drain)
				p.w.used("DrainRange", 1)
				_, err := host.DrainRange(limited, m.task.Function, m.task.Range)
				cancel()
				p.w.later(0, "answer/"+m.id+"/"+p.name, func() { p.answered(m, err) })
			})
		case <-ctx.Done():
			return
		}
	}
}

// send puts the messages of a timer invocation into the queue, unless the host has died
// between its marks and its answer.
func (p *process) send(tasks []trigger.RangeTask, tick int) {
	if p.killed {
		return
	}
	for _, t := range tasks {
		m := &message{id: fmt.Sprintf("%s/%d/%s", p.name, tick, t.Range), task: t}
		if t.Function != companion {
			m.mark = p.w.markOf(t.Range)
		}
		p.w.messages[m] = true
		p.w.deliver(m, "sent", time.Millisecond, 20*time.Second)
	}
}

// deliver gives a message to a host after a while. If the host dies, the message comes
// back.
func (w *world) deliver(m *message, why string, from, to time.Duration) {
	d := w.swarm.dice(fmt.Sprintf("message/%s/%d/%s", m.id, m.deliveries, why))
	w.later(d.duration("after", from, to), d.id, func() {
		living := w.living()
		if len(living) == 0 {
			if !w.ending {
				w.deliver(m, why+"+", time.Second, time.Minute)
			}
			return
		}
		p := one(d, "host", living...)
		m.deliveries++
		p.messages <- m // there is room for all messages of a run
		w.hide(m, p, m.deliveries)
	})
}

// hide makes a message visible again if the host that has it is dead.
func (w *world) hide(m *message, p *process, delivery int) {
	w.later(hiddenFor, fmt.Sprintf("hidden/%s/%d", m.id, delivery), func() {
		switch {
		case !w.messages[m] || m.deliveries != delivery || w.ending:
		case w.alive[p.name] == p:
			w.hide(m, p, delivery)
		default:
			w.deliver(m, "back", time.Millisecond, time.Second)
		}
	})
}

// markOf returns the mark of the range's lease, "" if it has none or one that has ended, or another
// owner since, or no host can read it, or hosts may use a duplicate of it.
func (w *world) markOf(token string) (mark string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := 0
	for _, l := range w.leases {
		if l.token != token {
			continue
		}
		if found++; found > 1 {
			return ""
		}
		if fields := strings.SplitN(l.marked, " ", 3); !strings.HasPrefix(l.marked, "-") && !w.broken[l.key()] && len(fields) == 3 && fields[2] == l.owner {
			mark = l.marked
		}
	}
	return mark
}

// isDraining reports whether a message for the range is on its way or worked on, which ends the
// mark.
func (w *world) isDraining(task trigger.RangeTask) bool {
	for m := range w.messages {
		if m.task == task {
			return true
		}
	}
	return false
}

// markEnded is a promise about messages: the last one of a range that is done leaves no mark
// that keeps the next one back.
const markEnded history.Rule = "marks of messages"

// answered deletes a message, or delivers it again after a failure.
func (p *process) answered(m *message, err error) {
	switch {
	case p.killed || !p.w.messages[m]:
	case err == nil || m.deliveries >= mostDelivered:
		delete(p.w.messages, m)
		if err == nil && m.mark != "" && p.w.markOf(m.task.Range) == m.mark && !p.w.isDraining(m.task) {
			p.w.violations = append(p.w.violations, history.Violation{
				Rule: markEnded, Time: time.Now(), Text: fmt.Sprintf("%s is done by %s, and range %s has still its mark %q", m.id, p.name, m.task.Range, m.mark),
			})
		}
	default:
		p.w.deliver(m, "again", time.Millisecond, time.Second)
	}
}
