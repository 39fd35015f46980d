package trigger

import (
	"time"

	"halley/trigger/cosmos"
	"halley/trigger/internal/feed"
)

// commonPages identifies the pages that a function reads.
type commonPages struct {
	container *cosmos.Container
	mode      cosmos.Mode
	size      int // 0 if pages grow
}

// shareReads lets functions that are about to run share their reads, if they read the
// same pages. The caller calls end when all of them have ended.
func (h *Host) shareReads(runners []*functionRunner, draining bool) (end func()) {
	alike := map[commonPages][]*functionRunner{}
	for _, r := range runners {
		pages := commonPages{r.function.Container, r.function.ChangeFeedMode, r.function.PageItems}
		alike[pages] = append(alike[pages], r)
	}
	var all []*feed.SharedReads
	for _, readers := range alike {
		var shared *feed.SharedReads
		if len(readers) > 1 {
			shared = feed.NewSharedReads(h.host.pageBudget, len(readers), draining)
			all = append(all, shared)
		}
		for place, r := range readers {
			r.sharedReads, r.sharedPlace = shared, place
		}
	}
	return func() {
		for _, shared := range all {
			shared.Close()
		}
	}
}

// sharedMaxAge bounds the age of an answer without changes to another function. Its
// poll delay bounds the delay of changes. Within a tenth of the expiration no owner of the
// range can have read on, crashed and lost the lease to this host: trust in a lease ends
// that long before the lease does.
func (r *functionRunner) sharedMaxAge() time.Duration {
	return min(r.function.FeedPollDelay, r.host.options.LeaseExpirationInterval/10)
}
