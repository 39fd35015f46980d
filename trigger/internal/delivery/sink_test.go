package delivery

import (
	"testing"
	"time"
)

func keysOf(keys ...uint64) map[uint64]bool {
	set := map[uint64]bool{}
	for _, key := range keys {
		set[key] = true
	}
	return set
}

// While the sink works for other changes, the further failures of a key, or of a part of
// a group that has failed, say nothing about the sink. In an outage each failure counts.
func TestKnownFailuresSayNothingAboutTheSink(t *testing.T) {
	var s sinkHealth
	failed := RetryState{Failures: 1}
	fail := func(retry bool, keys ...uint64) { s.failed(keysOf(keys...), retry, 1, time.Now(), Policy{}) }
	check := func(moment string, known, part bool) {
		t.Helper()
		if got := s.knowsFailing(failed); got != known {
			t.Errorf("%s: a group that has failed before is known as failing: %v", moment, got)
		}
		if got := s.repeats(keysOf(2)); got != part {
			t.Errorf("%s: a part of a group repeats its failure: %v", moment, got)
		}
	}
	check("at the start", true, false)
	if s.knowsFailing(RetryState{}) {
		t.Error("a group that has not failed yet is known as failing")
	}
	fail(false, 1, 2, 3)
	check("after a failure", true, true)
	fail(true, 4)
	fail(true, 5)
	check("in an outage", false, false)
	s.succeeded()
	check("after a success", true, false)
}

// Where reading waits for failing keys, no fresh batch can show that the sink works, so
// their retries alone are no outage.
func TestRetriesAloneAreNoOutage(t *testing.T) {
	var s sinkHealth
	for key := range uint64(outageGroups) {
		s.failed(keysOf(key), true, 1, time.Now(), Policy{})
	}
	if s.isOutage() {
		t.Errorf("%d retries that fail in a row are an outage", outageGroups)
	}
	s.failed(keysOf(outageGroups), false, 1, time.Now(), Policy{})
	if !s.isOutage() {
		t.Error("with a fresh batch that fails, too, there is no outage")
	}
}
