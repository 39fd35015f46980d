package trigger

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"halley/trigger/cosmos"
)

func TestInvalidOptionsAreRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		for _, test := range []struct {
			options Options
			want    string
		}{
			{Options{LeaseRenewInterval: time.Minute}, "options: LeaseRenewInterval=1m0s: must be less than half of LeaseExpirationInterval=1m0s"},
			{Options{LeaseRenewInterval: 10 * time.Second, LeaseExpirationInterval: 20 * time.Second}, "less than half of LeaseExpirationInterval"},
			{Options{LeaseExpirationInterval: 30 * time.Second}, "LeaseRenewInterval=17s"},
			{Options{LeaseExpirationInterval: 12 * time.Second, LeaseRenewInterval: time.Second}, "LeaseAcquireInterval=13s: must be less than LeaseExpirationInterval=12s"},
			{Options{LeaseRenewInterval: 99 * time.Millisecond}, "LeaseRenewInterval=99ms: must be at least 100ms"},
			{Options{FeedPollDelay: -1}, "FeedPollDelay=-1ns: must be above 0"},
			{Options{LeaseAcquireInterval: -time.Second}, "LeaseAcquireInterval=-1s"},
			{Options{MaxLeases: -1}, "MaxLeases=-1: must not be negative"},
			{Options{MinLeases: 5, MaxLeases: 4}, "MinLeases=5: must not be more than MaxLeases=4"},
			{Options{ReadAhead: -1}, "ReadAhead"},
		} {
			f := Function{FeedSource: FeedSource{Name: "f", Container: w.items}, Handler: w.recorder("a")}
			if _, err := New(w.leases, []Function{f}, &test.options); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want an error about %q", test.options, err, test.want)
			}
		}
	})
}

func TestInvalidFunctionsAreRefused(t *testing.T) {
	inWorld(t, 1, func(t *testing.T, w *world) {
		good := Function{FeedSource: FeedSource{Name: "a", Container: w.items}, Handler: w.recorder("a")}
		for want, change := range map[string]func(*Function){
			"cannot contain":                                              func(f *Function) { f.Name = "games/scores" },
			"Container: set":                                              func(f *Function) { f.Container = nil },
			"Handler: set":                                                func(f *Function) { f.Handler = nil },
			"Lanes=-1: must":                                              func(f *Function) { f.Lanes = -1 },
			"StallAfter=-1ns: must":                                       func(f *Function) { f.StallAfter = -1 },
			"Rate=-0.5: must be a number":                                 func(f *Function) { f.Rate = -0.5 },
			"Rate=NaN: must be a number":                                  func(f *Function) { f.Rate = math.NaN() },
			"ReadRequestUnits=+Inf: must":                                 func(f *Function) { f.ReadRequestUnits = math.Inf(1) },
			"FeedPollMin=-1ns: must be above 0":                           func(f *Function) { f.FeedPollMin = -1 },
			"not be more than FeedPollDelay=1s":                           func(f *Function) { f.FeedPollMin, f.FeedPollDelay = 2*time.Second, time.Second },
			"not be more than FeedPollDelay=5s":                           func(f *Function) { f.FeedPollMin = 6 * time.Second },
			"BreakerPause=-1ns: must":                                     func(f *Function) { f.BreakerPause = -1 },
			"MaxAttempts=-2":                                              func(f *Function) { f.MaxAttempts = -2 },
			"MaxAttempts=3: without a store":                              func(f *Function) { f.MaxAttempts = 3 },
			"RetryMaxAge=1h0m0s: without a store":                         func(f *Function) { f.RetryMaxAge = time.Hour },
			"LanesByID=true: spreads nothing":                             func(f *Function) { f.LanesByID = true },
			"Name=\"\": set it":                                           func(f *Function) { f.Name = "" },
			"Checkpoint.Manual=true: leaves nothing for Checkpoint.Every": func(f *Function) { f.Checkpoint = Checkpoint{Manual: true, Every: 5} },
			"Checkpoint.Every=5: adds nothing":                            func(f *Function) { f.Checkpoint = Checkpoint{Every: 5, Interval: EachBatch} },
			"Checkpoint.Interval=-2s: must not be negative":               func(f *Function) { f.Checkpoint = Checkpoint{Interval: -2 * time.Second} },
			"StartFrom=snapshot: all versions follow a snapshot":          func(f *Function) { f.StartFrom = FromSnapshot() },
			"StartFrom=beginning: all versions begin now, with a snapshot": func(f *Function) {
				f.ChangeFeedMode, f.StartFrom = cosmos.ModeAllVersions, FromBeginning()
			},
			"StartFrom=snapshot: at the end of a snapshot all changes must be durable: set Flush": func(f *Function) {
				f.ChangeFeedMode, f.StartFrom, f.Checkpoint = cosmos.ModeAllVersions, FromSnapshot(), Checkpoint{Manual: true}
			},
			"needs a continuation": func(f *Function) { f.StartFrom = FromContinuation("") },
			"Flush: has nothing to save, as a handled change is saved at once: set Checkpoint.Manual": func(f *Function) { f.Flush = func(context.Context, RangeInfo) error { return nil } },
			"BlockKeys=true: needs a store":                    func(f *Function) { f.BlockKeys, f.DeadLetters = true, DropDeadLetters },
			"BlockKeys=true: keeps the order":                  func(f *Function) { f.BlockKeys, f.LanesByID, f.DeadLetters = true, true, DropDeadLetters },
			"RetryMin=1m0s: must not be more than RetryMax=1s": func(f *Function) { f.RetryMin, f.RetryMax = time.Minute, time.Second },
			"share the lease prefix":                           func(f *Function) { f.Name, f.LeasePrefix = "b", "a" },
			"two functions are named \"a\"":                    func(f *Function) { f.LeasePrefix = "b" },
			"all versions begin":                               func(f *Function) { f.ChangeFeedMode, f.StartFrom = cosmos.ModeAllVersions, FromBeginning() },
			"SoftDeleteProperty=deleted: all versions":         func(f *Function) { f.ChangeFeedMode, f.SoftDeleteProperty = cosmos.ModeAllVersions, "deleted" },
		} {
			f := good
			change(&f)
			if _, err := New(w.leases, []Function{good, f}, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want an error about %q", err, want)
			}
		}
	})
}
