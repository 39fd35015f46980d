package history

import "time"

// spending is what a host has spent of a limit that its function sets: a bucket that
// holds a second's worth.
type spending struct {
	tokens float64
	at     time.Time
}

// limits are the buckets of the hosts.
type limits struct {
	rate, units map[string]*spending // by host
}

func newLimits() limits {
	return limits{rate: map[string]*spending{}, units: map[string]*spending{}}
}

// spend judges what a host spends. After a fault it may spend at once what it had to put
// off, so that its bucket is full again.
func (c *checker) spend(rule Rule, of map[string]*spending, host string, perSecond, ahead, cost float64) {
	if perSecond == 0 || c.foreign[host] { // an owner of another library knows no limits
		return
	}
	full := max(perSecond, 1)
	s := of[host]
	if s == nil {
		s = &spending{tokens: full, at: c.now}
		of[host] = s
		c.report.count(rule, 1, 0)
	}
	s.tokens = min(s.tokens+c.now.Sub(s.at).Seconds()*perSecond, full)
	s.at = c.now
	if !c.undisturbed(host, c.now) {
		s.tokens = full
	}
	s.tokens -= cost
	if s.tokens < -ahead {
		c.violate(rule, "%q has spent %.0f more than %g a second", host, -s.tokens, perSecond)
		s.tokens = full
	}
}
