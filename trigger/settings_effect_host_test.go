package trigger

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"halley/trigger/cosmos"
)

// leaseSettings are the cases of a host's leases.
func leaseSettings() []settingCase {
	return []settingCase{
		{
			field: "Options.Owner", quantity: "leases of owner zeta",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.Owner = "zeta" },
			ranges:   2,
			measure: func(r *settingRun) float64 {
				return r.leasesHeldBy("zeta", func(_ *Function, o *Options) { o.Owner = "" })
			},
			defaultBounds: exactly(0), otherBounds: exactly(2),
		},
		{
			field: "Options.AppName", quantity: "leases that name app shop",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.AppName = "shop" },
			ranges:   2,
			measure: func(r *settingRun) (named float64) {
				stop := r.startHost(r.newHost(handleAll))
				defer stop()
				time.Sleep(time.Minute)
				for _, l := range r.lagByRange() {
					if l.Holder == "shop/test" {
						named++
					}
				}
				return named
			},
			defaultBounds: exactly(0), otherBounds: exactly(2),
		},
		{
			field: "Options.LeaseAcquireInterval", quantity: "lists of the leases in 10 min",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.LeaseAcquireInterval = 2 * time.Second },
			measure: func(r *settingRun) float64 {
				var lists atomic.Int64
				stop := r.startHost(r.newHost(handleAll))
				defer stop()
				time.Sleep(time.Minute)
				r.setOnRequest(func(q *http.Request) {
					if isLeaseQuery(q) {
						lists.Add(1)
					}
				})
				time.Sleep(10 * time.Minute)
				return float64(lists.Load())
			},
			defaultBounds: bounds{45, 50}, otherBounds: bounds{295, 305}, // an audit lists them as well
		},
		{
			field: "Options.LeaseRenewInterval", quantity: "writes of an idle range's lease in 10 min",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.LeaseRenewInterval = 5 * time.Second },
			measure: func(r *settingRun) float64 {
				stop := r.startHost(r.newHost(handleAll))
				defer stop()
				time.Sleep(time.Minute)
				sentBefore := r.countRequests()
				time.Sleep(10 * time.Minute)
				return float64(r.countRequests().minus(sentBefore).writes)
			},
			defaultBounds: bounds{34, 36}, otherBounds: bounds{119, 121},
		},
		{
			field: "Options.LeaseExpirationInterval", quantity: "seconds until a dead owner's lease is acquired",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.LeaseExpirationInterval = 3 * time.Minute },
			measure: func(r *settingRun) float64 {
				_, err := r.host("dead", handleAll).Drain(r.t.Context())
				must(r.t, err)
				abandonedLease := r.leaseDocuments()["0"].clone()
				abandonedLease.owner = "dead"
				r.replaceLease(abandonedLease)
				r.events = nil
				r.runFor(5*time.Minute, handleAll)
				return r.eventAfter(EventAcquired)
			},
			defaultBounds: bounds{60, 75}, otherBounds: bounds{180, 195}, // with a pass of the balancer
		},
		{
			field: "Options.AuditInterval", quantity: "seconds until a deleted lease without an owner is there again",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.AuditInterval = time.Minute },
			ranges:   2, measure: (*settingRun).untilLeaseRestored,
			defaultBounds: bounds{270, 330}, otherBounds: bounds{50, 90}, // a second audit has to see the gap
		},
		{
			field: "Options.MinLeases", quantity: "free leases of 6 that a host takes at once, next to one that has 2",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.MinLeases = 5 },
			ranges:   8, measure: (*settingRun).leasesTakenAtOnce, defaultBounds: exactly(4), otherBounds: exactly(5),
		},
		{
			field: "Options.MaxLeases", quantity: "leases of 8, next to another host",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.MaxLeases = 3 },
			ranges:   8, measure: (*settingRun).leasesNextToOther, defaultBounds: exactly(4), otherBounds: exactly(3),
		},
	}
}

// hostSettings are the cases of a host's limits, logs and observers.
func hostSettings() []settingCase {
	return []settingCase{
		{
			field: "Options.StopGrace", quantity: "seconds until a running call ends after a stop",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.StopGrace = 60 * time.Second },
			measure:  (*settingRun).stopSeconds, defaultBounds: bounds{8, 9}, otherBounds: bounds{48, 50}, // four fifths
		},
		{
			field: "Options.StuckGrace", quantity: "seconds until the range of a call that ignores its context is given up",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.StuckGrace = 40 * time.Second },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				returned := make(chan struct{})
				r.runFor(3*time.Minute, ignoringContext(returned), func(f *Function, _ *Options) { f.HandlerTimeout = time.Minute })
				close(returned)
				return r.eventAfter(EventReleased)
			},
			defaultBounds: bounds{70, 71}, otherBounds: bounds{100, 101},
		},
		{
			field: "Options.MaxStuck", quantity: "calls that are left behind when Run ends",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.MaxStuck = 2 },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				returned := make(chan struct{})
				h := r.newHost(ignoringContext(returned), func(f *Function, _ *Options) { f.HandlerTimeout = time.Second })
				if h.Run(r.t.Context()) == nil {
					r.t.Error("run ended without an error")
				}
				close(returned)
				return r.callCount()
			},
			defaultBounds: exactly(17), otherBounds: exactly(3),
		},
		{
			field: "Options.ReadAhead", quantity: "bytes of pages in memory next to a slow handler",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.ReadAhead = 600_000 },
			measure: func(r *settingRun) float64 {
				r.writeLarge(20, 100_000)
				h := r.newHost(withDelay(time.Hour, handleAll))
				stop := r.startHost(h)
				defer stop()
				time.Sleep(time.Minute)
				return float64(h.Status().ReadAheadBytes)
			},
			// The range may have one transaction above the bound.
			defaultBounds: bounds{2_000_000, 2_200_000}, otherBounds: bounds{400_000, 705_000},
		},
		{
			field: "Options.Parallel", quantity: "ranges of 8 at a time in a drain",
			setOther: func(_ *settingRun, _ *Function, o *Options) { o.Parallel = 3 },
			ranges:   8,
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 80)
				r.drainOnce(withDelay(time.Second, handleAll))
				return float64(r.maxRunning)
			},
			defaultBounds: exactly(8), otherBounds: exactly(3),
		},
		{
			field: "Options.Logger", quantity: "lines with the lease that was acquired",
			setOther: func(r *settingRun, _ *Function, o *Options) { o.Logger = slog.New(slog.NewJSONHandler(&r.logged, nil)) },
			measure:  (*settingRun).acquisitionsLogged, defaultBounds: exactly(0), otherBounds: exactly(1),
		},
		{
			field: "Options.Observers", quantity: "acquisitions and releases observed for 3 ranges",
			setOther: func(r *settingRun, _ *Function, o *Options) {
				o.Observers = []func(Event){func(e Event) {
					if e.Kind == EventAcquired || e.Kind == EventReleased {
						r.note(string(e.Kind))
					}
				}}
			},
			ranges: 3, measure: (*settingRun).callbacksOfRun, defaultBounds: exactly(0), otherBounds: exactly(6),
		},
	}
}

// leasesHeldBy returns the leases of an owner while host "a" runs.
func (r *settingRun) leasesHeldBy(owner string, scenario ...func(*Function, *Options)) float64 {
	stop := r.startHost(r.newHost(handleAll, scenario...))
	defer stop()
	time.Sleep(time.Minute)
	return float64(r.leasesByOwner()[owner])
}

// leasesNextToOther returns the leases of host "a" while host "b" runs as well.
func (r *settingRun) leasesNextToOther() float64 {
	stop := r.startHost(r.host("b", handleAll))
	defer stop()
	time.Sleep(time.Minute)
	stopA := r.startHost(r.newHost(handleAll))
	defer stopA()
	time.Sleep(5 * time.Minute)
	return float64(r.leasesByOwner()["a"])
}

// leasesTakenAtOnce returns the leases of host "a" before it looks at them for a second
// time. Host "b" leaves most of them to others.
func (r *settingRun) leasesTakenAtOnce() float64 {
	stop := r.startHost(r.host("b", handleAll, func(_ *Function, o *Options) { o.MaxLeases = 2 }))
	defer stop()
	time.Sleep(time.Minute)
	stopA := r.startHost(r.newHost(handleAll))
	defer stopA()
	time.Sleep(5 * time.Second)
	return float64(r.leasesByOwner()["a"])
}

// untilLeaseRestored deletes the lease that a host leaves to others, and returns the
// seconds until it is there again.
func (r *settingRun) untilLeaseRestored() float64 {
	r.t.Helper()
	stop := r.startHost(r.newHost(handleAll, func(_ *Function, o *Options) { o.MaxLeases = 1 }))
	defer stop()
	time.Sleep(30 * time.Second)
	for _, l := range r.leaseDocuments() {
		if l.owner == "" {
			_, err := r.leases.Delete(r.t.Context(), l.id, cosmos.NewPartitionKey(l.id), "")
			must(r.t, err)
		}
	}
	deletedAt := time.Now()
	if n := len(r.leaseDocuments()); n != 1 {
		r.t.Errorf("%d leases are left", n)
	}
	for len(r.leaseDocuments()) < 2 && time.Since(deletedAt) < time.Hour {
		time.Sleep(5 * time.Second)
	}
	return time.Since(deletedAt).Seconds()
}

// stopSeconds stops a host while its handler waits for the end of its context.
func (r *settingRun) stopSeconds() float64 {
	r.writeMany("doc", 1)
	stop := r.startHost(r.newHost(func(ctx context.Context, _ Batch) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}))
	time.Sleep(30 * time.Second)
	stoppedAt := time.Now()
	stop()
	return time.Since(stoppedAt).Seconds()
}

// ignoringContext is a handler whose calls return when the channel is closed.
func ignoringContext(returned <-chan struct{}) Handler {
	return func(context.Context, Batch) error {
		<-returned
		return nil
	}
}

// acquisitionsLogged runs a host whose world has no logger.
func (r *settingRun) acquisitionsLogged() float64 {
	r.runFor(time.Minute, handleAll)
	return float64(strings.Count(r.logged.String(), `"lease acquired"`))
}

// setOnRequest has f get each request before the account does.
func (r *settingRun) setOnRequest(f func(*http.Request)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.onRequest = f
}
