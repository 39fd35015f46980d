package delivery

import (
	"maps"
	"time"
)

// sinkHealth tells failures of the sink from failures of single keys. The lane owns
// it.
//
// In an outage, after outageGroups groups without a common key have failed in a row,
// more calls would only fail as well: then one retry and one fresh batch are tried
// after each wait, until one succeeds.
type sinkHealth struct {
	failures     int             // failures in a row that count for the sink
	hasSucceeded bool            // there was a success since the previous failure
	failedGroups int             // groups that failed since the last success
	commonKeys   map[uint64]bool // keys that all of them had
	pauseUntil   time.Time       // in an outage: end of the wait after the last failure
	tried        probes          // calls since the wait before that ended
}

// probes says which kinds of call were made, or may be made.
type probes struct{ retry, fresh bool }

const outageGroups = 3

// succeeded says that the sink accepts changes.
func (s *sinkHealth) succeeded() { *s = sinkHealth{hasSucceeded: true} }

// failed counts a failed group, which was a retry or a fresh batch. failures is the
// count of the sink after it.
func (s *sinkHealth) failed(keys map[uint64]bool, retry bool, failures int, now time.Time, p Policy) {
	inOutage := s.isOutage()
	s.failures, s.hasSucceeded = failures, false
	if s.failedGroups++; s.failedGroups == 1 {
		s.commonKeys = maps.Clone(keys)
	}
	maps.DeleteFunc(s.commonKeys, func(key uint64, _ bool) bool { return !keys[key] })
	switch {
	case !s.isOutage():
		return
	case !inOutage:
		s.tried = probes{true, true}
	case retry:
		s.tried.retry = true
	default:
		s.tried.fresh = true
	}
	s.pauseUntil = now.Add(p.wait(failures))
}

func (s *sinkHealth) isOutage() bool { return s.failedGroups >= outageGroups && len(s.commonKeys) == 0 }

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

// nextRetry returns when a retry that is due at a time may be made.
func (s *sinkHealth) nextRetry(due time.Time) time.Time { return s.notBefore(due, s.tried.retry) }

// nextFresh returns when a fresh batch that is ready at a time may be delivered.
func (s *sinkHealth) nextFresh(ready time.Time) time.Time { return s.notBefore(ready, s.tried.fresh) }

func (s *sinkHealth) notBefore(t time.Time, tried bool) time.Time {
	if !t.IsZero() && tried && s.isOutage() && t.Before(s.pauseUntil) {
		return s.pauseUntil
	}
	return t
}
