package simulation

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"halley/tests/history"
	"halley/trigger"
	"halley/trigger/cosmos"
	"halley/trigger/emulator"
)

// setting is a field of trigger.Function or trigger.Options, or several that depend on each
// other, and the values from which a seed chooses.
type setting struct {
	fields string
	draw   func(s *swarm, d dice)
}

// functionSettings are those of the function.
//
// The shortest window is a nanosecond: when it ends, all goroutines have added their changes.
var functionSettings = []setting{
	{"LeasePrefix", func(s *swarm, d dice) {
		s.function.LeasePrefix = one(d, "lease prefix", "", "", "elsewhere", trigger.NoLeasePrefix)
	}},
	{"SoftDeleteProperty", func(s *swarm, d dice) { s.function.SoftDeleteProperty = one(d, "soft delete", "", "", "gone") }},
	{"Filter", func(s *swarm, d dice) {
		s.function.Filter = one(d, "filter", nil, nil, trigger.Filter{`{"noise":[{"exists":false}]}`}, trigger.Filter{`{"seq":[{"numeric":[">",0]}]}`, `{"seq":["none"]}`})
	}},
	{"StartFrom", func(s *swarm, d dice) {
		s.function.StartFrom = one(d, "start", trigger.FromBeginning(), trigger.FromBeginning(), trigger.FromNow())
	}},
	{"ReuseBuffers", func(s *swarm, d dice) { s.function.ReuseBuffers = d.chance("reuse buffers", 0.4) }},
	{"PageItems MaxItemsPerInvocation", func(s *swarm, d dice) {
		sizes := one(d, "sizes", [2]int{0, 0}, [2]int{1, 1}, [2]int{1, 5}, [2]int{3, 1}, [2]int{3, 60}, [2]int{20, 80})
		s.function.PageItems, s.function.MaxItemsPerInvocation = sizes[0], sizes[1]
		if d.chance("growing pages", 0.3) {
			s.function.PageItems = 0
		}
	}},
	{"BatchBytes", func(s *swarm, d dice) { s.function.BatchBytes = one(d, "batch bytes", 0, 0, 0, 1, 1<<20) }},
	{"HandlerTimeout", func(s *swarm, d dice) {
		s.function.HandlerTimeout = one(d, "handler timeout", 5*time.Minute+701, 20*time.Second+701, 90*time.Second+701)
	}},
	{"BatchWindow", func(s *swarm, d dice) {
		s.function.BatchWindow = one(d, "batch window", 1, 1, 200*time.Millisecond+907, 30*time.Second+907)
	}},
	{"Lanes", func(s *swarm, d dice) { s.function.Lanes = one(d, "lanes", 1, 1, 2, 8) }},
	{"LanesByID", func(s *swarm, d dice) {
		if s.function.LanesByID = d.chance("lanes by id", 0.2); s.function.LanesByID {
			s.documents = 1 // then the order of a document is that of its key
		}
		s.function.LanesByID = s.function.LanesByID && s.function.Lanes > 1
	}},
	{"RetryMin RetryMax", func(s *swarm, d dice) {
		s.function.RetryMin = one(d, "retry min", 0, 0, 0, 20*time.Millisecond+3, 2*time.Second+5)
		s.function.RetryMax = one(d, "retry max", 0, 0, 0, 5*time.Second+7, 2*time.Minute+7)
	}},
	{"NoBisection", func(s *swarm, d dice) { s.function.NoBisection = d.chance("no bisection", 0.3) }},
	{"MaxAttempts", func(s *swarm, d dice) {
		if s.function.MaxAttempts = one(d, "attempts", 0, 0, 1, 3, -1); !s.deadLetters {
			s.function.MaxAttempts = 0 // nothing is given up
		}
	}},
	{"RetryMaxAge", func(s *swarm, d dice) {
		if s.function.RetryMaxAge = one(d, "age", 0, 0, 2*time.Minute+809); !s.deadLetters {
			s.function.RetryMaxAge = 0
		}
	}},
	{"MaxAhead", func(s *swarm, d dice) { s.function.MaxAhead = one(d, "ahead", 0, 0, 0, 5, 50) }},
	{"BlockKeys", func(s *swarm, d dice) {
		s.function.BlockKeys = d.chance("park keys", 0.3) && s.deadLetters && s.documents > 1
	}},
	{"BreakerLimit", func(s *swarm, d dice) { s.function.BreakerLimit = one(d, "breaker", 0, 0, 2, -1) }},
	{"BreakerPause", func(s *swarm, d dice) {
		s.function.BreakerPause = one(d, "breaker pause", 0, 0, 5*time.Second+11, 2*time.Minute+11)
	}},
	{"StallAfter", func(s *swarm, d dice) { s.function.StallAfter = one(d, "stall after", 0, 0, 20*time.Second+17) }},
	{"Checkpoint", func(s *swarm, d dice) {
		s.function.Checkpoint = one(d, "checkpoint", trigger.Checkpoint{}, trigger.Checkpoint{}, trigger.Checkpoint{Interval: trigger.EachBatch},
			trigger.Checkpoint{Every: 10}, trigger.Checkpoint{Interval: 20*time.Second + 1009}, trigger.Checkpoint{Every: 7, Interval: time.Second + 1013},
			trigger.Checkpoint{Manual: true}, trigger.Checkpoint{Manual: true}, trigger.Checkpoint{Manual: true})
	}},
	{"FeedPollDelay", func(s *swarm, d dice) { s.function.FeedPollDelay = one(d, "own poll", 0, 0, 0, 7*time.Second+29) }},
	{"FeedPollMin", func(s *swarm, d dice) {
		s.function.FeedPollMin = one(d, "poll min", 0, 0, 0, time.Second+17, 4*time.Second+19)
	}},
	{"Rate", func(s *swarm, d dice) {
		if d.chance("rate limit", 0.15) {
			s.function.Rate = one(d, "rate", 2.0, 5, 20)
		}
	}},
	{"ReadRequestUnits", func(s *swarm, d dice) {
		if d.chance("read limit", 0.15) {
			s.function.ReadRequestUnits = one(d, "read units", 5.0, 20)
		}
	}},
}

// optionSettings are those of the hosts. Zero is the default.
var optionSettings = []setting{
	{"FeedPollDelay", func(s *swarm, d dice) {
		s.options.FeedPollDelay = one(d, "poll", 0, 15*time.Second, 30*time.Second, 45*time.Second)
	}},
	{"LeaseExpirationInterval LeaseAcquireInterval LeaseRenewInterval StopGrace", func(s *swarm, d dice) {
		if d.chance("own intervals", 0.7) {
			o := &s.options
			o.LeaseExpirationInterval = d.duration("expiration", 40*time.Second, 4*time.Minute)
			o.LeaseAcquireInterval, o.LeaseRenewInterval = o.LeaseExpirationInterval/3, o.LeaseExpirationInterval/3
			o.StopGrace = d.duration("grace", time.Second, 30*time.Second)
		}
	}},
	{"AuditInterval", func(s *swarm, d dice) { s.options.AuditInterval = one(d, "audit", 0, 0, 100*time.Second) }},
	{"StuckGrace", func(s *swarm, d dice) {
		s.options.StuckGrace = one(d, "stuck grace", 0, 0, 3*time.Second, 25*time.Second)
	}},
	{"MaxStuck", func(s *swarm, d dice) { s.options.MaxStuck = one(d, "stuck", 0, 0, 2) }},
	{"MinLeases MaxLeases", func(s *swarm, d dice) {
		s.options.MinLeases, s.options.MaxLeases = one(d, "least leases", 0, 0, 0, 1), one(d, "most leases", 0, 0, s.most)
	}},
	{"ReadAhead", func(s *swarm, d dice) { s.options.ReadAhead = one(d, "read ahead", int64(0), 0, 64<<10) }},
	{"Parallel", func(s *swarm, d dice) { s.options.Parallel = one(d, "parallel", 0, 0, 4) }},
}

// mannerSettings are the answers of the account on which a seed decides, see
// [emulator.Manners].
var mannerSettings = []setting{
	{"CutBelowNext", func(s *swarm, d dice) { s.manners.CutBelowNext = d.chance("cut below next", 0.5) }},
	{"FullAsCut", func(s *swarm, d dice) { s.manners.FullAsCut = d.chance("full as cut", 0.5) }},
	{"IdleKeepsETag", func(s *swarm, d dice) { s.manners.IdleKeepsETag = d.chance("idle keeps etag", 0.3) }},
	{"OwnLSNs", func(s *swarm, d dice) { s.manners.OwnLSNs = d.chance("own lsns", 0.5) }},
	{"EmptyPages", func(s *swarm, d dice) { s.manners.EmptyPages = d.chance("empty pages", 0.2) }},
}

// hookSettings are functions that a host calls; a process has them or not.
var hookSettings = []string{"Opened", "Flush", "Closed", "Observers"}

// fixedSettings are the fields that no seed chooses, with the reason.
var fixedSettings = map[string]string{
	"Function.Name":           "identifies the function in requests",
	"Function.Container":      "is the client of the process",
	"Function.Handler":        "is the simulation's",
	"Function.DeadLetters":    "is a store of the simulation, in eight runs of ten",
	"Function.ChangeFeedMode": "all versions need a container whose ranges never merge",
	"Function.ResetLeases":    "is for a host that is alone",
	"Function.SnapshotRead":   "ends the snapshot of a function in all-versions mode",
	"Function.LostPosition":   "is for an account with several regions, see tests/failovers",
	"Options.AppName":         "is a name that hosts tell",
	"Options.Owner":           "identifies the process in requests",
	"Options.Logger":          "is the one of --hosts",

	"Manners.RefuseAhead":          "positions are ahead of a feed only after a failover",
	"Manners.HideCommitted":        "the simulated account has one region",
	"Manners.FailoverKeepsVersion": "the simulated account has one region",
	"Manners.FailoverSkipsLSNs":    "the simulated account has one region",
}

// drawSettings chooses a value for each setting.
func (s *swarm) drawSettings(d dice) {
	s.function.Name = processor
	for _, setting := range slices.Concat(functionSettings, optionSettings, mannerSettings) {
		setting.draw(s, d)
	}
}

// hooks adds the functions that the host calls.
func (p *process) hooks(f *trigger.Function, o *trigger.Options) {
	d := p.w.swarm.dice("hooks")
	if d.chance("opened", 0.5) {
		f.Opened = func(_ context.Context, r trigger.RangeInfo) { p.opens(r, 1) }
		f.Closed = func(r trigger.RangeInfo, _ trigger.CloseReason, _ error) { p.opens(r, -1) }
	}
	if f.Checkpoint.Manual && d.chance("flush", 0.6) {
		f.Flush, p.flushes = p.flush, true
	}
	if d.chance("observers", 0.5) {
		o.Observers = []func(trigger.Event){p.observe}
	}
}

// hooked is the promise about the callbacks of a function.
const hooked history.Rule = "callbacks"

// opens counts the ranges on which a host works. Each is opened and closed in turn.
func (p *process) opens(r trigger.RangeInfo, change int) {
	p.w.used("Opened", max(change, 0))
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	if p.opened[r.Range.ID] += change; p.opened[r.Range.ID] < 0 || p.opened[r.Range.ID] > 1 {
		p.w.violate(hooked, "%s has opened range %s %d times", p.name, r.Range.ID, p.opened[r.Range.ID])
	}
}

// observe checks that an event names its function.
func (p *process) observe(e trigger.Event) {
	if e.Function != processor && e.Function != companion {
		p.w.mu.Lock()
		defer p.w.mu.Unlock()
		p.w.violate(hooked, "an event of kind %v on %s is of function %q", e.Kind, p.name, e.Function)
	}
}

// violate records a violation that a goroutine of a host has found. The caller holds w.mu.
func (w *world) violate(rule history.Rule, format string, args ...any) {
	w.found = append(w.found, history.Violation{Rule: rule, Text: fmt.Sprintf(format, args...)})
}

// TestEverySettingIsDrawn: a seed chooses every field of Function, Options and Manners, unless there
// is a reason, and no choice is a constant.
func TestEverySettingIsDrawn(t *testing.T) {
	values := map[string]map[string]bool{}
	for seed := range uint64(200) {
		s := newSwarm(seed)
		for name, v := range map[string]reflect.Value{"Function": reflect.ValueOf(s.function), "Options": reflect.ValueOf(s.options), "Manners": reflect.ValueOf(s.manners)} {
			for _, f := range reflect.VisibleFields(v.Type()) {
				if f.Anonymous { // its fields are visible, too
					continue
				}
				field := name + "." + f.Name
				if values[field] == nil {
					values[field] = map[string]bool{}
				}
				values[field][fmt.Sprintf("%+v", v.FieldByIndex(f.Index))] = true
			}
		}
	}
	drawn := map[string]bool{}
	for name, table := range map[string][]setting{"Function.": functionSettings, "Options.": optionSettings, "Manners.": mannerSettings} {
		for _, setting := range table {
			for _, field := range strings.Fields(setting.fields) {
				drawn[name+field] = true
			}
		}
	}
	for _, hook := range hookSettings {
		for _, field := range []string{"Function." + hook, "Options." + hook} {
			drawn[field] = values[field] != nil
		}
	}
	for field, list := range values {
		_, fixed := fixedSettings[field]
		isHook := slices.Contains(hookSettings, field[strings.IndexByte(field, '.')+1:])
		switch {
		case fixed == drawn[field]:
			t.Errorf("%s: drawn %v, and among the settings that are not drawn %v", field, drawn[field], fixed)
		case drawn[field] && !isHook && len(list) < 2:
			t.Errorf("%s is always %v", field, list)
		}
	}
	for field := range fixedSettings {
		if values[field] == nil {
			t.Errorf("there is no field %s", field)
		}
	}
}

// refusals of Validate: changes of valid settings, and the field that must be named.
var settingRefusals = []struct {
	field  string
	change func(f *trigger.Function, o *trigger.Options)
}{
	{"LeasePrefix", func(f *trigger.Function, _ *trigger.Options) { f.LeasePrefix = "a/b" }},
	{"StartFrom", func(f *trigger.Function, _ *trigger.Options) {
		f.ChangeFeedMode, f.StartFrom = cosmos.ModeAllVersions, trigger.FromBeginning()
	}},
	{"StartFrom", func(f *trigger.Function, _ *trigger.Options) { f.StartFrom = trigger.FromContinuation("") }},
	{"SoftDeleteProperty", func(f *trigger.Function, _ *trigger.Options) {
		f.ChangeFeedMode, f.StartFrom, f.SoftDeleteProperty = cosmos.ModeAllVersions, trigger.FromNow(), "gone"
	}},
	{"Filter", func(f *trigger.Function, _ *trigger.Options) { f.Filter = trigger.Filter{`{"noise":1}`} }},
	{"FeedPollMin", func(f *trigger.Function, _ *trigger.Options) {
		f.FeedPollDelay, f.FeedPollMin = time.Second, 2*time.Second
	}},
	{"LanesByID", func(f *trigger.Function, _ *trigger.Options) { f.Lanes, f.LanesByID = 1, true }},
	{"RetryMin", func(f *trigger.Function, _ *trigger.Options) { f.RetryMin, f.RetryMax = time.Minute, time.Second }},
	{"MaxAttempts", func(f *trigger.Function, _ *trigger.Options) { f.MaxAttempts = -2 }},
	{"MaxAttempts", func(f *trigger.Function, _ *trigger.Options) {
		f.DeadLetters, f.MaxAttempts, f.BlockKeys = nil, 3, false
	}},
	{"RetryMaxAge", func(f *trigger.Function, _ *trigger.Options) { f.DeadLetters, f.RetryMaxAge = nil, time.Minute }},
	{"BlockKeys", func(f *trigger.Function, _ *trigger.Options) { f.DeadLetters, f.BlockKeys = nil, true }},
	{"BlockKeys", func(f *trigger.Function, _ *trigger.Options) { f.Lanes, f.LanesByID, f.BlockKeys = 2, true, true }},
	{"Checkpoint.Manual", func(f *trigger.Function, _ *trigger.Options) {
		f.Checkpoint = trigger.Checkpoint{Manual: true, Every: 3}
	}},
	{"Flush", func(f *trigger.Function, _ *trigger.Options) {
		f.Checkpoint, f.Flush = trigger.Checkpoint{}, func(context.Context, trigger.RangeInfo) error { return nil }
	}},
	{"Checkpoint.Every", func(f *trigger.Function, _ *trigger.Options) {
		f.Checkpoint = trigger.Checkpoint{Every: 3, Interval: trigger.EachBatch}
	}},
	{"Rate", func(f *trigger.Function, _ *trigger.Options) { f.Rate = -1 }},
	{"ReadRequestUnits", func(f *trigger.Function, _ *trigger.Options) { f.ReadRequestUnits = -1 }},
	{"LeaseRenewInterval", func(_ *trigger.Function, o *trigger.Options) { o.LeaseRenewInterval = o.LeaseExpirationInterval / 2 }},
	{"LeaseAcquireInterval", func(_ *trigger.Function, o *trigger.Options) { o.LeaseAcquireInterval = o.LeaseExpirationInterval }},
	{"MinLeases", func(_ *trigger.Function, o *trigger.Options) { o.MinLeases, o.MaxLeases = 3, 2 }},
	{"MaxStuck", func(_ *trigger.Function, o *trigger.Options) { o.MaxStuck = -1 }},
}

// TestRefusedSettings: whatever else a seed has chosen, settings that cannot work together
// are refused by their names, and all others are accepted.
func TestRefusedSettings(t *testing.T) {
	client := (&world{swarm: newSwarm(1), t: t, account: new(emulator.Account)}).client(&process{})
	for seed := range uint64(100) {
		s := newSwarm(seed)
		f, o := s.function, *s.hostOptions("h", nil)
		f.Container = client.Container(database, "items")
		f.Handler = func(context.Context, trigger.Batch) error { return nil }
		if s.deadLetters {
			f.DeadLetters = &store{}
		}
		if found := append(f.Validate(), o.Validate()...); len(found) > 0 {
			t.Errorf("seed %d: %v", seed, found)
		}
		for i, refusal := range settingRefusals {
			changedFunction, changedOptions := f, o
			refusal.change(&changedFunction, &changedOptions)
			found := append(changedFunction.Validate(), changedOptions.Validate()...)
			if !slices.ContainsFunc(found, func(p trigger.Problem) bool { return p.Field == refusal.field }) {
				t.Errorf("seed %d: refusal %d does not name %s: %v", seed, i, refusal.field, found)
			}
			if _, err := trigger.New(client.Container(database, "leases"), []trigger.Function{changedFunction}, &changedOptions); err == nil || !strings.Contains(err.Error(), refusal.field) {
				t.Errorf("seed %d: New says %v, and not %s", seed, err, refusal.field)
			}
		}
	}
}
