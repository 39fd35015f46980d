package lease

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/backoff"
)

// writeGate knows whether the account refuses lease writes for the moment: it
// throttles them (429), asks to repeat them (449) or is not available (503). Then
// renewals go before checkpoints: a checkpoint waits until its lease has to be
// renewed anyway, and if no renewal is refused, one in each period is sent to see
// whether writes are accepted again. All writers of a function share a gate.
type writeGate struct {
	log *slog.Logger

	mu       sync.Mutex        // guards the fields below, and no other lock is taken under it
	refused  map[string]bool   // tokens of leases whose last write was refused, and whether it was a renewal
	renewals int               // refused renewals
	since    time.Time         // when the first of them was refused
	probeAt  time.Time         // the next checkpoint may be sent
	period   time.Duration     // between such checkpoints
	waiting  map[string]func() // by token, of writers to wake when no write is refused any more
}

// minProbePeriod bounds the checkpoints that are sent while writes are refused; the
// service's Retry-After is often a few milliseconds.
const minProbePeriod = time.Second

// probeSpread bounds the time by which writers that wait for one probe are apart.
const probeSpread = 64 * time.Microsecond

func newWriteGate(log *slog.Logger) *writeGate {
	return &writeGate{log: log, refused: map[string]bool{}, waiting: map[string]func(){}}
}

// refusal returns the service's wait if an error says that it refuses writes for
// the moment.
func refusal(err error) (wait time.Duration, refused bool) {
	var answer *cosmos.Error
	if !errors.As(err, &answer) || !slices.Contains([]int{429, 449, 503}, answer.Status) {
		return 0, false
	}
	return answer.RetryAfter, true
}

// refuse records that a write of a lease was refused.
func (g *writeGate) refuse(token string, renewal bool, wait time.Duration, err error) {
	g.mu.Lock()
	first := len(g.refused) == 0
	if first {
		g.since = time.Now()
	}
	g.drop(token)
	g.refused[token] = renewal
	if renewal {
		g.renewals++
	}
	g.period = max(wait, minProbePeriod)
	g.probeAt = time.Now().Add(g.period)
	g.mu.Unlock()
	if first {
		g.log.Warn("lease writes refused; the leases are kept, and the writes repeated", slog.Any("error", err))
	}
}

// forget records that a lease was written, or that this host does not write it any more.
func (g *writeGate) forget(token string) {
	g.mu.Lock()
	isOver := g.drop(token) && len(g.refused) == 0
	since, waiting := g.since, g.waiting
	if isOver {
		g.waiting = map[string]func(){}
	}
	g.mu.Unlock()
	if isOver {
		for _, token := range slices.Sorted(maps.Keys(waiting)) { // in order, so that a simulated run repeats
			waiting[token]()
		}
		g.log.Info("lease writes accepted again", slog.Duration("refusedFor", time.Since(since)))
	}
}

// drop removes a lease and reports whether it was there. The caller holds mu.
func (g *writeGate) drop(token string) (found bool) {
	renewal, found := g.refused[token]
	if renewal {
		g.renewals--
	}
	delete(g.refused, token)
	delete(g.waiting, token)
	return found
}

// mayCheckpoint reports whether a checkpoint of a lease may be sent now. If not, it returns
// when to ask again, and calls wake as soon as writes are accepted.
func (g *writeGate) mayCheckpoint(token string, wake func()) (retryAt time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.refused) == 0 {
		return time.Time{}, true
	}
	// Writers that wait for one probe get an order, so that a simulated run repeats.
	turn := backoff.Spread(probeSpread, token)
	now := time.Now()
	isProbe := !now.Before(g.probeAt)
	if isProbe {
		g.probeAt = now.Add(g.period)
	}
	if isProbe && g.renewals == 0 {
		return time.Time{}, true
	}
	g.waiting[token] = wake
	return g.probeAt.Add(turn), false
}
