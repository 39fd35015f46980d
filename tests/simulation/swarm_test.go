package simulation

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/emulator"
)

// swarm is the configuration of one run. Each seed gets a few classes of faults
// at random rates, so that rare combinations of two are not hidden by all the
// others (Groce, Zhang, Eide, Chen, Regehr: Swarm testing).
type swarm struct {
	seed  uint64
	hours time.Duration // with faults

	hosts, ranges, most int // ranges at the start and at most
	keys, documents     int
	writes              int // per hour, on the average
	function            trigger.Function
	deadLetters         bool
	letterKey           string        // partition key path of the container of dead letters; "" if they are in memory
	letterWindow        int           // of its queries
	companion           bool          // hosts have a second function on the container
	incurable           bool          // poison still fails when all other faults have ended
	lasting             bool          // killed hosts are not replaced
	callTime            time.Duration // of each handler call; 0: drawn
	buffers             bool          // the sink keeps changes in memory until its handler asks for a checkpoint
	bulks               bool          // some writes are bulk requests, whose operations may have one LSN
	neighbours          bool          // all containers share the throughput of their database, and its LSNs until the first split
	quick               bool          // no handler call takes more than 50 ms, and nothing but poison fails
	splitting           time.Duration
	deletes             bool // some items are deleted at once, so that no feed shows them
	manners             emulator.Manners
	leaseKey            string // partition key path of the lease container
	retry               policy.RetryOptions
	options             trigger.Options
	tick, drain         time.Duration // interval of a timer, and the time limit of a drain; if 0, hosts run
	fanout              bool          // timer invocations send messages, and hosts drain single ranges
	rates               map[class]float64

	only    map[string]bool // only these faults; nil for all
	applied map[string]bool // faults that occurred

	burst map[history.Ref]bool // changes of bursts that always fail; the world's lock guards it
}

// menu lists the classes with the rates that a seed chooses from.
var menu = []struct {
	class class
	rates []float64
}{
	{refused, []float64{0.002, 0.01, 0.05}},
	{denied, []float64{0.01, 0.05}},
	{lost, []float64{0.002, 0.01, 0.05}},
	{silent, []float64{0.002, 0.01}},
	{answerLost, []float64{0.002, 0.01}},
	{answerSilent, []float64{0.002, 0.01}},
	{lateRequest, []float64{0.002, 0.01}},
	{lateAnswer, []float64{0.002, 0.01, 0.03}},
	{truncated, []float64{0.002, 0.02}},
	{olderEtag, []float64{0.001, 0.01}},
	{wrongDate, []float64{0.0005, 0.005}},
	{killedBefore, []float64{0.001, 0.005}},
	{killedAfter, []float64{0.001, 0.005}},

	{failing, []float64{0.01, 0.05, 0.2}},
	{panicking, []float64{0.01, 0.05}},
	{hanging, []float64{0.002, 0.01}},
	{outliving, []float64{0.002, 0.01}},
	{slow, []float64{0.005, 0.02}},
	{poison, []float64{0.002, 0.01}},
	{deadly, []float64{0.0005, 0.002}},
	{keeping, []float64{0.01, 0.05}},
	{partly, []float64{0.01, 0.1}},
	{skipping, []float64{0.002, 0.01}},
	{sinkDown, []float64{0.5}},

	{split, []float64{0.5, 2, 8}},
	{merge, []float64{0.5, 2, 6}},
	{kill, []float64{1, 4, 15}},
	{stop, []float64{1, 4}},
	{stopSoon, []float64{0.1, 0.5}},
	{scale, []float64{0.5, 2}},
	{pause, []float64{1, 4}},
	{partition, []float64{0.5, 3}},
	{noLeases, []float64{0.5, 3}},
	{noFeed, []float64{0.5, 3}},
	{throttled, []float64{0.5, 2}},
	{feedSlow, []float64{0.5, 2}},
	{slowWrites, []float64{0.5, 2}},
	{clockStep, []float64{0.5, 2}},
	{leaseDelete, []float64{0.5, 2}},
	{allDeleted, []float64{0.3, 1}},
	{leaseBroken, []float64{0.3, 1}},
	{leaseOld, []float64{0.5, 2}},
	{leaseTwice, []float64{0.3, 1}},
}

// operations are the classes of an operator, who does all of them or nothing.
var operations = []struct {
	class class
	rates []float64
}{
	{seeking, []float64{1, 6}},
	{pausing, []float64{2, 10}},
	{resuming, []float64{4, 10}},
	{releasing, []float64{1, 6}},
}

// postponingRates are those of handlers that postpone changes.
var postponingRates = []float64{0.01, 0.05, 0.2}

// answeringRates are those of handlers that answer with any verbs.
var answeringRates = []float64{0.01, 0.05, 0.2}

// mild classes have no effects that excuse a late takeover. Some seeds have only
// these.
var mild = map[class]bool{
	killedBefore: true, killedAfter: true, kill: true, stop: true, stopSoon: true, scale: true,
	failing: true, panicking: true, keeping: true, poison: true, partly: true, skipping: true,
}

// newSwarm draws the configuration of a seed.
func newSwarm(seed uint64) *swarm {
	d := dice{seed, "swarm"}
	s := &swarm{
		seed:        seed,
		hours:       time.Duration(d.between("hours", 2, 4)) * time.Hour,
		hosts:       one(d, "hosts", 2, 2, 3, 3, 4, 5),
		ranges:      d.between("ranges", 4, 16),
		most:        20,
		keys:        d.between("keys", 8, 60),
		documents:   d.between("documents", 1, 8),
		deadLetters: d.chance("dead letters", 0.6),
		writes:      one(d, "writes", 30, 30, 100, 300, 1000),
		splitting:   one(d, "splitting", 0, 0, 3*time.Second, 40*time.Second),
		leaseKey:    one(d, "lease key", "/id", "/partitionKey"),
		// Backoffs of the client have random jitter: a nanosecond is the longest
		// without any. Without retries it is the runtime that repeats.
		retry: policy.RetryOptions{
			MaxRetries: one(d, "retries", int32(-1), 2, 9), RetryDelay: 1, MaxRetryDelay: 1,
		},
		rates:   map[class]float64{},
		applied: map[string]bool{},
		burst:   map[history.Ref]bool{},
	}
	s.drawPoisonKeys(d)
	s.drawSettings(d)
	if d.chance("ticks", 0.25) {
		s.tick, s.drain = time.Minute+19, one(d, "drain", 48*time.Second+23, 270*time.Second+23)
		s.fanout = d.chance("fanout", 0.5)
	}
	gentle := d.chance("gentle", 0.15)
	few := map[class]bool{}
	if d.chance("few", 0.25) {
		// Some transitions are judged only on a host that no other fault affects.
		for _, q := range []string{"first of few", "second of few", "third of few"} {
			few[menu[d.pick(q, len(menu))].class] = true
		}
	}
	for _, m := range menu {
		q := string(m.class)
		if d.chance(q+" on", 0.4) && len(few) == 0 && (!gentle || mild[m.class]) || few[m.class] {
			s.rates[m.class] = one(d, q+" rate", m.rates...)
		}
	}
	if d.chance("operator", 0.35) {
		for _, m := range operations {
			s.rates[m.class] = one(d, string(m.class)+" rate", m.rates...)
		}
	}
	if d.chance("foreign", 0.25) {
		s.rates[foreign] = one(d, "foreign rate", foreignRates...)
	}
	if d.chance("postponing", 0.5) {
		s.rates[postponing] = one(d, "postponing rate", postponingRates...)
	}
	if d.chance("answering", 0.6) {
		s.rates[answering] = one(d, "answering rate", answeringRates...)
	}
	s.bulks, s.deletes = d.chance("bulks", 0.5), d.chance("deletes", 0.5)
	s.buffers = s.function.Checkpoint.Manual && d.chance("buffers", 0.7)
	if d.chance("only poison", 0.06) {
		s.drawPoison(d)
	}
	if s.neighbours = d.chance("shared LSNs", 0.1); s.neighbours { // none of the past failures
		s.ranges = 1
	}
	if d.chance("letters as documents 166709", 0.3) { // none of the past failures
		s.letterKey, s.letterWindow = one(d, "letter key", "/id", "/function"), one(d, "letter window", 0, 5, 2)
	}
	s.companion = !s.quick // the delays of a quick run are judged from the reads of its function
	return s
}

// drawPoison makes a run of busy ranges in which nothing fails but single changes,
// so that the delays of the others show.
func (s *swarm) drawPoison(d dice) {
	s.quick, s.deadLetters, s.tick, s.hours = true, true, 0, 2*time.Hour
	s.ranges, s.writes = d.between("poisoned ranges", 1, 3), one(d, "poisoned writes", 1000, 3000, 6000)
	s.keys, s.documents = 60, max(s.documents, 4)
	s.rates = map[class]float64{poison: one(d, "poison rate", 0.002, 0.01), poisonKey: one(d, "poisoned keys", 0, 0, 0.02)}
	f := &s.function
	f.NoBisection, f.RetryMaxAge, f.BreakerLimit, f.LanesByID = false, 0, -1, false
	f.MaxAttempts, f.MaxAhead = max(f.MaxAttempts, 0), one(d, "poisoned ahead", 0, 0, 5, 50)
	f.FeedPollDelay, s.options.FeedPollDelay = 0, 0
	f.Rate, f.ReadRequestUnits, f.FeedPollMin = 0, 0, 0
	f.Filter, f.BatchBytes, f.RetryMin, f.RetryMax, s.options.ReadAhead = nil, 0, 0, 0, 0
}

// dice returns the dice of one event, named by id, in this run.
func (s *swarm) dice(id string) dice { return dice{s.seed, id} }

// hostOptions returns the swarm's options. Each time gets a different number of nanoseconds:
// if one event ended at the instant at which another begins, their order would be a race
// inside a host.
func (s *swarm) hostOptions(owner string, log *slog.Logger) *trigger.Options {
	o := s.options.WithDefaults()
	o.Owner, o.Logger = owner, log
	o.FeedPollDelay += 13
	o.LeaseAcquireInterval += 103
	o.LeaseRenewInterval += 211
	o.LeaseExpirationInterval += 307
	o.AuditInterval += 401
	o.StopGrace += 503
	o.StuckGrace += 601
	return &o
}

// limits returns the options that the checker needs.
func (s *swarm) limits() history.Limits {
	o := s.options.WithDefaults()
	l := history.Limits{
		Expiration:      o.LeaseExpirationInterval,
		AcquireInterval: o.LeaseAcquireInterval,
		RenewInterval:   o.LeaseRenewInterval,
		Drains:          s.tick > 0,
		StopGrace:       o.StopGrace,
		StuckGrace:      o.StuckGrace,
		Poll:            cmp.Or(s.function.FeedPollDelay, o.FeedPollDelay),
		MaxAhead:        cmp.Or(s.function.MaxAhead, 1000),
	}
	l.Window = l.MaxAhead + s.pageSize()
	l.LanesByID = s.function.LanesByID
	l.Rate, l.ReadUnits = s.function.Rate, s.function.ReadRequestUnits
	page := s.pageSize() // documents of less than 1 KB cost a unit each
	l.RateAhead, l.ReadAhead = s.most*cmp.Or(s.function.MaxItemsPerInvocation, 100), float64(s.most*page)
	if l.ReadUnits > 0 {
		l.ReadWait = time.Duration(2*l.ReadAhead/l.ReadUnits) * time.Second
	}
	if s.companion { // each of the two functions may spend as much
		l.ReadUnits, l.ReadAhead = 2*l.ReadUnits, 2*l.ReadAhead
	}
	if s.function.Checkpoint.Manual { // a release saves only the positions that the handler has requested
		l.Requests, l.SilentRequests = true, !s.buffers
	}
	if s.deadLetters && s.function.MaxAttempts >= 0 {
		l.Attempts = cmp.Or(s.function.MaxAttempts, 10)
		l.AttemptsVary = s.function.RetryMaxAge > 0 || s.rates[skipping]+s.rates[answering]+s.rates[deadly]+s.rates[hanging]+s.rates[outliving] > 0
	}
	l.Halves = !s.function.NoBisection
	if s.quick {
		l.Poison = history.Poison{
			Call: quickest, RetryMin: cmp.Or(s.function.RetryMin, 100*time.Millisecond), RetryMax: cmp.Or(s.function.RetryMax, 30*time.Second),
			BatchItems: cmp.Or(s.function.MaxItemsPerInvocation, 100), BatchWindow: s.function.BatchWindow,
			IsPresent: s.rates[poison]+s.rates[poisonKey] > 0, IsAheadShort: s.function.MaxAhead > 0,
		}
	}
	return l
}

// fault returns the name of one fault of a run.
func fault(c class, id string) string { return string(c) + " " + id }

// allows reports whether a fault may occur in this run. If it does, it is one line
// of the fault list.
func (s *swarm) allows(c class, id string) bool {
	return s.only == nil || s.only[fault(c, id)]
}

// happened records a fault. The caller holds the world's lock.
func (s *swarm) happened(c class, id string) { s.applied[fault(c, id)] = true }

// planned returns the times of a class of the world's faults.
func (s *swarm) planned(c class) map[string]time.Duration {
	plan := map[string]time.Duration{}
	d := s.dice("plan/" + string(c))
	n := s.rates[c] * s.hours.Hours()
	whole := int(n)
	if d.chance("one more", n-float64(whole)) {
		whole++
	}
	for i := range whole {
		id := strconv.Itoa(i)
		if s.allows(c, id) {
			plan[id] = time.Minute + d.moment(id, s.hours-time.Minute)
		}
	}
	return plan
}

// callClasses in the order in which a share of 1 is divided among them.
var callClasses = []class{failing, panicking, hanging, outliving, slow, keeping, partly, skipping, postponing, answering}

// decideCall decides the end of a handler call.
func (s *swarm) decideCall(d dice, changes []history.Event, attempt int, down, calm bool) class {
	switch {
	case calm && !s.incurable:
		return ""
	case down:
		return sinkDown
	}
	for _, c := range changes {
		if s.poisonous(c) && (s.deadLetters || attempt <= s.dice(c.Key).between("attempts", 1, 9)) && s.allows(poison, d.id) {
			return poison
		}
	}
	if calm {
		return ""
	}
	for _, c := range changes {
		if s.dice("deadly/"+c.Key+"/"+strconv.FormatInt(c.Seq, 10)).chance("is", s.rates[deadly]) && s.allows(deadly, d.id) {
			return deadly
		}
	}
	u := d.share("fate")
	for _, c := range callClasses {
		if rate := s.rates[c]; u >= rate {
			u -= rate
			continue
		}
		if !s.allows(c, d.id) || c == skipping && !s.deadLetters { // without a store, the range would wait for ever
			return ""
		}
		return c
	}
	return ""
}

// pageSize returns the number of changes that a page has at most if it has not grown; of one that
// has, no more are taken in beyond MaxAhead. It holds all changes of its last LSN, which are more
// than one if they are of a bulk request.
func (s *swarm) pageSize() int {
	size := cmp.Or(s.function.PageItems, 100)
	if s.bulks {
		size += largestBulk - 1
	}
	return size
}

func (s *swarm) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %s with faults, %d hosts, %d ranges, %d writes/h to %d keys × %d documents, start %s, page items %d, poll %s, retries %d, leases by %s, splitting %s, lanes %d, ahead %d, batches of %d within %s, attempts %d, age %s, checkpoint %+v",
		s.seed, s.hours, s.hosts, s.ranges, s.writes, s.keys, s.documents, s.function.StartFrom, s.function.PageItems, s.options.FeedPollDelay, s.retry.MaxRetries, s.leaseKey, s.splitting,
		s.function.Lanes, s.function.MaxAhead, s.function.MaxItemsPerInvocation, s.function.BatchWindow, s.function.MaxAttempts, s.function.RetryMaxAge, s.function.Checkpoint)
	if s.options.LeaseExpirationInterval > 0 {
		fmt.Fprintf(&b, ", expiration %s, grace %s", s.options.LeaseExpirationInterval.Round(time.Millisecond), s.options.StopGrace.Round(time.Millisecond))
	}
	if s.bulks {
		b.WriteString(", bulk requests")
	}
	if s.neighbours {
		b.WriteString(", all containers in one database with shared throughput")
	}
	if s.deletes {
		b.WriteString(", deletes")
	}
	fmt.Fprintf(&b, ", manners %+v", s.manners)
	if len(s.function.Filter) > 0 {
		fmt.Fprintf(&b, ", filter %s", s.function.Filter)
	}
	if s.function.Rate+s.function.ReadRequestUnits > 0 {
		fmt.Fprintf(&b, ", at most %g changes and %g units a second", s.function.Rate, s.function.ReadRequestUnits)
	}
	if s.tick > 0 {
		fmt.Fprintf(&b, ", drains of %s", s.drain.Round(time.Second))
		if s.fanout {
			b.WriteString(" for messages")
		}
	}
	if s.deadLetters && s.letterKey != "" {
		fmt.Fprintf(&b, ", letters by %s in windows of %d", s.letterKey, s.letterWindow)
	}
	for word, on := range map[string]bool{
		", companion": s.companion, ", a sink that buffers": s.buffers, ", quick": s.quick, ", dead letters": s.deadLetters, ", blocked keys": s.function.BlockKeys, ", lanes by id": s.function.LanesByID, ", no bisection": s.function.NoBisection,
	} {
		if on {
			b.WriteString(word)
		}
	}
	b.WriteString("; faults:")
	for _, c := range slices.Sorted(maps.Keys(s.rates)) {
		fmt.Fprintf(&b, " %s %g,", c, s.rates[c])
	}
	return strings.TrimSuffix(b.String(), ",")
}
