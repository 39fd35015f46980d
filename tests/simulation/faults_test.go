package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"halley/tests/history"
)

// class is a kind of fault. Rates are per request if the class affects requests,
// per call if it affects handler calls, else per hour. The texts are part of the
// identities of faults: if one changes, the seeds give other runs.
type class string

const (
	// To a request.
	refused      class = "refused"                // an error status, the request is not applied
	denied       class = "denied"                 // an error status that ends the work of a range or a host
	lost         class = "request lost"           // connection reset before the request arrives
	silent       class = "no answer"              // not applied, no answer
	answerLost   class = "answer lost"            // applied, then connection reset
	answerSilent class = "answer silent"          // applied, no answer
	lateRequest  class = "late request"           // applied late, often when its sender has given up
	lateAnswer   class = "late answer"            // applied at once, answered late
	truncated    class = "truncated body"         // the answer ends in the middle
	olderEtag    class = class(history.OlderEtag) // a feed read is answered with an etag before its continuation
	wrongDate    class = class(history.WrongDate) // the answer's Date is ten minutes wrong
	killedBefore class = "killed before"          // the host dies, the write is not applied
	killedAfter  class = "killed after"           // the write is applied, the host dies

	// To a handler call.
	failing    class = "handler fails"
	panicking  class = "handler panics"
	hanging    class = "handler hangs"         // until its context ends
	outliving  class = "handler outlives"      // succeeds when its context has already ended
	slow       class = "handler slow"          // longer than the lease expiration
	poison     class = "poison document"       // fails a number of calls with the document; the rate is per document
	deadly     class = "deadly document"       // ends the process of each host that delivers it; the rate is per document
	keeping    class = "handler keeps"         // keeps its changes, if it may, then fails
	partly     class = "handler fails in part" // names the changes that failed
	skipping   class = "handler skips"         // tells Halley to give up the changes
	postponing class = "handler postpones"     // tells Halley when to deliver changes again
	answering  class = "handler answers"       // with any verbs of trigger, alone or combined
	poisonKey  class = "poison key"            // has documents that always fail; the rate is the share of the keys
	sinkDown   class = "sink outage"           // every call of every host fails for a while; per hour

	// To the world.
	split       class = "split"
	merge       class = "merge"
	kill        class = "kill"
	stop        class = "stop"                       // gracefully; another one starts later
	stopSoon    class = "stop soon"                  // gracefully, soon after its start; the rate is per host
	scale       class = "scale out"                  // one more host for a while
	pause       class = "pause"                      // of a host
	partition   class = "partition"                  // a host reaches nothing
	noLeases    class = "no leases"                  // a host does not reach the lease container
	noFeed      class = "no feed"                    // a host does not reach the feed
	throttled   class = "throttled"                  // lease container answers 429 to all
	feedSlow    class = class(history.FeedThrottled) // monitored container answers 429 or 503 to all
	slowWrites  class = "slow lease writes"          // each write of a lease takes seconds
	clockStep   class = class(history.ClockStep)
	leaseDelete class = "lease deleted"
	allDeleted  class = "all leases deleted"
	leaseBroken class = "lease corrupted"
	leaseOld    class = "lease restored"
	leaseTwice  class = "lease duplicated"
	foreign     class = "foreign owner" // a .NET processor has a lease for a while
	poisonBurst class = "poison burst"  // many keys of a range get a document that always fails

	// An operator's, while hosts run.
	seeking   class = "operator seeks"
	pausing   class = "operator pauses"
	resuming  class = "operator resumes"
	releasing class = "operator releases"
)

// status is an error answer of the service.
type status struct {
	code, sub int
	wait      bool // with x-ms-retry-after-ms
	on        func(kind) bool
}

func anything(kind) bool  { return true }
func reads(k kind) bool   { return !k.writes() }
func writing(k kind) bool { return k.writes() }
func feeds(k kind) bool   { return k == readFeed }
func gets(k kind) bool    { return k == readLease }
func lists(k kind) bool   { return k == listLeases }

// refusals are temporary errors. Errors that would be false are left out: 409 if
// the document does not exist, 404 if it does, 412 if the etag is the newest.
var refusals = []status{
	{429, 3200, true, anything}, {429, 3092, true, anything}, {429, 3088, true, anything}, {429, 3201, true, anything},
	{429, 3200, false, anything}, {449, 0, false, writing}, {408, 0, false, anything}, {500, 0, false, anything},
	{503, 0, false, anything}, {503, 0, true, anything}, {410, 1002, false, feeds}, {410, 1007, false, feeds},
	{410, 1008, false, anything}, {404, 1002, false, reads}, {403, 3, false, writing}, {403, 1008, false, reads},
	{404, 0, false, gets},
}

// denials end the work on a range or of a host.
var denials = []status{
	{400, 0, false, anything}, {400, 1001, false, writing}, {400, 1004, false, lists}, {400, 1024, false, anything},
	{401, 0, false, anything}, {403, 0, false, anything}, {404, 1003, false, anything}, {410, 1000, false, anything},
	{413, 0, false, writing},
}

var (
	errReset = errors.New("connection reset by the simulation")
	errCut   = errors.New("this host is dead")
)

// fate is the fault of one request, or none.
type fate struct {
	class      class
	status     status
	retryAfter time.Duration
	before     time.Duration // until it is applied
	after      time.Duration // from then until it is answered
	shift      time.Duration // of the Date header of this answer
	older      string        // etag of this answer
}

// requestClasses in the order in which a share of 1 is divided among them.
var requestClasses = []class{
	refused, denied, lost, silent, answerLost, answerSilent, lateRequest, lateAnswer, truncated, killedBefore, killedAfter,
	olderEtag, wrongDate,
}

// weight scales the rate of a class to a kind of request: kills belong to
// writes and are for the rare ones, so that every wire point has its share.
func weight(c class, k kind) float64 {
	switch c {
	case killedBefore, killedAfter:
		switch k {
		case checkpoint, renew:
			return 0.3
		case acquire:
			return 3
		case create, retire, release, tombstone, stamp, handoverRequest, deadLetterPut, deadLetterDelete, pauseWrite, resumeWrite, seekWrite, takeWrite, markWrite, noticeWrite:
			return 20
		}
		return 0
	case silent, answerSilent:
		if k.serial() {
			return 0
		}
		return 0.2
	case answerLost, lateRequest:
		if k.serial() {
			return 0
		}
		if k.writes() {
			return 4
		}
	case lateAnswer:
		if k.serial() {
			return 0
		}
	case truncated:
		if k.writes() || k.serial() {
			return 0
		}
	case denied:
		return 0.05
	case olderEtag:
		if k != readFeed {
			return 0
		}
	case wrongDate:
		if k.serial() {
			return 0
		}
		if k == listLeases { // its date tells which leases have expired
			return 10
		}
	}
	return 1
}

// decide returns the fate of a request. If it is zero, the request has no fault.
func (s *swarm) decide(r *request) fate {
	d := s.dice(r.id)
	u := d.share("fate")
	for _, c := range requestClasses {
		rate := s.rates[c] * weight(c, r.kind)
		if u >= rate {
			u -= rate
			continue
		}
		if !s.allows(c, r.id) {
			return fate{}
		}
		return s.detail(d, c, r.kind)
	}
	return fate{}
}

func (s *swarm) detail(d dice, c class, k kind) fate {
	f := fate{class: c}
	switch c {
	case refused, denied:
		list := refusals
		if c == denied {
			list = denials
		}
		list = slices.DeleteFunc(slices.Clone(list), func(s status) bool {
			return !s.on(k) || k.serial() && (s.wait || s.code == 403)
		})
		f.status = one(d, "status", list...)
		if f.status.wait {
			f.retryAfter = d.duration("retry after", time.Millisecond, 5*time.Second)
		}
		f.after = time.Duration(d.pick("after", 2)) * d.duration("after", time.Millisecond, time.Second)
	case lateRequest:
		f.before = d.duration("before", 10*time.Millisecond, 3*time.Minute)
	case lateAnswer:
		f.after = d.duration("after", 10*time.Millisecond, 2*time.Minute)
	case lost, answerLost:
		f.after = d.duration("after", time.Millisecond, 5*time.Second)
	case wrongDate:
		f.shift = one(d, "by", -10*time.Minute, 10*time.Minute)
		f.after = d.duration("after", time.Millisecond, time.Second) // no other answer comes at that instant
	}
	if k.serial() {
		f.after = 0
	}
	return f
}

// until returns when the fault of a request ends, zero if that is unknown.
func (f fate) until(now time.Time) time.Time {
	switch f.class {
	case denied, silent, answerSilent: // the end depends on the host
		return time.Time{}
	}
	return now.Add(f.before + f.after + f.retryAfter)
}

func (f fate) String() string {
	switch f.class {
	case refused, denied:
		return fmt.Sprintf("%s %d/%d", f.class, f.status.code, f.status.sub)
	case lateRequest:
		return fmt.Sprintf("%s %s", f.class, f.before)
	case lateAnswer:
		return fmt.Sprintf("%s %s", f.class, f.after)
	}
	return string(f.class)
}

// refusal returns the answer that f gives instead of the service's.
func (f fate) refusal(req *http.Request) *http.Response {
	h := http.Header{}
	h.Set("X-Ms-Substatus", strconv.Itoa(f.status.sub))
	if f.retryAfter > 0 {
		h.Set("X-Ms-Retry-After-Ms", strconv.FormatInt(f.retryAfter.Milliseconds(), 10))
	}
	return answer(req, f.status.code, h, fmt.Sprintf(`{"code":"%d","message":"simulated"}`, f.status.code))
}
