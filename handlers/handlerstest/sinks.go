package handlerstest

import (
	"maps"
	"slices"
	"sync"

	"halley/handlers"
)

// Sinks adds up the uses of sinks by a handler. It is safe for concurrent use:
//
//	var sinks handlerstest.Sinks
//	handler := handlerstest.Under(t, entry, handlers.Env{Measure: sinks.Measure})
type Sinks struct {
	mu  sync.Mutex // guards all
	all map[string]SinkTotal
}

// SinkTotal is the sum of the uses of one sink.
type SinkTotal struct {
	OK, Conflicts, Throttled, Timeouts, Errors int // requests
	Rows, Retries                              int
}

// Measure is for [handlers.Env].
func (s *Sinks) Measure(u handlers.SinkUse) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[string]SinkTotal{}
	}
	total := s.all[u.Sink]
	total.Rows += u.Rows
	total.Retries += u.Retries
	switch u.Outcome {
	case handlers.SinkOK:
		total.OK++
	case handlers.SinkConflict:
		total.Conflicts++
	case handlers.SinkThrottled:
		total.Throttled++
	case handlers.SinkTimeout:
		total.Timeouts++
	case handlers.SinkError:
		total.Errors++
	}
	s.all[u.Sink] = total
}

// Of returns the total of a sink.
func (s *Sinks) Of(sink string) SinkTotal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[sink]
}

// Names returns the sinks that the handler has told, sorted.
func (s *Sinks) Names() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.all))
}
