package trigger

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// batchSettings are the cases of handler calls.
func batchSettings() []settingCase {
	return []settingCase{
		{
			field: "Function.HandlerTimeout", quantity: "seconds until the context of a call ends",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.HandlerTimeout = 20 * time.Second },
			measure: func(r *settingRun) (seconds float64) {
				r.writeMany("doc", 1)
				r.runFor(6*time.Minute, func(ctx context.Context, _ Batch) error {
					began := time.Now()
					<-ctx.Done()
					if seconds == 0 {
						seconds = time.Since(began).Seconds()
					}
					return context.Cause(ctx)
				})
				return seconds
			},
			defaultBounds: exactly(300), otherBounds: exactly(20),
		},
		{
			field: "Function.MaxItemsPerInvocation", quantity: "changes in the largest batch",
			setOther:      func(_ *settingRun, f *Function, _ *Options) { f.MaxItemsPerInvocation = 4 },
			measure:       func(r *settingRun) float64 { r.changesOfDrain(); return r.largestBatch() },
			defaultBounds: exactly(13), otherBounds: exactly(4),
		},
		{
			field: "Function.BatchBytes", quantity: "bytes of documents in the largest batch",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BatchBytes = 5000 },
			measure: func(r *settingRun) (largest float64) {
				r.writeLarge(20, 1000)
				r.drainOnce(handleAll)
				for _, c := range r.calls {
					largest = max(largest, float64(c.bytes))
				}
				return largest
			},
			defaultBounds: bounds{20_000, 40_000}, otherBounds: bounds{2500, 5000},
		},
		{
			field: "Function.BatchWindow", quantity: "seconds until the first call",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BatchWindow = 20 * time.Second },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 3)
				r.runFor(time.Minute, handleAll)
				return r.calls[0].since.Seconds()
			},
			defaultBounds: bounds{0, 1}, otherBounds: bounds{20, 21},
		},
		{
			field: "Function.Lanes", quantity: "calls at a time for one range",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Lanes = 3 },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 20)
				r.runFor(time.Minute, withDelay(time.Second, handleAll), changesOneByOne)
				return float64(r.maxRunning)
			},
			defaultBounds: exactly(1), otherBounds: exactly(3),
		},
		{
			field: "Function.LanesByID", quantity: "calls at a time for one logical partition key",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.LanesByID = true },
			measure: func(r *settingRun) float64 {
				for _, id := range []string{"one", "two", "three", "four", "five", "six", "seven", "eight"} {
					r.write("key", id)
				}
				r.runFor(time.Minute, withDelay(time.Second, handleAll), changesOneByOne, func(f *Function, _ *Options) { f.Lanes = 3 })
				return float64(r.maxRunning)
			},
			defaultBounds: exactly(1), otherBounds: bounds{2, 3},
		},
		{
			field: "Function.Rate", quantity: "changes of 200 in a minute",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.Rate = 2 },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 200)
				r.runFor(time.Minute, handleAll, changesOneByOne)
				return r.changeCount()
			},
			defaultBounds: exactly(200), otherBounds: bounds{115, 122},
		},
		{
			field: "Function.StallAfter", quantity: "seconds until the event of a call that does not return",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.StallAfter = 100 * time.Second },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(4*time.Minute, withDelay(time.Hour, handleAll))
				return r.eventAfter(EventStalled)
			},
			defaultBounds: bounds{60, 61}, otherBounds: bounds{100, 101},
		},
	}
}

// retrySettings are the cases of redelivery.
func retrySettings() []settingCase {
	return []settingCase{
		{
			field: "Function.RetryMin", quantity: "seconds between the first two calls",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.RetryMin = 10 * time.Second },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(time.Minute, failAlways)
				return r.callGaps()[0]
			},
			defaultBounds: bounds{0.05, 0.1}, otherBounds: bounds{5, 10}, // half of a wait is jitter
		},
		{
			field: "Function.RetryMax", quantity: "seconds in the longest wait of 10 min",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.RetryMax = 2 * time.Second },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(10*time.Minute, failAlways)
				return slices.Max(r.callGaps())
			},
			defaultBounds: bounds{25, 30}, otherBounds: bounds{1.5, 2},
		},
		{
			field: "Function.NoBisection", quantity: "changes in the smallest batch with one that fails among 8",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.NoBisection = true },
			measure: func(r *settingRun) float64 {
				r.writeMany("poison", 1)
				r.writeMany("doc", 7)
				r.runFor(time.Minute, failOnPoison(handleAll))
				smallest := r.largestBatch()
				for _, c := range r.calls {
					smallest = min(smallest, float64(c.changes))
				}
				return smallest
			},
			defaultBounds: exactly(1), otherBounds: exactly(8),
		},
		{
			field: "Function.MaxAttempts", quantity: "failed calls before a change is dead-lettered",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.MaxAttempts = 3 },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(10*time.Minute, failAlways, r.withLetters)
				return r.callCount() * r.letterCount()
			},
			defaultBounds: exactly(10), otherBounds: exactly(3),
		},
		{
			field: "Function.RetryMaxAge", quantity: "seconds until a failing change is dead-lettered, in 20 min",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.RetryMaxAge = 5 * time.Minute },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(20*time.Minute, failAlways, r.withLetters, func(f *Function, _ *Options) { f.MaxAttempts = -1 })
				return r.eventAfter(EventDeadLettered)
			},
			defaultBounds: exactly(-1), otherBounds: bounds{270, 330}, // with the wait at the age's end
		},
	}
}

// deadLetterSettings are the cases of changes that are given up.
func deadLetterSettings() []settingCase {
	// Changes of one key, because failures of several look like an outage of the sink,
	// in which calls are rare.
	runBreaker := func(r *settingRun, d time.Duration) {
		for i := range 20 {
			r.write("key", fmt.Sprint("doc", i))
		}
		r.runFor(d, failAlways, r.withLetters, changesOneByOne, func(f *Function, _ *Options) { f.MaxAttempts = 1 })
	}
	lettersBeforePause := func(r *settingRun) float64 {
		runBreaker(r, 50*time.Second)
		return r.letterCount()
	}
	breakerGap := func(r *settingRun) float64 {
		runBreaker(r, 5*time.Minute)
		events := r.eventsOf(EventDeadLettered)
		return events[12].Time.Sub(events[11].Time).Seconds()
	}
	return []settingCase{
		{
			field: "Function.DeadLetters", quantity: "dead letters of a change that fails for 10 min",
			setOther: func(r *settingRun, f *Function, _ *Options) { f.DeadLetters = r.store },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(10*time.Minute, failAlways)
				return r.letterCount()
			},
			defaultBounds: exactly(0), otherBounds: exactly(1),
		},
		{
			field: "Function.DeadLetters", quantity: "calls in 10 min with a change that fails",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.DeadLetters = DropDeadLetters },
			measure: func(r *settingRun) float64 {
				r.writeMany("doc", 1)
				r.runFor(10*time.Minute, failAlways)
				return r.callCount()
			},
			defaultBounds: bounds{20, 60}, otherBounds: exactly(10),
		},
		{
			field: "Function.BlockKeys", quantity: "dead letters of a key whose first change of 4 fails",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BlockKeys = true },
			measure: func(r *settingRun) float64 {
				for _, id := range []string{"poison", "two", "three", "four"} {
					r.write("key", id)
				}
				r.runFor(10*time.Minute, failOnPoison(handleAll), r.withLetters)
				return r.letterCount()
			},
			defaultBounds: exactly(1), otherBounds: exactly(4),
		},
		{
			field: "Function.BreakerLimit", quantity: "dead letters before the range pauses",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BreakerLimit = 3 },
			measure:  lettersBeforePause, defaultBounds: exactly(10), otherBounds: exactly(3),
		},
		{
			field: "Function.BreakerLimit", quantity: "dead letters before the range pauses",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BreakerLimit = -1 },
			measure:  lettersBeforePause, defaultBounds: exactly(10), otherBounds: exactly(20),
		},
		{
			field: "Function.BreakerPause", quantity: "seconds between dead letters in a row",
			setOther: func(_ *settingRun, f *Function, _ *Options) { f.BreakerPause = 10 * time.Second },
			measure:  breakerGap, defaultBounds: bounds{60, 61}, otherBounds: bounds{10, 11},
		},
	}
}
