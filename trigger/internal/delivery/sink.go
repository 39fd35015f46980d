package delivery

import (
	"maps"
	"slices"
	"time"
)

// sinkHealth tells failures of the sink from failures of single keys. The lane owns
// it.
//
// In an outage, after outageGroups groups without a common key have failed with no
// success between, more calls would only fail as well: then one retry and one fresh
// batch are tried after each wait, until one succeeds. One of the groups must have been
// a fresh batch: where reading waits for failing keys, only these are called, and their
// failures say nothing about the sink.
type sinkHealth struct {
	failures     int               // failures in a row that count for the sink
	hasSucceeded bool              // there was a success since the previous failure
	failedKeys   []map[uint64]bool // of the groups that failed since the last success, without a common key
	allFailed    map[uint64]bool   // all keys of groups that failed since the last success
	freshFailed  bool              // a fresh batch has failed since the last success
	pauseUntil   time.Time         // in an outage: end of the wait after the last failure
	tried        probes            // calls since the wait before that ended
}

// probes says which kinds of call were made, or may be made.
type probes struct{ retry, fresh bool }

const outageGroups = 3

// repeats reports whether the failure of a group says nothing new about the sink,
// because its keys have failed before in a larger group. In an outage each failure
// counts.
func (s *sinkHealth) repeats(keys map[uint64]bool) bool {
	return !s.isOutage() && haveCommonKey(s.allFailed, keys)
}

// knowsFailing reports whether a group has failed while the sink worked, so that a
// further failure says nothing about the sink. On a quiet range the retries of a few
// poison keys would otherwise look like an outage, and delay the other keys.
func (s *sinkHealth) knowsFailing(r RetryState) bool { return r.Failures > 0 && !s.isOutage() }

// succeeded says that the sink accepts changes.
func (s *sinkHealth) succeeded() { *s = sinkHealth{hasSucceeded: true} }

// failed counts a failed group, which was a retry or a fresh batch. failures is the
// count of the sink after it.
func (s *sinkHealth) failed(keys map[uint64]bool, retry bool, failures int, now time.Time, p Policy) {
	s.failures, s.hasSucceeded, s.freshFailed = failures, false, s.freshFailed || !retry
	s.failedKeys = slices.DeleteFunc(s.failedKeys, func(earlierKeys map[uint64]bool) bool { return haveCommonKey(earlierKeys, keys) })
	s.failedKeys = append(s.failedKeys, maps.Clone(keys))
	if s.allFailed == nil {
		s.allFailed = map[uint64]bool{}
	}
	maps.Copy(s.allFailed, keys)
	if s.isOutage() {
		s.tried = probes{s.tried.retry || retry, s.tried.fresh || !retry}
		s.pauseUntil = now.Add(p.wait(failures))
	}
}

// haveCommonKey reports whether two groups have a key in common.
func haveCommonKey(a, b map[uint64]bool) bool {
	for key := range b {
		if a[key] {
			return true
		}
	}
	return false
}

func (s *sinkHealth) isOutage() bool { return s.freshFailed && len(s.failedKeys) >= outageGroups }

// worksFor reports whether a failure of a group counts for the group: the sink has
// accepted other changes since the previous failure, or the same keys have failed
// before and there is no outage.
func (s *sinkHealth) worksFor(keys map[uint64]bool) bool {
	return s.hasSucceeded || !s.isOutage() && slices.ContainsFunc(s.failedKeys, func(earlierKeys map[uint64]bool) bool { return maps.Equal(earlierKeys, keys) })
}

// mayCall returns the kinds of call that may be made now.
func (s *sinkHealth) mayCall(now time.Time) probes {
	if !s.isOutage() {
		return probes{true, true}
	}
	if !now.Before(s.pauseUntil) {
		s.tried = probes{}
	}
	return probes{!s.tried.retry, !s.tried.fresh}
}

// nextCall returns when a call that is ready at a time may be made. tried says that one of its
// kind was.
func (s *sinkHealth) nextCall(t time.Time, tried bool) time.Time {
	if !t.IsZero() && tried && s.isOutage() && t.Before(s.pauseUntil) {
		return s.pauseUntil
	}
	return t
}
