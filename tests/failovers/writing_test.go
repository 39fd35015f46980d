package failovers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// write is one write to the monitored container. What its answer would tell is zero if it was lost.
type write struct {
	began   time.Time
	rangeID string
	lsn     int64
}

// writer creates, replaces and deletes documents. Each document is deleted once at most.
type writer struct {
	*world
	dice  *rand.Rand
	alive []*written
	count int
}

type written struct {
	id, key string
	version int
}

// writeUntil writes until ctx ends, at once a backlog of documents.
func (w *world) writeUntil(ctx context.Context, mean time.Duration) {
	by := writer{world: w, dice: rand.New(rand.NewPCG(w.seed, 2))}
	for range w.backlog {
		by.write(ctx)
	}
	for ctx.Err() == nil {
		by.write(ctx)
		timer := time.NewTimer(time.Duration(by.dice.ExpFloat64() * float64(mean)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// write does one write. Its answer may be lost: the judge asks the account.
func (w *writer) write(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	d := w.next()
	key := cosmos.NewPartitionKey(d.key)
	if d.version > 1 && w.dice.IntN(5) == 0 {
		w.alive = slices.DeleteFunc(w.alive, func(other *written) bool { return other == d })
		w.record(d.id+deleted, func() (cosmos.Response, error) { return w.container.Delete(ctx, d.id, key, "") })
		return
	}
	w.record(fmt.Sprint(d.id, ".", d.version), func() (cosmos.Response, error) {
		return w.container.Upsert(ctx, key, map[string]any{"id": d.id, "key": d.key, "version": d.version})
	})
}

// next returns a document with the version that is to be written: a new one, or one of those that exist.
func (w *writer) next() *written {
	if len(w.alive) > 0 && w.dice.IntN(2) == 0 {
		d := w.alive[w.dice.IntN(len(w.alive))]
		d.version++
		return d
	}
	w.count++
	d := &written{id: fmt.Sprint("d", w.count), key: fmt.Sprint("k", w.dice.IntN(12)), version: 1}
	w.alive = append(w.alive, d)
	return d
}

// record does a write and notes it under its name.
func (w *world) record(name string, do func() (cosmos.Response, error)) {
	one := write{began: time.Now()}
	note := func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.writes[name] = one
	}
	note()
	if answer, err := do(); err == nil {
		one.rangeID, one.lsn = parseToken(answer.SessionToken)
		note()
	}
}

// parseToken returns range and LSN of a session token: {range}:{version}#{lsn}[#{region}={lsn}…].
func parseToken(token string) (rangeID string, lsn int64) {
	rangeID, rest, _ := strings.Cut(token, ":")
	_, rest, _ = strings.Cut(rest, "#")
	number, _, _ := strings.Cut(rest, "#")
	lsn, _ = strconv.ParseInt(number, 10, 64)
	return rangeID, lsn
}

// reusesLSN reports whether a change may have an LSN that an earlier write of its range had, or a lower
// one: the account has lost that write.
func (w *world) reusesLSN(c change) bool {
	own := w.writes[c.name]
	for _, other := range w.writes {
		if other.began.Before(own.began) && (own.lsn == 0 || other.lsn == 0 || other.lsn >= c.lsn && w.isOneLine(other.rangeID, own.rangeID)) {
			return true
		}
	}
	return false
}

// isBack reports whether a kept change may have been hidden by a later write of its document, in
// latest-version mode, that the account has lost or refused.
func (w *world) isBack(c change) bool {
	if w.feed.mode == cosmos.ModeAllVersions && w.feed.isWhole {
		return false
	}
	for name, other := range w.writes {
		if strings.HasPrefix(name, c.id+".") && name != c.name && !other.began.Before(w.writes[c.name].began) {
			return true
		}
	}
	return false
}

// isOneLine reports whether a range is another one or was split from it.
func (w *world) isOneLine(earlier, later string) bool {
	for ; later != ""; later = w.feed.parents[later] {
		if later == earlier {
			return true
		}
	}
	return false
}
