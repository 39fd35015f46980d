// Package verify proves on an account which facts about the service hold there that Halley
// relies on. The facts are one table; each has a probe, which sends a few requests to
// scratch containers. An end-to-end part follows, with hosts in this process.
package verify

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"halley/trigger/cosmos"
)

// facts are all facts in the order in which they are tried.
func facts() []fact {
	var all []fact
	for _, group := range [][]fact{containerFacts(), feedFacts(), versionFacts(), documentFacts(), endFacts()} {
		all = append(all, group...)
	}
	return all
}

// Run verifies the account. The report holds what was seen also if the run has ended early;
// the error says why.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Create {
		o.Database, o.Items, o.Leases = cmp.Or(o.Database, o.Run), o.Run+"-items", o.Run+"-leases"
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &session{
		options: o, client: o.Client, meter: o.Meter, run: o.Run,
		scratch: &scratch{client: o.Client, meter: o.Meter, run: o.Run, database: o.Database, items: o.Items, leases: o.Leases},
	}
	s.items, s.leases = o.Client.Container(o.Database, o.Items), o.Client.Container(o.Database, o.Leases)
	report := &Report{names: newNames(o.Client.Endpoint(), s.scratch)}
	err := s.prepare(ctx, report, cancel)
	if err == nil {
		err = s.tryFacts(ctx, report)
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	report.exchanges = o.Meter.recorded()
	s.finish(ctx, report)
	report.Charged = o.Meter.charged()
	report.judge(err)
	return report, err
}

// prepare says the price, creates or checks the containers, and finds the range of the
// run's partition key.
func (s *session) prepare(ctx context.Context, report *Report, cancel context.CancelCauseFunc) error {
	limit := s.options.Limit
	if limit == 0 {
		limit = DefaultLimit
		if s.options.Throttle {
			limit += throttleCost
		}
		if s.options.Split {
			limit += 2 * splitCost
		}
	}
	if s.options.Create {
		report.Estimated = s.estimate(1)
		if err := s.announce(report.Estimated, limit); err != nil {
			return err
		}
	}
	s.meter.begin(limit, s.options.Record, cancel)
	if s.options.Create {
		if err := s.scratch.create(ctx); err != nil {
			return err
		}
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	if !s.options.Create {
		report.Estimated = s.estimate(len(s.ranges))
		if err := s.announce(report.Estimated, limit); err != nil {
			return err
		}
	}
	return s.findHome(ctx)
}

// setupCost is what a run costs before its first fact, in request units: the containers,
// the search for data, and a document.
const setupCost = 4*costRead + costCreate + 4*costManage

// estimate returns the price of all facts that will be tried, in request units.
func (s *session) estimate(ranges int) float64 {
	total := setupCost
	for _, f := range facts() {
		if s.missing(f) == nil {
			total += f.cost.fixed + float64(ranges)*f.cost.perRange
		}
	}
	if s.mustDelete() {
		total += (endWrites + factDocuments) * costDelete
	}
	return total
}

// factDocuments is about how many documents the facts leave in the scratch containers,
// besides those of the end-to-end part.
const factDocuments = 20

// mustDelete reports whether documents of the monitored container are deleted one by one
// at the end. If the container has a time to live, they expire instead.
func (s *session) mustDelete() bool { return !s.options.Create && s.properties.DefaultTTL == nil }

func (s *session) announce(estimate, limit float64) error {
	fmt.Fprintf(s.options.Progress, "This run costs about %.0f RU, and ends at %.0f RU.\n", estimate, limit)
	if s.options.Split {
		fmt.Fprintf(s.options.Progress, "It raises the throughput of a container of its own to %d RU/s until its range has split, which the account pays by the hour.\n", splitThroughput)
	}
	if estimate > limit {
		return fmt.Errorf("the run would cost about %.0f RU, and may cost %.0f: give --limit, or let it create containers with --create", estimate, limit)
	}
	return nil
}

// check reads the containers, and refuses those that the run must not use.
func (s *session) check(ctx context.Context) (err error) {
	if s.properties, err = s.items.Properties(ctx); err != nil {
		return fmt.Errorf("monitored container: %w", err)
	}
	leases, err := s.leases.Properties(ctx)
	if err != nil {
		return fmt.Errorf("lease container: %w", err)
	}
	paths := s.properties.PartitionKey.Paths
	if len(paths) != 1 || strings.Count(paths[0], "/") != 1 || paths[0] == "/id" {
		return fmt.Errorf("the partition key of %s is %s: give a scratch container whose key is one property at the first level, such as /pk", s.items.Name(), strings.Join(paths, ", "))
	}
	s.key = strings.TrimPrefix(paths[0], "/")
	if got := strings.Join(leases.PartitionKey.Paths, ", "); got != "/id" && got != "/partitionKey" {
		return fmt.Errorf("the partition key of %s is %s: give a lease container whose key is /id", s.leases.Name(), got)
	}
	if s.ranges, err = s.items.Ranges(ctx); err != nil {
		return err
	}
	return s.refuseData(ctx)
}

// refuseData refuses containers that hold documents, unless the user knows that they do.
func (s *session) refuseData(ctx context.Context) error {
	if s.options.Create || s.options.DataIsKnown {
		return nil
	}
	for _, c := range []*cosmos.Container{s.items, s.leases} {
		ranges, err := c.Ranges(ctx)
		if err != nil {
			return err
		}
		for _, r := range ranges {
			p, err := c.ReadFeed(ctx, cosmos.FeedRequest{Range: r, MaxItems: 1})
			if err != nil {
				return err
			}
			found := len(p.Items)
			p.Release()
			if found > 0 {
				return fmt.Errorf("container %s holds data: give scratch containers, or --i-know-it-has-data; the run would delete none of it", c.Name())
			}
		}
	}
	return nil
}

// findHome writes a first document, which says whether the key may write, and in which
// range the documents of the run are.
func (s *session) findHome(ctx context.Context) error {
	s.home = s.ranges[0]
	w, err := s.create(ctx)
	if status, _ := cosmos.Status(err); status == http.StatusForbidden {
		s.readOnly = true
		fmt.Fprintln(s.options.Progress, "The key may only read: the facts that need writes are not verified.")
		return nil
	}
	if err != nil {
		return fmt.Errorf("write a first document: %w", err)
	}
	s.first = w
	id, _, _ := strings.Cut(w.resp.SessionToken, ":")
	for _, r := range s.ranges {
		if r.ID == id {
			s.home = r
			return nil
		}
	}
	if len(s.ranges) > 1 {
		return fmt.Errorf("the session token %q of a write names no range of the container", w.resp.SessionToken)
	}
	return nil
}

// missing returns why a fact cannot be tried, or nil.
func (s *session) missing(f fact) error {
	switch {
	case f.needs&needWrites != 0 && s.readOnly:
		return unverified("the key may only read")
	case f.needs&needThrottle != 0 && !s.options.Throttle:
		return unverified("needs --throttle")
	case f.needs&needSplit != 0 && !s.options.Split:
		return unverified("needs --split")
	case f.needs&needCreate != 0 && !s.options.Create:
		return unverified("needs --create")
	case s.key == "": // before the containers are read
		return nil
	case f.needs&needTTL != 0 && s.properties.DefaultTTL == nil:
		return unverified("the monitored container has no default time to live")
	case f.needs&needVersions != 0 && s.properties.Retention == 0:
		return unverified("the monitored container does not keep all versions; its account needs continuous backups")
	}
	return nil
}

// tryFacts tries all facts. Its error has ended the run; the report then has the facts
// that came before.
func (s *session) tryFacts(ctx context.Context, report *Report) error {
	for _, f := range facts() {
		charged := s.meter.charged()
		seen, err := "", s.missing(f)
		if err == nil {
			fmt.Fprintf(s.options.Progress, "%4.0f RU  %s\n", charged, f.name)
			seen, err = f.probe(context.WithValue(ctx, factKey, f.name), s)
		}
		row, err := f.row(seen, err, s.meter.wasCut())
		if err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		row.Charge = s.meter.charged() - charged
		report.Rows = append(report.Rows, row)
	}
	return nil
}

// finish deletes what the run has created.
func (s *session) finish(ctx context.Context, report *Report) {
	if s.readOnly && !s.options.Create {
		return
	}
	if !s.options.Create && s.properties.DefaultTTL != nil {
		s.meter.forget(s.scratch.items)
		fmt.Fprintf(s.options.Progress, "The documents in %s expire within %v.\n", s.scratch.items, leftoverLife)
	}
	if err := s.scratch.cleanup(ctx); err != nil {
		report.LeftOver = s.scratch.byHand()
	}
}

// NewRun returns the id of a run that begins now; random makes it its own.
func NewRun(random string) string {
	return "halley-verify-" + strings.ToLower(random[:min(len(random), 8)]) + time.Now().UTC().Format("-0102")
}
