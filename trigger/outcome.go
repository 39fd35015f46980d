package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"halley/trigger/cosmos"
)

// outcome is what the answer to a request asks of the caller. Each has one
// meaning, decided in classify and nowhere else.
type outcome int

const (
	succeeded     outcome = iota
	transient             // the same request again, after a backoff
	rangeGone             // the physical range split or merged: look at the ranges
	leaseConflict         // the document changed since it was read: read it, then decide
	leaseGone             // the document is not there
	unknown               // a write may have been applied: read, then decide
	containerGone         // the container is not there, or is another one under the old name
	refused               // the account denies it: somebody must change a key or a role
	invalid               // the service rejects the request as such; repeating it is useless
	cancelled             // our own context ended
)

// classify sorts every error of a request. Codes and substatus codes are those
// of azure-cosmos-dotnet-v3 (SubStatusCodes, ChangeFeedProcessor partitioning).
func classify(err error) outcome {
	if err == nil {
		return succeeded
	}
	if errors.Is(err, cosmos.ErrOutcomeUnknown) {
		return unknown
	}
	status, substatus := cosmos.Status(err)
	switch {
	case status == 0 && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return cancelled
	case status == 0: // no answer, or one that could not be understood
		return transient
	case status == 410 && (substatus == 1002 || substatus == 1007):
		return rangeGone
	case status == 410 && substatus == 1000, status == 404 && substatus == 1003, status == 400 && substatus == 1024:
		return containerGone
	case status == 404 && substatus == 1002: // session not available on this replica
		return transient
	case status == 404:
		return leaseGone
	case status == 412:
		return leaseConflict
	case status == 401, status == 403:
		return refused
	case status == 400, status == 405, status == 413:
		return invalid
	default: // 408, 409, 410/1008, 429, 449, 5xx
		return transient
	}
}

// unsure reports whether only the stored document can tell what a write did.
func (o outcome) unsure() bool { return o == leaseConflict || o == unknown }

// Backoff between attempts of anything that failed for the moment.
const (
	backoffBase = 100 * time.Millisecond
	backoffMax  = 30 * time.Second
)

// backoff is the wait before attempt n+1, after n ≥ 1 failures: exponential
// between base and limit, the upper half of it jitter. The jitter is a hash of
// who asks, so that hosts and ranges spread, yet a run can be repeated.
func backoff(n int, base, limit time.Duration, who ...any) time.Duration {
	ceiling := limit
	if n < 30 && base < limit>>(n-1) { // a shift to the left could overflow
		ceiling = base << (n - 1)
	}
	h := fnv.New32a()
	fmt.Fprint(h, n, who)
	share := float64(h.Sum32()) / math.MaxUint32
	return ceiling/2 + time.Duration(share*float64(ceiling/2))
}

// sleep waits for d or until ctx ends, and then gives its cause.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unmarshalProperty decodes one property of a document read as a map.
func unmarshalProperty(doc map[string]json.RawMessage, name string, v any) error {
	raw, ok := doc[name]
	if !ok {
		return fmt.Errorf("has no %s", name)
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("property %s: %w", name, err)
	}
	return nil
}
