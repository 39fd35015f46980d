package cosmos

import (
	"net/http"
	"sync"
	"time"
)

// clock estimates the service's time from its Date headers. Hosts judge by it
// whether a lease has expired, so one wrong header must not move it: with one Date
// that was 10 minutes ahead, a host took four leases from live owners.
//
// An answer that differs from the estimate by more than maxLead is a candidate. It
// is believed when further answers agree with it; each answer that agrees with
// the estimate instead takes one agreement back. So a clock that flaps between two
// times, or one region of several that is wrong, moves nothing as long as most
// answers are right, and a wrong estimate is corrected as soon as most are.
type clock struct {
	mu     sync.Mutex // guards all fields
	date   time.Time  // newest Date header that was adopted
	at     time.Time  // local monotonic time when it arrived
	agreed int        // answers that agreed with the estimate since it last stepped, at most neededAnswers

	parsedText string // last Date header: it is that of a second, and most answers have the one before
	parsed     time.Time

	candidate      time.Time // Date header that differs from the estimate; zero if there is none
	candidateAt    time.Time // local monotonic time when it arrived
	candidateVotes int       // answers that agreed with it, less those that agreed with the estimate
}

// maxLead is how far the estimate may be ahead of a Date header that arrives. A
// header is cut to whole seconds and is as old as its way to us was long, so a
// small lead is normal. A header that is ahead by less is believed at once: the
// earlier ones were delayed.
const maxLead = 5 * time.Second

// A candidate is believed after neededAnswers further answers over confirmTime. One
// machine of the service answers several requests in a row on one connection, so
// three answers alone could come from a single wrong clock; a burst of requests
// takes less than a second. An idle range polls every 5 s, so a real step is
// followed within about 15 s, far less than a lease's expiration of 60 s.
const (
	neededAnswers = 3
	confirmTime   = 5 * time.Second
)

// now returns the newest Date header plus the monotonic time since, or the
// local time if no answer has arrived yet.
func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimate(time.Now())
}

func (c *clock) estimate(local time.Time) time.Time {
	if c.at.IsZero() {
		return local
	}
	return c.date.Add(local.Sub(c.at))
}

// observe takes in the Date header of an answer that just arrived. A header
// slightly before the estimate is ignored, so that the clock does not step back
// with each answer. It returns the header, zero if there is none.
func (c *clock) observe(resp *http.Response) (date time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	date, err := c.parse(value(resp.Header, "Date"))
	if err != nil {
		return date
	}
	local := time.Now()
	lead := date.Sub(c.estimate(local))
	switch {
	case c.at.IsZero():
		c.adopt(date, local, 0)
	case lead.Abs() <= maxLead:
		c.agree()
		if lead > 0 {
			c.adopt(date, local, c.agreed)
		}
	case lead < 0 && c.agreed < neededAnswers:
		// The first answers of all were ahead. An early time only delays a takeover;
		// a late one takes leases from live owners.
		c.adopt(date, local, 0)
	default:
		c.weigh(date, local)
	}
	return date
}

// parse returns the time of a Date header.
func (c *clock) parse(text string) (date time.Time, err error) {
	if text == c.parsedText && text != "" {
		return c.parsed, nil
	}
	if date, err = http.ParseTime(text); err == nil {
		c.parsedText, c.parsed = text, date
	}
	return date, err
}

func (c *clock) adopt(date, local time.Time, agreed int) {
	c.date, c.at, c.agreed = date, local, agreed
}

// agree counts an answer that agrees with the estimate.
func (c *clock) agree() {
	c.agreed = min(c.agreed+1, neededAnswers)
	if c.candidateVotes--; c.candidateVotes < 0 {
		c.candidate, c.candidateVotes = time.Time{}, 0
	}
}

// weigh counts an answer for the candidate, and adopts it once it is confirmed. An
// answer that agrees with neither replaces a candidate without votes.
func (c *clock) weigh(date, local time.Time) {
	expected := c.candidate.Add(local.Sub(c.candidateAt))
	switch {
	case !c.candidate.IsZero() && date.Sub(expected).Abs() <= maxLead:
		c.candidateVotes++
	case c.candidateVotes > 0:
		c.candidateVotes--
		return
	default:
		c.candidate, c.candidateAt, c.candidateVotes = date, local, 0
		return
	}
	if c.candidateVotes >= neededAnswers && local.Sub(c.candidateAt) >= confirmTime {
		c.candidate, c.candidateVotes = time.Time{}, 0
		c.adopt(date, local, neededAnswers)
	}
}
