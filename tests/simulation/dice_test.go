package simulation

import (
	"math"
	"time"
)

// dice makes the random decisions about one event, named by id, of one seed. If the
// same question is asked again, the answer is the same.
type dice struct {
	seed uint64
	id   string
}

// roll is FNV-1a over the id and the question, spread by the finalizer of
// SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
// generators).
func (d dice) roll(question string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := d.seed*prime ^ offset
	for _, s := range [...]string{d.id, question} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// share returns a number in [0, 1).
func (d dice) share(question string) float64 {
	return float64(d.roll(question)>>11) / (1 << 53)
}

func (d dice) chance(question string, p float64) bool { return d.share(question) < p }

// pick returns a number in [0, n).
func (d dice) pick(question string, n int) int { return int(d.roll(question) % uint64(n)) }

// between returns a whole number from low to high, both included.
func (d dice) between(question string, low, high int) int {
	return low + d.pick(question, high-low+1)
}

// duration returns a duration between low and high; short ones are as likely as
// long ones. It has nanoseconds, so that two events do not have the same instant
// by accident.
func (d dice) duration(question string, low, high time.Duration) time.Duration {
	exponent := math.Log(float64(low)) + d.share(question)*(math.Log(float64(high))-math.Log(float64(low)))
	return time.Duration(math.Exp(exponent)) + time.Duration(d.roll(question+" ns")%997)
}

// moment returns a duration from 0 to span.
func (d dice) moment(question string, span time.Duration) time.Duration {
	return time.Duration(d.share(question)*float64(span)) + time.Duration(d.roll(question+" ns")%997)
}

// one returns an element of list.
func one[T any](d dice, question string, list ...T) T { return list[d.pick(question, len(list))] }
