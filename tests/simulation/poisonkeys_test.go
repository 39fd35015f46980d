package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"halley/tests/history"
	"halley/trigger"
)

// Rates of poison keys: the share of the keys that have documents which always fail, and
// how often an hour many keys of one range get one each.
var (
	poisonKeyRates   = []float64{0.05, 0.15, 0.4}
	poisonBurstRates = []float64{0.5, 2}
)

// poisonShare is the share of the changes of a poison key that always fail.
const poisonShare = 0.25

// burstKeys are the keys of a burst at most, and manyWaiting so many that a range must hold.
const (
	burstKeys   = 14
	manyWaiting = 10
)

// drawPoisonKeys chooses poison keys, in most runs, mostly with a dead letter store.
func (s *swarm) drawPoisonKeys(d dice) {
	if !d.chance("poison keys", 0.65) {
		return
	}
	s.rates[poisonKey] = one(d, "poison key rate", poisonKeyRates...)
	s.deadLetters = s.deadLetters || d.chance("store for poison keys", 0.8)
	if d.chance("bursts", 0.3) {
		s.rates[poisonBurst] = one(d, "burst rate", poisonBurstRates...)
		s.ranges, s.keys = d.between("ranges of bursts", 2, 4), d.between("keys of bursts", 80, 120)
	}
}

// poisonous reports whether a change fails in every host: for ever if there is a dead letter
// store, else for some attempts.
func (s *swarm) poisonous(c history.Event) bool {
	number := strconv.FormatInt(c.Seq, 10)
	return s.dice("poison/"+c.Key+"/"+number).chance("is", s.rates[poison]) || s.burst[history.Ref{Key: c.Key, Seq: c.Seq}] ||
		s.dice("poison key/"+c.Key).chance("is", s.rates[poisonKey]) && s.dice("poison key/"+c.Key+"/"+number).chance("is", poisonShare)
}

// burstPoison writes a poison change for many keys of one range.
func (w *world) burstPoison(d dice) string {
	ranges := w.ranges()
	r := one(d, "range", ranges...)
	var keys []string
	for i := range w.swarm.keys {
		if key := "k" + strconv.Itoa(i); r.Min <= w.hashes[key] && w.hashes[key] < r.Max && len(keys) < burstKeys {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || w.silent {
		return ""
	}
	for _, key := range keys {
		w.mu.Lock()
		w.swarm.burst[history.Ref{Key: key, Seq: w.written[key] + 1}] = true
		w.mu.Unlock()
		drawn := dice{d.seed, d.id + "/" + key}
		w.writeTo(drawn, key, fmt.Sprintf("%s-%d", key, drawn.pick("document", w.swarm.documents)))
	}
	for _, wait := range []time.Duration{2, 10, 30, 60} {
		w.later(wait*time.Second+time.Duration(d.pick("look", 997)), d.id+"/look/"+strconv.Itoa(int(wait)), w.countWaiting)
	}
	return fmt.Sprintf("%d keys of range %s", len(keys), r.ID)
}

// countWaiting counts the looks at hosts with a range in which many keys wait.
func (w *world) countWaiting() {
	for _, p := range w.living() {
		for _, f := range p.host.Status().Functions {
			if slices.ContainsFunc(f.Ranges, func(r trigger.RangeStatus) bool { return r.WaitingKeys >= manyWaiting }) {
				w.used("many waiting keys", 1)
			}
		}
	}
}
